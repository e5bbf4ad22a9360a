//! What each role may read and update in the document. Everything else is removed from reports.
//!
//! The rights are those of the original. `pipeline` belongs to the engine, but triage and the reviewer may ask for its status
//! `blocked`, with a reason. Every agent may add questions, escalations and observations.

use serde_json::{Map, Value, json};

use super::document::{Document, FILE, Question, changed_members, merge};
use super::step::{Agent, Step};
use crate::check::shortened;
use crate::report::{CopyEdit, Report};

/// The role of an agent or of the engine in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Triage,
    Analyst,
    Writer,
    Build,
    Reviewer,
    Committer,
}

/// The rights of a role, as paths of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights {
    pub reads: &'static [&'static str],
    pub updates: &'static [&'static str],
    /// What the original lets the agent update, but here the engine sets. It is removed from reports. Routine values
    /// (`current_agent`, the status `in_progress`) are removed without a message.
    pub derived: &'static [&'static str],
}

/// The sections of the document, in order.
pub const SECTIONS: [&str; 10] = [
    "issue",
    "pipeline",
    "triage",
    "analysis",
    "writer",
    "build",
    "review",
    "commit",
    "communication",
    "learnings",
];
/// The other fields of the document, which only the engine writes.
const ENGINE_ONLY: [&str; 3] = ["version", "attempts", "callboard"];

impl Role {
    pub const ALL: [Self; 6] =
        [Self::Triage, Self::Analyst, Self::Writer, Self::Build, Self::Reviewer, Self::Committer];

    /// Returns the role of a step; `None` if the step has no rights in the document.
    pub(super) fn of(step: Step) -> Option<Self> {
        match step {
            Step::Triage | Step::Answer(Agent::Triage) => Some(Self::Triage),
            Step::Analyst | Step::Answer(Agent::Analyst) => Some(Self::Analyst),
            Step::Writer | Step::Answer(Agent::Writer) => Some(Self::Writer),
            Step::Reviewer | Step::Answer(Agent::Reviewer) => Some(Self::Reviewer),
            Step::Diff | Step::Build => Some(Self::Build),
            Step::Commit | Step::Push | Step::PullRequest | Step::Close => Some(Self::Committer),
            Step::Comment | Step::Person => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Triage => "triage",
            Self::Analyst => "analyst",
            Self::Writer => "writer",
            Self::Build => "build",
            Self::Reviewer => "reviewer",
            Self::Committer => "committer",
        }
    }

    pub fn rights(self) -> Rights {
        match self {
            Self::Triage => Rights {
                reads: &["issue"],
                updates: &["triage", "pipeline.blocked_reason"],
                derived: &["pipeline.status"],
            },
            // The analyst classifies the issue, and may change nothing else of `issue`.
            Self::Analyst => Rights {
                reads: &["issue", "triage"],
                updates: &["analysis", "issue.type"],
                derived: &["pipeline.current_agent"],
            },
            Self::Writer => Rights {
                reads: &["issue", "analysis", "review.feedback_for_writer"],
                updates: &["writer"],
                derived: &["pipeline.attempt", "writer.previous_feedback", "writer.attempt"],
            },
            Self::Build => Rights {
                reads: &["writer.changes"],
                updates: &["build", "review.feedback_for_writer"],
                derived: &[],
            },
            Self::Reviewer => Rights {
                reads: &["issue", "analysis", "writer", "build"],
                updates: &["review", "pipeline.blocked_reason"],
                derived: &["pipeline.status"],
            },
            Self::Committer => Rights {
                reads: &["review.verdict", "writer", "issue"],
                updates: &["commit"],
                derived: &["pipeline.status"],
            },
        }
    }

    /// Returns whether the role may stop the run with `pipeline.status` = `blocked`.
    fn may_block(self) -> bool {
        match self {
            Self::Triage | Self::Reviewer => true,
            Self::Analyst | Self::Writer | Self::Build | Self::Committer => false,
        }
    }
}

/// Returns the part of the document that a role may read or update, the questions from it and to it, and its own escalations
/// and observations.
pub(super) fn readable(document: &Document, role: Role) -> Value {
    let Rights { reads, updates, .. } = role.rights();
    let content = document.file_content();
    let mut projection = json!({ "version": document.version });
    for path in reads.iter().chain(updates) {
        project(&content, path, &mut projection);
    }
    let name = role.name();
    let own_items = |list: &Value, fields: &[&str]| -> Value {
        let items = list.as_array().into_iter().flatten();
        items.filter(|item| fields.iter().any(|field| item[*field] == name)).cloned().collect()
    };
    let communication = &content["communication"];
    projection["communication"] = json!({
        "questions": own_items(&communication["questions"], &["from", "to"]),
        "escalations": own_items(&communication["escalations"], &["agent"]),
    });
    projection["learnings"] =
        json!({ "observations": own_items(&content["learnings"]["observations"], &["agent"]) });
    projection
}

