//! The rules of the six files: what the seed's schemas say about types and words, and what they leave out.

use std::collections::BTreeSet;

use serde_json::Value;

use super::definition::GroupId;
use crate::check::{Violation, entry, kind, member, shortened};
use crate::present::{CheckedFile, FileFormat};

/// The formats for `callboard check`.
pub(super) const FORMATS: &[FileFormat] = &[
    FileFormat {
        name: "pm_state",
        matches: |name, value| name.ends_with("pm_state.json") || value.get("task_groups").is_some(),
        check: pm_state,
    },
    FileFormat {
        name: "group_status",
        matches: |name, _| name.ends_with("group_status.json"),
        check: group_status,
    },
    FileFormat {
        name: "orchestrator_state",
        matches: |name, value| {
            name.ends_with("orchestrator_state.json") || value.get("decisions_log").is_some()
        },
        check: orchestrator_state,
    },
    FileFormat {
        name: "team_messages",
        matches: |name, value| {
            const NAMES: [&str; 5] = ["dev_to_qa", "qa_to_techlead", "techlead_to_dev", "qa_to_dev", "to_pm"];
            value.get("messages").is_some()
                && NAMES.iter().any(|known| name.ends_with(&format!("{known}.json")))
        },
        check: messages,
    },
];

/// Collects what is wrong.
#[derive(Default)]
struct Rules(Vec<Violation>);

impl Rules {
    fn add(&mut self, rule: &'static str, pointer: String, message: String, repair: &str) {
        self.0.push(Violation { rule, pointer, message, repair: repair.to_owned() });
    }

    fn required(&mut self, value: &Value, names: &[&str]) {
        for name in names.iter().filter(|name| value.get(**name).is_none()) {
            self.add("required", String::new(), format!("`{name}` is missing"), "add it");
        }
    }

    fn word(&mut self, value: &Value, at: &str, name: &str, words: &[&str]) {
        if let Some(found) = value.get(name)
            && !found.as_str().is_some_and(|word| words.contains(&word))
        {
            let message = format!("`{name}` is {}", shortened(found));
            self.add("word", member(at, name), message, &format!("use one of {}", words.join(", ")));
        }
    }

    fn time(&mut self, value: &Value, at: &str, name: &str) {
        if let Some(found) = value.get(name)
            && found.as_str().is_none_or(|text| text.parse::<crate::Stamp>().is_err())
        {
            let message = format!("`{name}` is {}, not a time", shortened(found));
            let repair = if found.is_null() { "leave it out" } else { "write it as 2025-01-06T10:00:00Z" };
            self.add("time", member(at, name), message, repair);
        }
    }

    fn count(&mut self, value: &Value, at: &str, name: &str) {
        if let Some(found) = value.get(name)
            && found.as_u64().is_none()
        {
            let message = format!("`{name}` is {}, not a count", shortened(found));
            self.add("count", member(at, name), message, "write a whole number from 0");
        }
    }

