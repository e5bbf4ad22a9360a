//! The files of `coordination/`, by name.

use serde_json::{Map, Value, json};

use super::super::step::Role;
use super::{Document, GroupId, GroupPart, Mailbox, Stage};

impl Document {
    /// Returns every file: its path below `coordination/`, and its content.
    pub(in crate::team) fn files(&self) -> Vec<(String, Value)> {
        if let Some(imported) = self.imported.as_ref().filter(|imported| imported.unchanged) {
            return imported.files.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        }
        let mut files = vec![
            ("pm_state.json".to_owned(), self.pm_state()),
            ("group_status.json".to_owned(), self.group_status()),
            ("orchestrator_state.json".to_owned(), self.orchestrator_state()),
        ];
        for mailbox in Mailbox::ALL {
            let own = self.messages.iter().filter(|message| message.mailbox == mailbox);
            let messages: Vec<_> = own.map(super::Message::shown).collect();
            files.push((mailbox.file().to_owned(), json!({ "messages": messages })));
        }
        if let Some(imported) = &self.imported {
            for (name, value) in &mut files {
                if let (Some(Value::Object(extra)), Value::Object(members)) =
                    (imported.extra.get(name), value)
                {
                    add_missing(members, extra);
                }
            }
        }
        files
    }

    pub(super) fn group_status(&self) -> Value {
        let groups = self.plan.groups.iter().filter_map(|planned| {
            let group = self.groups.get(&planned.id)?;
            Some((planned.id.to_string(), self.shown_group(&planned.id, group)))
        });
        Value::Object(groups.collect())
    }

    pub(in crate::team) fn shown_group(&self, id: &GroupId, group: &GroupPart) -> Value {
        let planned = self.planned(id);
        let agent = [Role::Developer, Role::Qa, Role::TechLead].into_iter().find_map(|role| {
            let step = super::Step::Group(id.clone(), role);
            self.run.active.contains_key(&step.id()).then(|| step.agent())
        });
        let mut shown = json!({
            "group_id": id,
            "group_name": planned.map_or("", |planned| &planned.name),
            "status": group.status(),
            "current_agent": agent.unwrap_or("none"),
            "iterations": group.iterations,
            "branch_name": planned.map_or("", |planned| &planned.branch_name),
            "files_modified": group.files_modified,
            "commits": group.commits,
            "test_results": group.test_results,
            "tech_lead_feedback": group.feedback,
            "blockers": group.blockers,
            "last_update": group.last_update,
        });
        let members = shown.as_object_mut().expect("BUG: a group is an object");
        let mut add = |name: &str, value: Option<Value>| {
            members.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("start_time", group.start_time.map(|start| json!(start)));
        add("end_time", group.end_time.map(|end| json!(end)));
        add("duration_minutes", group.minutes().map(|minutes| json!((minutes * 100.0).round() / 100.0)));
        let mut quality = Map::new();
        quality.extend(group.code_quality_score.map(|score| ("code_quality_score".to_owned(), json!(score))));
        quality.extend(
            group.security_issues_count.map(|count| ("security_issues_count".to_owned(), json!(count))),
        );
        if matches!(group.stage, Stage::Merge | Stage::Complete) {
            quality.insert("first_pass_approval".to_owned(), (group.sent_back == 0).into());
        }
        add("quality_metrics", (!quality.is_empty()).then_some(Value::Object(quality)));
        add("closed", group.closed().map(Into::into));
        add("closed_reason", group.closed_because.clone().map(Into::into));
        add("claimed_complete", group.claimed_complete.then_some(true.into()));
        shown
    }
}

/// Adds the members that are not there, at every level.
fn add_missing(members: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (name, value) in extra {
        match (members.get_mut(name), value) {
            (None, value) => {
                members.insert(name.clone(), value.clone());
            }
            (Some(Value::Object(members)), Value::Object(extra)) => add_missing(members, extra),
            (Some(_), _) => {}
        }
    }
}
