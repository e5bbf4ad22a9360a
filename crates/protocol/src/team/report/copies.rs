//! Private copies: which files an attempt finds in its worktree, and which verdict an edit of them reports.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::document::{DIRECTORY, Document, Mailbox, Message, pretty};
use super::super::step::{PmStep, Role, Step};
use crate::brief::PrivateCopy;
use crate::report::CopyEdit;

/// Returns the files that the step may read, each cut to what concerns the step. The module `rights` says what it may edit.
pub(in crate::team) fn private_copies(document: &Document, step: &Step) -> Vec<PrivateCopy> {
    let path = |name| format!("{DIRECTORY}/{name}");
    let copy = |(name, value)| PrivateCopy { path: path(name), body: pretty(&value) };
    visible_files(document, step).into_iter().map(copy).collect()
}

/// Returns the files that the step may read, each cut to what concerns the step, by their path below `coordination/`.
pub(in crate::team) fn visible_files(document: &Document, step: &Step) -> Vec<(String, Value)> {
    let whole_files = |names: &[&str]| -> Vec<(String, Value)> {
        document.files().into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
    };
    match step {
        Step::Pm(PmStep::Plan) => whole_files(&["pm_state.json"]),
        Step::Pm(PmStep::Check) => whole_files(&[
            "pm_state.json",
            "group_status.json",
            "orchestrator_state.json",
            "messages/to_pm.json",
        ]),
        Step::Group(id, role @ (Role::Developer | Role::Qa | Role::TechLead)) => {
            let Some(group) = document.groups.get(id) else { return Vec::new() };
            let mailboxes: &[Mailbox] = match role {
                Role::Developer => &[Mailbox::DevToQa, Mailbox::TechleadToDev, Mailbox::QaToDev],
                Role::Qa => &[Mailbox::DevToQa, Mailbox::QaToTechlead, Mailbox::QaToDev],
                Role::TechLead | Role::Merge | Role::Decision => {
                    &[Mailbox::QaToTechlead, Mailbox::TechleadToDev]
                }
            };
            let own = |mailbox: &Mailbox| {
                let messages = document.messages.iter();
                let own = messages
                    .filter(|message| message.mailbox == *mailbox && message.group.as_ref() == Some(id));
                let own: Vec<_> = own.map(Message::to_json).collect();
                (mailbox.file().to_owned(), json!({ "messages": own }))
            };
            let mut status = Map::new();
            status.insert(id.to_string(), document.group_json(id, group));
            let status = ("group_status.json".to_owned(), Value::Object(status));
            std::iter::once(status).chain(mailboxes.iter().map(own)).collect()
        }
        Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge)
        | Step::Group(_, Role::Merge | Role::Decision) => Vec::new(),
    }
}

/// A file that an attempt has edited.
struct EditedFile {
    name: String,
    before: Value,
    after: Value,
}

/// Returns the files that the edits change. Fails if an edited file cannot be read.
fn edited_files(
    document: &Document,
    step: &Step,
    edits: &BTreeMap<String, CopyEdit>,
) -> Result<Vec<EditedFile>, String> {
    let mut files = Vec::new();
    if edits.is_empty() {
        return Ok(files);
    }
    for (name, before) in visible_files(document, step) {
        let path = format!("{DIRECTORY}/{name}");
        let Some(edit) = edits.get(&path) else { continue };
        files.extend(edit.applied_to(&path, &before)?.map(|after| EditedFile { name, before, after }));
    }
    Ok(files)
}

/// Reads edits as the fields of a report. Fails if a file cannot be read.
pub(in crate::team) fn fields(
    document: &Document,
    step: &Step,
    edits: &BTreeMap<String, CopyEdit>,
) -> Result<Map<String, Value>, String> {
    let mut fields = Map::new();
    for file in edited_files(document, step, edits)? {
        let EditedFile { name, before, after } = &file;
        match step {
            Step::Pm(_) => add_manager_fields(name, before, after, &mut fields),
            Step::Group(id, role) if name == "group_status.json" => {
                add_status_fields(*role, &before[id.as_str()], &after[id.as_str()], &mut fields);
            }
            Step::Group(_, role) => {
                // A later message takes precedence; an earlier one adds the fields that it does not have.
                for message in file.new_messages().iter().rev() {
                    add_message_fields(*role, name, message, &mut fields);
                }
            }
        }
    }
    Ok(fields)
}

/// Returns the messages that edits add, in the order of the files. A file that cannot be read adds none.
pub(in crate::team) fn new_messages(
    document: &Document,
    step: &Step,
    edits: &BTreeMap<String, CopyEdit>,
) -> Vec<(Mailbox, Map<String, Value>)> {
    let files = edited_files(document, step, edits).unwrap_or_default();
    let of_file = |file: &EditedFile| {
        let mailbox = Mailbox::ALL.into_iter().find(|mailbox| mailbox.file() == file.name)?;
        let messages = file.new_messages().iter().filter_map(Value::as_object);
        Some(messages.map(|message| (mailbox, message.clone())).collect::<Vec<_>>())
    };
    files.iter().filter_map(of_file).flatten().collect()
}

impl EditedFile {
    fn new_messages(&self) -> &[Value] {
        let old = self.before["messages"].as_array().map_or(0, Vec::len);
        self.after["messages"].as_array().and_then(|messages| messages.get(old..)).unwrap_or_default()
    }
}