    fn into_file(self, summary: String) -> CheckedFile {
        CheckedFile { violations: self.0, warnings: Vec::new(), summary }
    }
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = (usize, &'v Value)> {
    value.get(name).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn pm_state(value: &Value) -> CheckedFile {
    let mut rules = Rules::default();
    if !value.is_object() {
        rules.add("object", String::new(), format!("it is {}", kind(value)), "write an object");
        return rules.into_file(String::new());
    }
    let required = ["session_id", "mode", "original_requirements", "task_groups", "iteration", "last_update"];
    rules.required(value, &required);
    rules.word(value, "", "mode", &["simple", "parallel"]);
    rules.count(value, "", "iteration");
    rules.time(value, "", "last_update");
    if let Some(percent) = value.get("completion_percentage")
        && !percent.as_f64().is_some_and(|percent| (0.0..=100.0).contains(&percent))
    {
        let message = format!("`completion_percentage` is {}", shortened(percent));
        rules.add("percentage", member("", "completion_percentage"), message, "write a number from 0 to 100");
    }
    let mut ids = BTreeSet::new();
    for (index, group) in items(value, "task_groups") {
        let at = entry(&member("", "task_groups"), index);
        rules.word(group, &at, "status", &["pending", "assigned", "in_progress", "complete"]);
        rules.word(group, &at, "complexity", &["low", "medium", "high"]);
        let id = group["id"].as_str().unwrap_or_default();
        if let Err(why) = GroupId::new(id) {
            rules.add("group_id", member(&at, "id"), why, "use letters, digits, `_` and `-`");
        }
        if !ids.insert(id) {
            rules.add("unique", member(&at, "id"), format!("there are two groups `{id}`"), "rename one");
        }
    }
    for (index, group) in items(value, "task_groups") {
        let at = member(&entry(&member("", "task_groups"), index), "depends_on");
        for (position, needed) in items(group, "depends_on") {
            let needed = needed.as_str().unwrap_or_default();
            if !ids.contains(needed) || group["id"] == needed {
                let message = format!("`{needed}` is no other group");
                rules.add(
                    "depends_on",
                    entry(&at, position),
                    message,
                    "name a group of the plan, or remove it",
                );
            }
        }
    }
    for list in ["completed_groups", "in_progress_groups", "pending_groups"] {
        for (index, id) in
            items(value, list).filter(|(_, id)| !id.as_str().is_some_and(|id| ids.contains(id)))
        {
            let message = format!("{} is no group", shortened(id));
            rules.add("membership", entry(&member("", list), index), message, "name a group of the plan");
        }
    }
    for (index, task) in items(value, "all_tasks") {
        let at = entry(&member("", "all_tasks"), index);
        rules.word(task, &at, "status", &["pending", "in_progress", "complete"]);
    }
    for (index, phase) in items(value, "execution_phases") {
        let at = entry(&member("", "execution_phases"), index);
        rules.word(phase, &at, "status", &["pending", "in_progress", "complete"]);
    }
    rules.into_file(format!("{} groups", ids.len()))
}

const GROUP_STATUSES: [&str; 10] = [
    "pending",
    "dev_working",
    "dev_blocked",
    "waiting_qa",
    "qa_testing",
    "qa_failed",
    "waiting_review",
    "tech_review",
    "changes_requested",
    "complete",
];

fn group_status(value: &Value) -> CheckedFile {
    let mut rules = Rules::default();
    let Some(groups) = value.as_object() else {
        rules.add("object", String::new(), format!("it is {}", kind(value)), "write an object");
        return rules.into_file(String::new());
    };
    for (id, group) in groups {
        let at = member("", id);
        if !group.is_object() {
            rules.add("object", at, format!("group `{id}` is {}", kind(group)), "write an object");
            continue;
        }
        if group.get("group_id").is_some_and(|found| found != id) {
            let message = format!("`group_id` differs from the key `{id}`");
            rules.add("group_id", member(&at, "group_id"), message, "make both the same");
        }
        rules.word(group, &at, "status", &GROUP_STATUSES);
        rules.word(group, &at, "current_agent", &["developer", "qa_expert", "tech_lead", "none"]);
        for name in ["start_time", "end_time", "last_update"] {
            rules.time(group, &at, name);
        }
        for name in ["developer", "qa", "tech_lead"] {
            if let Some(iterations) = group.get("iterations") {
                rules.count(iterations, &member(&at, "iterations"), name);
            }
        }
    }
    let complete = groups.values().filter(|group| group["status"] == "complete").count();
    rules.into_file(format!("{} groups, {complete} complete", groups.len()))
}

fn orchestrator_state(value: &Value) -> CheckedFile {
    let mut rules = Rules::default();
    rules.required(value, &["session_id", "current_phase", "iteration", "status", "start_time"]);
    rules.word(value, "", "status", &["running", "completed", "error"]);
    let phases = [
        "initialization",
        "pm_planning",
        "developer_working",
        "qa_testing",
        "tech_review",
        "pm_final_check",
        "completed",
    ];
    rules.word(value, "", "current_phase", &phases);
    for name in ["start_time", "end_time", "last_update"] {
        rules.time(value, "", name);
    }
    for name in ["iteration", "total_spawns"] {
        rules.count(value, "", name);
    }
    rules.into_file(format!("{} decisions", items(value, "decisions_log").count()))
}

fn messages(value: &Value) -> CheckedFile {
    let mut rules = Rules::default();
    let mut ids = BTreeSet::new();
    for (index, message) in items(value, "messages") {
        let at = entry(&member("", "messages"), index);
        match message["id"].as_str() {
            None => rules.add("required", at.clone(), "the message has no `id`".to_owned(), "add one"),
            Some(id) if !ids.insert(id) => {
                rules.add(
                    "unique",
                    member(&at, "id"),
                    format!("there are two messages `{id}`"),
                    "rename one",
                );
            }
            Some(_) => {}
        }
        rules.time(message, &at, "timestamp");
        rules.word(message, &at, "result", &["PASS", "FAIL"]);
        rules.word(message, &at, "decision", &["approved", "changes_requested", "unblocked"]);
    }
    rules.into_file(format!("{} messages", ids.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str) -> CheckedFile {
        let value = serde_json::from_str(text).unwrap();
        let format = FORMATS.iter().find(|format| (format.matches)(name, &value)).expect("the file is known");
        (format.check)(&value)
    }

    #[test]
    fn the_examples_of_the_seed_pass_except_for_the_end_that_is_null() {
        let examples = [
            ("pm_state.json", include_str!("../../tests/fixtures/team/pm_state.json")),
            ("group_status.json", include_str!("../../tests/fixtures/team/group_status.json")),
            ("dev_to_qa.json", include_str!("../../tests/fixtures/team/dev_to_qa.json")),
            ("qa_to_techlead.json", include_str!("../../tests/fixtures/team/qa_to_techlead.json")),
            ("techlead_to_dev.json", include_str!("../../tests/fixtures/team/techlead_to_dev.json")),
        ];
        for (name, text) in examples {
            assert_eq!(check(name, text).violations, [], "{name}");
        }
        let text = include_str!("../../tests/fixtures/team/orchestrator_state.json");
        let found = check("orchestrator_state.json", text).violations;
        assert_eq!(found.iter().map(|found| found.pointer.as_str()).collect::<Vec<_>>(), ["/end_time"]);
    }

    #[test]
    fn what_the_schemas_accept_and_is_unusable_is_found() {
        let rules = |name: &str, text: &str| -> Vec<&'static str> {
            check(name, text).violations.iter().map(|found| found.rule).collect()
        };
        let pm = r#"{"session_id": "s", "mode": "simple", "original_requirements": "r", "iteration": -1,
            "last_update": "2025-01-06T10:00:00Z", "completion_percentage": 900,
            "task_groups": [{"id": "A", "depends_on": ["A", "X"]}, {"id": "A"}]}"#;
        assert_eq!(rules("pm_state.json", pm), ["count", "percentage", "unique", "depends_on", "depends_on"]);
        assert_eq!(
            rules("group_status.json", r#"{"A": {"group_id": "B"}, "_comment": "x"}"#),
            ["group_id", "object"]
        );
        assert_eq!(rules("dev_to_qa.json", r#"{"messages": [{}]}"#), ["required"]);
    }
}