/// Returns the body of an agent's private copy: what it may read, and the status of the pipeline.
pub(super) fn private_copy(document: &Document, role: Role) -> String {
    let mut projection = readable(document, role);
    let content = document.file_content();
    for path in ["pipeline.status", "pipeline.attempt", "pipeline.current_agent", "pipeline.max_attempts"] {
        project(&content, path, &mut projection);
    }
    serde_json::to_string_pretty(&projection).expect("BUG: a document is plain data") + "\n"
}

/// Copies the value at a path, if there is one.
fn project(from: &Value, path: &str, into: &mut Value) {
    match path.split_once('.') {
        None => {
            if let Some(value) = from.get(path) {
                into[path] = value.clone();
            }
        }
        Some((section, rest)) => {
            if let Some(inside) = from.get(section) {
                if into.get(section).is_none() {
                    into[section] = json!({});
                }
                project(inside, rest, &mut into[section]);
            }
        }
    }
}

/// Merges the edits of the private copy into the report, and removes what the step may not change. Returns a message for each
/// thing that was removed.
pub(super) fn remove_unauthorized(document: &Document, step: Step, report: &mut Report) -> Vec<String> {
    let Some(role) = Role::of(step) else { return Vec::new() };
    let mut refused = Vec::new();
    let edits = copy_edits(document, role, report, &mut refused);
    let is_document_field = |name: &str| SECTIONS.contains(&name) || ENGINE_ONLY.contains(&name);
    let mut proposed = Value::Object(Map::new());
    merge(&mut proposed, &edits);
    let names: Vec<_> = report.extra_fields.keys().filter(|name| is_document_field(name)).cloned().collect();
    for name in names {
        if let Some(value) = report.extra_fields.shift_remove(&name) {
            merge(&mut proposed[&name], &value);
        }
    }
    let content = document.file_content();
    let mut permitted = Map::new();
    for (name, value) in proposed.as_object().into_iter().flatten() {
        let (name, current) = (name.as_str(), &content[name]);
        let part = match name {
            "communication" => new_communication(document, step, role, value, report, &mut refused),
            "learnings" => new_observations(current, role, value, &mut refused),
            _ => permitted_part(role, name, value, current, &mut refused),
        };
        permitted.extend(part.map(|part| (name.to_owned(), part)));
    }
    let original = copy_as_json(document, role);
    let mut edited = original.clone();
    merge(&mut edited, &Value::Object(permitted.clone()));
    let has_answer = report.extra_fields.contains_key("answer");
    if !edits.is_null() && (has_answer || !permitted.is_empty()) {
        // Edits without a report count as one, if some of them are permitted.
        let patch = json_patch::diff(&original, &edited);
        report.copy_edits.insert(FILE.to_owned(), CopyEdit::Patch(patch));
    }
    report.extra_fields.extend(permitted);
    if let Step::Answer(_) = step {
        // A step that answers a question changes only that question.
        for name in SECTIONS {
            if report.extra_fields.shift_remove(name).is_some() {
                refused.push(format!("an answer may not change `{name}`"));
            }
        }
    }
    refused
}

/// Returns the private copy of an agent as JSON.
fn copy_as_json(document: &Document, role: Role) -> Value {
    serde_json::from_str(&private_copy(document, role)).expect("BUG: a copy is JSON")
}

/// Takes the edits of the private copy out of the report and returns what they change.
fn copy_edits(document: &Document, role: Role, report: &mut Report, refused: &mut Vec<String>) -> Value {
    let original = copy_as_json(document, role);
    match report.copy_edits.remove(FILE).map(|edit| edit.applied_to(FILE, &original)) {
        Some(Ok(Some(edited))) => changed_members(&original, &edited).unwrap_or_default(),
        Some(Err(why)) => {
            refused.push(why);
            Value::Null
        }
        Some(Ok(None)) | None => Value::Null,
    }
}

