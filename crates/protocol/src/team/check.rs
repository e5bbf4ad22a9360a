//! Checks the files of `coordination/` against the original schemas, and against rules that the schemas do not have.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::definition::GroupId;
use super::document::Mailbox;
use super::report::plan::is_ref_name;
use crate::check::{Violation, artifact_path_problem, entry_pointer, member_pointer, schema, shortened};
use crate::dependencies::first_cyclic;
use crate::present::{CheckedFile, FileFormat};

/// The formats for `callboard check`.
pub(super) const FORMATS: &[FileFormat] = &[
    FileFormat {
        name: "pm_state",
        matches: |name, value| name.ends_with("pm_state.json") || value.get("task_groups").is_some(),
        check: check_pm_state,
    },
    FileFormat {
        name: "group_status",
        matches: |name, _| name.ends_with("group_status.json"),
        check: check_group_status,
    },
    FileFormat {
        name: "orchestrator_state",
        matches: |name, value| {
            name.ends_with("orchestrator_state.json") || value.get("decisions_log").is_some()
        },
        check: check_orchestrator_state,
    },
    FileFormat {
        name: "dev_to_qa",
        matches: |name, _| name.ends_with("dev_to_qa.json"),
        check: |value| check_messages(Mailbox::DevToQa, value),
    },
    FileFormat {
        name: "qa_to_techlead",
        matches: |name, _| name.ends_with("qa_to_techlead.json"),
        check: |value| check_messages(Mailbox::QaToTechlead, value),
    },
    FileFormat {
        name: "techlead_to_dev",
        matches: |name, _| name.ends_with("techlead_to_dev.json"),
        check: |value| check_messages(Mailbox::TechleadToDev, value),
    },
    FileFormat {
        name: "team_messages",
        matches: |name, _| name.ends_with("qa_to_dev.json") || name.ends_with("to_pm.json"),
        check: |value| check_messages(Mailbox::ToPm, value),
    },
];

/// The violations of one file.
struct FileCheck(Vec<Violation>);

impl FileCheck {
    /// Starts with the violations of the schema.
    fn new(schema: &str, value: &Value) -> Self {
        Self(schema::violations(&serde_json::from_str(schema).expect("BUG: the schema is JSON"), value))
    }

    fn add(&mut self, rule: &'static str, pointer: String, message: String, repair: &str) {
        self.0.push(Violation { rule, pointer, message, repair: repair.to_owned() });
    }

    /// Checks that a count is not negative. The schema checks that it is a number.
    fn check_count(&mut self, value: &Value, at: &str, name: &str) {
        if let Some(found) = value.get(name).filter(|found| found.as_i64().is_some_and(|count| count < 0)) {
            let message = format!("`{name}` is {}, not a count", shortened(found));
            self.add("count", member_pointer(at, name), message, "write a whole number from 0");
        }
    }

    /// Checks that each group is in one list, and in `completed_groups` only if it is complete.
    fn check_memberships(&mut self, value: &Value, is_group: impl Fn(&Value) -> bool) {
        let mut listed: BTreeMap<&str, &str> = BTreeMap::new();
        for list in ["completed_groups", "in_progress_groups", "pending_groups"] {
            for (index, id) in items(value, list) {
                let at = entry_pointer(&member_pointer("", list), index);
                if !is_group(id) {
                    let message = format!("{} is no group", shortened(id));
                    self.add("membership", at, message, "name a group of the plan");
                    continue;
                }
                if let Some(other) = id.as_str().and_then(|id| listed.insert(id, list)) {
                    let message = format!("{} is in `{other}`, too", shortened(id));
                    self.add("membership", at.clone(), message, "leave it in one list");
                }
                let group = items(value, "task_groups").find(|(_, group)| group["id"] == *id);
                // A group without a status may be in any list.
                let status = group.and_then(|(_, group)| group["status"].as_str()).unwrap_or("complete");
                if list == "completed_groups" && status != "complete" {
                    let message = format!("{} is `{status}`, not complete", shortened(id));
                    self.add("membership", at, message, "move it to the list of its status");
                }
            }
        }
    }