fn set(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    fields.insert(name.to_owned(), value.into());
}

/// Adds the fields that an edit by the project manager reports.
fn add_manager_fields(name: &str, before: &Value, after: &Value, fields: &mut Map<String, Value>) {
    match name {
        "pm_state.json" => {
            let ids = |state: &Value, list: &str| -> Vec<Value> {
                state[list].as_array().into_iter().flatten().map(|item| item["id"].clone()).collect()
            };
            let added = |list: &str| -> Vec<Value> {
                let old = ids(before, list);
                let items = after[list].as_array().into_iter().flatten();
                items.filter(|item| !old.contains(&item["id"])).cloned().collect()
            };
            let groups = added("task_groups");
            if groups.is_empty() {
                return;
            }
            let new: Vec<_> = groups.iter().map(|group| group["id"].clone()).collect();
            let is_new = |phase: &&Value| {
                phase["group_ids"].as_array().is_some_and(|ids| ids.iter().any(|id| new.contains(id)))
            };
            let phases: Vec<Value> =
                after["execution_phases"].as_array().into_iter().flatten().filter(is_new).cloned().collect();
            set(fields, "verdict", "PLANNING_COMPLETE");
            set(fields, "task_groups", groups);
            set(fields, "all_tasks", added("all_tasks"));
            set(fields, "execution_phases", phases);
            set(fields, "success_criteria", added("success_criteria"));
            for name in ["mode", "mode_reasoning"] {
                set(fields, name, after[name].clone());
            }
        }
        "orchestrator_state.json"
            if before["status"] != after["status"] && after["status"] == "completed" =>
        {
            // The original's word for: the request is fulfilled.
            set(fields, "verdict", "BAZINGA");
        }
        _ => {}
    }
}

/// Returns the verdict that a role reports by setting the status of its group.
pub(in crate::team) fn verdict_of_status(role: Role, status: &str) -> Option<&'static str> {
    match (role, status) {
        (Role::Developer, "waiting_qa") => Some("READY_FOR_QA"),
        (Role::Developer, "waiting_review") => Some("READY_FOR_REVIEW"),
        (Role::Developer, "dev_blocked") => Some("BLOCKED"),
        (Role::Qa, "waiting_review") => Some("PASS"),
        (Role::Qa, "qa_failed") => Some("FAIL"),
        (Role::TechLead, "complete") => Some("approved"),
        (Role::TechLead, "changes_requested") => Some("changes_requested"),
        (Role::TechLead, "dev_working" | "waiting_qa") => Some("unblocked"),
        (Role::Developer | Role::Qa | Role::TechLead | Role::Merge | Role::Decision, _) => None,
    }
}

/// Adds the fields that an edit of a group's status reports.
fn add_status_fields(role: Role, before: &Value, after: &Value, fields: &mut Map<String, Value>) {
    let status = after["status"].as_str().filter(|_| before["status"] != after["status"]);
    let verdict = status.and_then(|status| verdict_of_status(role, status));
    fields.extend(verdict.map(|verdict| ("verdict".to_owned(), verdict.into())));
    let added = |list: &str| -> Vec<&Value> {
        let old = before[list].as_array().map_or(0, Vec::len);
        after[list].as_array().into_iter().flatten().skip(old).collect()
    };
    let blockers: Vec<_> = added("blockers").iter().map(|blocker| blocker["description"].clone()).collect();
    if !blockers.is_empty() {
        set(fields, "blockers", blockers);
    }
    if role == Role::TechLead
        && let Some(feedback) = added("tech_lead_feedback").last()
    {
        set(fields, "feedback", feedback["feedback"].clone());
        if verdict.is_none() {
            set(fields, "verdict", feedback["decision"].clone());
        }
    }
    if let Some(results) =
        after["test_results"].as_object().filter(|_| before["test_results"] != after["test_results"])
    {
        fields.extend(results.clone());
    }
    if let Some(metrics) = after["quality_metrics"].as_object().filter(|_| role == Role::TechLead) {
        fields.extend(
            metrics
                .iter()
                .filter(|(name, _)| *name != "first_pass_approval")
                .map(|(name, value)| (name.clone(), value.clone())),
        );
    }
}

/// Adds the fields that a new message reports, unless they are set.
fn add_message_fields(role: Role, name: &str, new: &Value, fields: &mut Map<String, Value>) {
    let mut take = |field: &str, from: &Value| {
        if !from.is_null() && !fields.contains_key(field) {
            set(fields, field, from.clone());
        }
    };
    match (role, name) {
        (Role::Developer, "messages/dev_to_qa.json") => {
            take("verdict", &new["status"]);
            take("summary", &new["context"]["notes"]);
        }
        (Role::Qa, "messages/qa_to_techlead.json" | "messages/qa_to_dev.json") => {
            take("verdict", &new["result"]);
            take("summary", &new["subject"]);
            take("findings", &new["findings"]);
        }
        (Role::TechLead, "messages/techlead_to_dev.json") => {
            take("verdict", &new["decision"]);
            for field in ["feedback", "issues", "actionable_items"] {
                take(field, &new[field]);
            }
        }
        _ => {}
    }
}
