//! The files of `coordination/` by name. A mailbox is a file with the messages to a role.

use serde_json::{Map, Value, json};

use super::super::import::objects;
use super::super::step::Role;
use super::{Document, GroupId, GroupPart, Imported, Mailbox, Stage};

impl Document {
    /// Returns every file: its path below `coordination/`, and its content.
    pub(in crate::team) fn files(&self) -> Vec<(String, Value)> {
        let mut files = vec![
            ("pm_state.json".to_owned(), self.pm_state()),
            ("group_status.json".to_owned(), self.group_status()),
            ("orchestrator_state.json".to_owned(), self.orchestrator_state()),
        ];
        for mailbox in Mailbox::ALL {
            let own = self.messages.iter().filter(|message| message.mailbox == mailbox);
            let messages: Vec<_> = own.map(super::Message::to_json).collect();
            files.push((mailbox.file().to_owned(), json!({ "messages": messages })));
        }
        // `coordination` has the files from which the run was imported.
        let Some(Imported { coordination, unchanged }) = &self.imported else { return files };
        if *unchanged {
            // The two mailboxes that the original does not have are left out unless they were imported.
            files
                .retain(|(name, _)| coordination.files.contains_key(name) || Mailbox::is_original_file(name));
        }
        for (name, value) in &mut files {
            match coordination.files.get(name) {
                Some(imported) if *unchanged && !coordination.damaged.contains(name) => {
                    value.clone_from(imported);
                }
                Some(imported) => add_missing(value, imported),
                None => {}
            }
        }
        files
    }

    pub(super) fn group_status(&self) -> Value {
        let groups = self.plan.groups.iter().filter_map(|planned| {
            let group = self.groups.get(&planned.id)?;
            Some((planned.id.to_string(), self.group_json(&planned.id, group)))
        });
        Value::Object(groups.collect())
    }

    /// Returns a group as `group_status.json` has it.
    pub(in crate::team) fn group_json(&self, id: &GroupId, group: &GroupPart) -> Value {
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
        // Only of an imported group: its files claim that it is complete.
        add("claimed_complete", group.claimed_complete.then_some(true.into()));
        shown
    }
}

/// Optional members that only the engine sets. An imported value of such a member is dropped, unless it is null.
const DERIVED: [&str; 8] = [
    "start_time",
    "end_time",
    "duration_minutes",
    "quality_metrics",
    "first_pass_approval",
    "estimated_time_remaining_minutes",
    "closed",
    "closed_reason",
];

/// Adds the imported members that `shown` does not have, at every level. Entries of lists are matched by `id` or `group_id`, or
/// by position if they have neither. An imported list may also be an object with the ids as keys.
fn add_missing(shown: &mut Value, imported: &Value) {
    match (shown, imported) {
        (Value::Object(shown), Value::Object(imported)) => {
            for (name, value) in imported {
                match shown.get_mut(name) {
                    Some(member) => add_missing(member, value),
                    None if DERIVED.contains(&name.as_str()) && !value.is_null() => {}
                    None => {
                        shown.insert(name.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(shown), imported @ (Value::Array(_) | Value::Object(_))) => {
            for (index, entry) in objects(Some(imported.clone()), "id").into_iter().enumerate() {
                let id = entry.get("id").or(entry.get("group_id"));
                let matching = match id {
                    Some(id) => shown.iter_mut().find(|shown| shown["id"] == *id),
                    None => shown.get_mut(index).filter(|shown| shown.is_object()),
                };
                if let Some(matching) = matching {
                    add_missing(matching, &Value::Object(entry));
                }
            }
        }
        (_, _) => {}
    }
}