    fn check_tasks(&mut self, value: &Value, is_group: impl Fn(&Value) -> bool) {
        let mut ids = BTreeSet::new();
        for (index, task) in items(value, "all_tasks") {
            let at = entry_pointer(&member_pointer("", "all_tasks"), index);
            if let Some(id) = task["id"].as_str().filter(|id| !ids.insert(*id)) {
                self.add(
                    "unique",
                    member_pointer(&at, "id"),
                    format!("there are two tasks `{id}`"),
                    "rename one",
                );
            }
            let group = task.get("group_id").filter(|group| !group.is_null() && **group != "");
            if let Some(group) = group.filter(|group| !is_group(group)) {
                let message = format!("{} is no group", shortened(group));
                self.add("task_group", member_pointer(&at, "group_id"), message, "name a group of the plan");
            }
        }
    }

    fn check_phases(&mut self, value: &Value, is_group: impl Fn(&Value) -> bool) {
        let mut numbers = BTreeSet::new();
        for (index, phase) in items(value, "execution_phases") {
            let at = entry_pointer(&member_pointer("", "execution_phases"), index);
            if let Some(number) = phase["phase_number"].as_i64().filter(|number| !numbers.insert(*number)) {
                let message = format!("there are two phases {number}");
                self.add(
                    "unique",
                    member_pointer(&at, "phase_number"),
                    message,
                    "number them in their order",
                );
            }
            for (position, id) in items(phase, "group_ids").filter(|(_, id)| !is_group(id)) {
                let message = format!("{} is no group", shortened(id));
                let at = entry_pointer(&member_pointer(&at, "group_ids"), position);
                self.add("phase", at, message, "name a group of the plan");
            }
        }
    }

    /// Checks that no branch name and no file path leads out of the repository.
    fn check_group_files(&mut self, value: &Value) {
        for (index, group) in items(value, "task_groups") {
            let at = entry_pointer(&member_pointer("", "task_groups"), index);
            if let Some(branch) = group["branch_name"].as_str().filter(|name| !is_ref_name(name)) {
                let message = format!("`{branch}` is no safe name of a branch");
                self.add(
                    "branch",
                    member_pointer(&at, "branch_name"),
                    message,
                    "use `feature/group-<ID>-<slug>`",
                );
            }
            for (position, file) in items(group, "files_affected") {
                if let Some(why) = file.as_str().and_then(artifact_path_problem) {
                    let message = format!("{} {why}", shortened(file));
                    let at = entry_pointer(&member_pointer(&at, "files_affected"), position);
                    self.add("path", at, message, "write it relative to the repository");
                }
            }
        }
    }

    fn into_checked_file(self, summary: String) -> CheckedFile {
        CheckedFile { violations: self.0, warnings: Vec::new(), summary }
    }
}