/// Returns the part of a value that the role may set at a path; `None` if that is nothing. An unchanged value is left out,
/// unless the role may update it: a report may be the agent's own section, unchanged.
fn permitted_part(
    role: Role,
    path: &str,
    value: &Value,
    current: &Value,
    refused: &mut Vec<String>,
) -> Option<Value> {
    let Rights { updates, derived, .. } = role.rights();
    let asks_for_block = path == "pipeline.status" && role.may_block() && value == "blocked";
    if value == current && !updates.contains(&path) {
        return None;
    }
    if derived.contains(&path) && !asks_for_block {
        let is_routine = path == "pipeline.current_agent" || value == "in_progress";
        if !is_routine {
            let value = shortened(value);
            refused.push(format!("`{}` may not change `{path}` to {value}: the engine sets it", role.name()));
        }
        return None;
    }
    let is_below = |other: &&str| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    // The role has rights for some fields of this value, so each field is checked by itself.
    let has_rights_below = updates.iter().chain(derived).any(is_below) || path == "pipeline";
    match value.as_object() {
        Some(members) if has_rights_below => {
            let inside = members.iter().filter_map(|(name, value)| {
                let part = permitted_part(role, &format!("{path}.{name}"), value, &current[name], refused)?;
                Some((name.clone(), part))
            });
            let inside: Map<_, _> = inside.collect();
            (!inside.is_empty()).then_some(Value::Object(inside))
        }
        Some(_) | None => {
            let is_inside = |update: &&str| path == *update || path.starts_with(&format!("{update}."));
            if asks_for_block || updates.iter().any(is_inside) {
                return Some(value.clone());
            }
            refused.push(format!("`{}` may not change `{path}` to {}", role.name(), shortened(value)));
            None
        }
    }
}

/// Returns the questions and escalations that the report adds. If the step answers a question, the answer in `questions` becomes
/// the report's field `answer`.
fn new_communication(
    document: &Document,
    step: Step,
    role: Role,
    value: &Value,
    report: &mut Report,
    refused: &mut Vec<String>,
) -> Option<Value> {
    let name = role.name();
    let list = |field: &str| value[field].as_array().cloned().unwrap_or_default();
    let known = &document.communication;
    let mut questions = Vec::new();
    for question in list("questions") {
        let existing = known
            .questions
            .iter()
            .find(|known| known.question == question["question"].as_str().unwrap_or_default());
        let is_asked = |known: &Question| known.id.as_ref() == document.engine.pending.first();
        match (existing, step) {
            (Some(known), Step::Answer(_)) if is_asked(known) && question["answer"].is_string() => {
                report.extra_fields.entry("answer").or_insert_with(|| question["answer"].clone());
            }
            (Some(_), _) => {}
            (None, Step::Answer(_)) => refused.push(format!("`{name}` may not ask while it answers")),
            (None, _) if !matches!(&question["from"], Value::Null) && question["from"] != name => {
                refused.push(format!("`{name}` may not ask in the name of {}", shortened(&question["from"])));
            }
            (None, _) => questions.push(json!({ "to": question["to"], "question": question["question"] })),
        }
    }
    let mut escalations = Vec::new();
    for escalation in list("escalations") {
        let is_known = known.escalations.iter().any(|known| {
            known.agent == name && known.reason == escalation["reason"].as_str().unwrap_or_default()
        });
        match (is_known, step) {
            (true, _) => {}
            (false, Step::Answer(_)) => refused.push(format!("`{name}` may not escalate while it answers")),
            (false, _) if !matches!(&escalation["agent"], Value::Null) && escalation["agent"] != name => {
                refused.push(format!("`{name}` may not escalate for {}", shortened(&escalation["agent"])));
            }
            (false, _) => escalations.push(json!({
                "reason": escalation["reason"],
                "requires_human": escalation.get("requires_human").cloned().unwrap_or(Value::Bool(true)),
            })),
        }
    }
    (!questions.is_empty() || !escalations.is_empty())
        .then(|| json!({ "questions": questions, "escalations": escalations }))
}

/// Returns the observations that the report adds.
fn new_observations(current: &Value, role: Role, value: &Value, refused: &mut Vec<String>) -> Option<Value> {
    let name = role.name();
    for field in value.as_object().into_iter().flatten().map(|(field, _)| field.as_str()) {
        if field != "observations" && value[field] != current[field] {
            refused.push(format!("`{name}` may not change `learnings.{field}`"));
        }
    }
    let known = current["observations"].as_array().cloned().unwrap_or_default();
    let added: Vec<_> = value["observations"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|observation| !known.contains(observation))
        .map(|observation| json!({ "type": observation["type"], "content": observation["content"] }))
        .collect();
    (!added.is_empty()).then(|| json!({ "observations": added }))
}
