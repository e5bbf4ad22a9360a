//! Which members a step may change in its private copies. Other changes are removed from its report and named.

use serde_json::Value;

use super::super::document::{DIRECTORY, Document};
use super::super::step::{Role, Step};
use super::copies::{verdict_of_status, visible_files};
use crate::edit::Rights;
use crate::report::{CopyEdit, Report};

/// How many entries an attempt may add to a list.
const MAX_NEW_ENTRIES: usize = 200;

/// JSON pointers to members of a file: those that the step may change, and those that only the engine sets.
#[derive(Default)]
struct MemberRights {
    /// The step may change these.
    allowed: Vec<String>,
    /// Only the engine sets these. A change of them is dropped and not named, because the engine computes it from others.
    derived: Vec<String>,
}

impl MemberRights {
    fn allow(&mut self, pointers: &[&str]) {
        self.allowed.extend(pointers.iter().map(|pointer| (*pointer).to_owned()));
    }

    fn add_derived(&mut self, pointers: &[&str]) {
        self.derived.extend(pointers.iter().map(|pointer| (*pointer).to_owned()));
    }

    /// Allows new entries at the end of a list.
    fn allow_append(&mut self, file: &Value, list: &str) {
        let present = file.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        self.allowed.extend((present..present + MAX_NEW_ENTRIES).map(|index| format!("{list}/{index}")));
    }

    fn rights(&self) -> Rights {
        Rights::new(self.allowed.iter().map(String::as_str), self.derived.iter().map(String::as_str))
    }
}

/// Cuts the edits of a report to the rights of its step. Returns a sentence for each refused change.
pub(in crate::team) fn remove_unauthorized(
    document: &Document,
    step: &Step,
    report: &mut Report,
) -> Vec<String> {
    let mut refused = Vec::new();
    if report.copy_edits.is_empty() {
        return refused;
    }
    for (name, file) in visible_files(document, step) {
        let path = format!("{DIRECTORY}/{name}");
        refused.extend(
            member_rights(document, step, &name, &file).rights().remove_unauthorized(report, &path, &file),
        );
        if let (Step::Group(id, role), "group_status.json") = (step, name.as_str()) {
            refused.extend(remove_invalid_status(*role, id.as_str(), &path, &file, report));
        }
    }
    refused
}

/// Returns what a step may change in one file. `file` is its content before the edits.
fn member_rights(document: &Document, step: &Step, name: &str, file: &Value) -> MemberRights {
    let mut members = MemberRights::default();
    members.add_derived(&["/messages/*/read"]);
    match step {
        Step::Pm(_) => add_manager_rights(document, name, file, &mut members),
        Step::Group(id, role) if name == "group_status.json" => {
            // The file has one member for each group. The step has rights on that of its own group only.
            let mut group_rights = MemberRights::default();
            add_status_rights(*role, &file[id.as_str()], &mut group_rights);
            let below = |names: Vec<String>| names.into_iter().map(|name| format!("/{id}{name}")).collect();
            members =
                MemberRights { allowed: below(group_rights.allowed), derived: below(group_rights.derived) };
        }
        Step::Group(_, role) => {
            let is_own = matches!(
                (role, name),
                (Role::Developer, "messages/dev_to_qa.json")
                    | (Role::Qa, "messages/qa_to_techlead.json" | "messages/qa_to_dev.json")
                    | (Role::TechLead, "messages/techlead_to_dev.json")
            );
            if is_own {
                members.allow_append(file, "/messages");
            }
        }
    }
    members
}

fn add_manager_rights(document: &Document, name: &str, file: &Value, members: &mut MemberRights) {
    match name {
        "pm_state.json" => {
            for list in ["/all_tasks", "/task_groups", "/execution_phases"] {
                members.allow_append(file, list);
                members.derived.push(format!("{list}/*/status"));
            }
            // Mode and criteria are fixed with the first plan.
            if document.groups.is_empty() {
                members.allow(&["/mode", "/mode_reasoning", "/success_criteria"]);
            }
            members.add_derived(&[
                "/completed_groups",
                "/in_progress_groups",
                "/pending_groups",
                "/iteration",
                "/last_update",
                "/completion_percentage",
                "/estimated_time_remaining_minutes",
            ]);
        }
        "orchestrator_state.json" => {
            members.allow(&["/status"]);
            members.add_derived(&[
                "/current_phase",
                "/active_agents",
                "/iteration",
                "/total_spawns",
                "/end_time",
                "/last_update",
            ]);
        }
        _ => {}
    }
}

fn add_status_rights(role: Role, group: &Value, members: &mut MemberRights) {
    members.allow(&["/status"]);
    members.add_derived(&[
        "/current_agent",
        "/iterations",
        "/start_time",
        "/end_time",
        "/duration_minutes",
        "/last_update",
        "/files_modified",
        "/commits",
        "/quality_metrics/first_pass_approval",
    ]);
    match role {
        Role::Developer => {
            members.allow(&["/test_results/unit_tests"]);
            members.allow_append(group, "/blockers");
        }
        Role::Qa => {
            members.allow(&[
                "/test_results/integration_tests",
                "/test_results/contract_tests",
                "/test_results/e2e_tests",
            ]);
            members.allow_append(group, "/blockers");
        }
        Role::TechLead => {
            members.allow(&["/quality_metrics"]);
            members.allow_append(group, "/tech_lead_feedback");
            members.add_derived(&["/blockers/*/resolved", "/blockers/*/resolution"]);
        }
        Role::Merge | Role::Decision => {}
    }
}

/// Removes a change of the group's status to a word that is no verdict of the role. Returns a sentence about it, if there was one.
fn remove_invalid_status(
    role: Role,
    id: &str,
    path: &str,
    file: &Value,
    report: &mut Report,
) -> Option<String> {
    let mut edited = report.copy_edits.get(path)?.applied_to(path, file).ok()??;
    let status = edited[id]["status"].clone();
    if status == file[id]["status"]
        || status.as_str().is_some_and(|word| verdict_of_status(role, word).is_some())
    {
        return None;
    }
    edited[id]["status"] = file[id]["status"].clone();
    let remaining = json_patch::diff(file, &edited);
    if remaining.0.is_empty() {
        report.copy_edits.remove(path);
    } else {
        report.copy_edits.insert(path.to_owned(), CopyEdit::Patch(remaining));
    }
    Some(format!("`{path}`: the step may not set `/{id}/status` to {status}"))
}