/// Returns the items of a list with their indexes; none if there is no list of this name.
fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = (usize, &'v Value)> {
    value.get(name).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn check_pm_state(value: &Value) -> CheckedFile {
    let schema = include_str!("../../../../docs/schema/team/pm_state.schema.json");
    let mut file = FileCheck::new(schema, value);
    file.check_count(value, "", "iteration");
    if let Some(percent) = value["completion_percentage"].as_f64()
        && !(0.0..=100.0).contains(&percent)
    {
        let message = format!("`completion_percentage` is `{percent}`");
        file.add(
            "percentage",
            member_pointer("", "completion_percentage"),
            message,
            "write a number from 0 to 100",
        );
    }
    let groups = member_pointer("", "task_groups");
    let mut needs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (index, group) in items(value, "task_groups") {
        let at = member_pointer(&entry_pointer(&groups, index), "id");
        let id = group["id"].as_str().unwrap_or_default();
        if let Err(why) = GroupId::new(id) {
            file.add("group_id", at.clone(), why, "use letters, digits, `_` and `-`");
        }
        let needed = items(group, "depends_on").filter_map(|(_, needed)| needed.as_str());
        if needs.insert(id, needed.collect()).is_some() {
            file.add("unique", at, format!("there are two groups `{id}`"), "rename one");
        }
    }
    for (index, group) in items(value, "task_groups") {
        let at = member_pointer(&entry_pointer(&groups, index), "depends_on");
        for (position, needed) in items(group, "depends_on") {
            if !needed.as_str().is_some_and(|needed| needs.contains_key(needed)) || group["id"] == *needed {
                let message = format!("{} is no other group", shortened(needed));
                let repair = "name a group of the plan, or remove it";
                file.add("depends_on", entry_pointer(&at, position), message, repair);
            }
        }
    }
    needs.iter_mut().for_each(|(id, needed)| needed.retain(|needed| needed != id));
    if let Some(id) = first_cyclic(&needs) {
        let message = format!("group `{id}` depends on itself through others");
        file.add("cycle", groups, message, "remove one of the dependencies");
    }
    let is_group = |id: &Value| id.as_str().is_some_and(|id| needs.contains_key(id));
    file.check_memberships(value, is_group);
    file.check_tasks(value, is_group);
    file.check_phases(value, is_group);
    file.check_group_files(value);
    file.into_checked_file(format!("{} groups", needs.len()))
}

fn check_group_status(value: &Value) -> CheckedFile {
    let schema = include_str!("../../../../docs/schema/team/group_status.schema.json");
    let mut file = FileCheck::new(schema, value);
    let groups: Vec<_> = value.as_object().into_iter().flatten().collect();
    for (id, group) in &groups {
        let at = member_pointer("", id);
        if group.get("group_id").is_some_and(|found| found != *id) {
            let message = format!("`group_id` differs from the key `{id}`");
            file.add("group_id", member_pointer(&at, "group_id"), message, "make both the same");
        }
        for name in ["developer", "qa", "tech_lead"] {
            file.check_count(&group["iterations"], &member_pointer(&at, "iterations"), name);
        }
    }
    let complete = groups.iter().filter(|(_, group)| group["status"] == "complete").count();
    file.into_checked_file(format!("{} groups, {complete} complete", groups.len()))
}

fn check_orchestrator_state(value: &Value) -> CheckedFile {
    let schema = include_str!("../../../../docs/schema/team/orchestrator_state.schema.json");
    let mut file = FileCheck::new(schema, value);
    for name in ["iteration", "total_spawns"] {
        file.check_count(value, "", name);
    }
    file.into_checked_file(format!("{} decisions", items(value, "decisions_log").count()))
}

fn check_messages(mailbox: Mailbox, value: &Value) -> CheckedFile {
    let mut file = FileCheck::new(mailbox.schema(), value);
    if value.get("messages").is_none() {
        file.add("required", String::new(), "`messages` is missing".to_owned(), "add a list");
    }
    let mut ids = BTreeSet::new();
    for (index, message) in items(value, "messages") {
        let at = entry_pointer(&member_pointer("", "messages"), index);
        match message["id"].as_str() {
            None | Some("") => file.add("required", at, "the message has no `id`".to_owned(), "add one"),
            Some(id) if !ids.insert(id) => {
                let message = format!("there are two messages `{id}`");
                file.add("unique", member_pointer(&at, "id"), message, "rename one");
            }
            Some(_) => {}
        }
    }
    file.into_checked_file(format!("{} messages", ids.len()))
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
    fn the_original_examples_pass_except_for_a_null_end_time() {
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
    fn unusable_values_that_the_schemas_accept_are_reported() {
        let rules = |name: &str, text: &str| -> Vec<String> {
            let found = check(name, text).violations.into_iter();
            found.map(|found| format!("{} {}: {}", found.rule, found.pointer, found.repair)).collect()
        };
        let pm = r#"{"session_id": "s", "mode": "simple", "original_requirements": "r", "iteration": -1,
            "last_update": "2025-01-06T10:00:00Z", "completion_percentage": 900, "pending_groups": ["Z"],
            "task_groups": [{"id": "A", "depends_on": ["A", "X"]}, {"id": "A"}, {"id": "a b"},
                {"id": "B", "depends_on": ["C"]}, {"id": "C", "depends_on": ["B"]}]}"#;
        assert_eq!(
            rules("pm_state.json", pm),
            [
                "count /iteration: write a whole number from 0",
                "percentage /completion_percentage: write a number from 0 to 100",
                "unique /task_groups/1/id: rename one",
                "group_id /task_groups/2/id: use letters, digits, `_` and `-`",
                "depends_on /task_groups/0/depends_on/0: name a group of the plan, or remove it",
                "depends_on /task_groups/0/depends_on/1: name a group of the plan, or remove it",
                "cycle /task_groups: remove one of the dependencies",
                "membership /pending_groups/0: name a group of the plan",
            ]
        );
        let pm = r#"{"session_id": "s", "mode": "simple", "original_requirements": "r", "iteration": 1,
            "last_update": "2025-01-06T10:00:00Z",
            "all_tasks": [{"id": "T", "group_id": "A"}, {"id": "T", "group_id": "Z"}, {"id": "U", "group_id": ""}],
            "task_groups": [{"id": "A", "status": "in_progress", "branch_name": "-x", "files_affected": ["../a", "b/*"]}],
            "execution_phases": [{"phase_number": 1, "group_ids": ["A"]}, {"phase_number": 1, "group_ids": ["Y"]}],
            "completed_groups": ["A"], "in_progress_groups": ["A"]}"#;
        assert_eq!(
            rules("pm_state.json", pm),
            [
                "membership /completed_groups/0: move it to the list of its status",
                "membership /in_progress_groups/0: leave it in one list",
                "unique /all_tasks/1/id: rename one",
                "task_group /all_tasks/1/group_id: name a group of the plan",
                "unique /execution_phases/1/phase_number: number them in their order",
                "phase /execution_phases/1/group_ids/0: name a group of the plan",
                "branch /task_groups/0/branch_name: use `feature/group-<ID>-<slug>`",
                "path /task_groups/0/files_affected/0: write it relative to the repository",
            ]
        );
        assert_eq!(
            rules(
                "group_status.json",
                r#"{"A": {"group_id": "B", "iterations": {"qa": -1}, "status": "done"}, "_comment": "x"}"#
            ),
            [
                "word /A/status: use one of \"pending\", \"dev_working\", \"dev_blocked\", \"waiting_qa\", \"qa_testing\", \
                 \"qa_failed\", \"waiting_review\", \"tech_review\", \"changes_requested\", \"complete\"",
                "type /_comment: write an object",
                "group_id /A/group_id: make both the same",
                "count /A/iterations/qa: write a whole number from 0",
            ]
        );
        let state = r#"{"session_id": "s", "current_phase": "completed", "iteration": 1, "total_spawns": -1,
            "status": "running", "start_time": "today"}"#;
        assert_eq!(
            rules("orchestrator_state.json", state),
            [
                "time /start_time: write it as 2025-01-06T10:00:00Z",
                "count /total_spawns: write a whole number from 0",
            ]
        );
        for name in
            ["dev_to_qa.json", "qa_to_techlead.json", "techlead_to_dev.json", "qa_to_dev.json", "to_pm.json"]
        {
            assert_eq!(rules(name, "{}"), ["required : add a list"], "{name}");
            let twice = r#"{"messages": [{}, {"id": "m"}, {"id": "m"}, {"id": ""}]}"#;
            assert_eq!(
                rules(name, twice),
                [
                    "required /messages/0: add one",
                    "unique /messages/2/id: rename one",
                    "required /messages/3: add one",
                ],
                "{name}"
            );
        }
    }
}
