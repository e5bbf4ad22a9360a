//! The document of `items`: `plan.json`, and one file per item.

use std::collections::BTreeMap;

use protocol::brief::PrivateCopy;
use protocol::edit::Patch;
use protocol::entry::{Entry, Evidence, Input};
use protocol::report::CopyEdit;
use protocol::run::{Change, RunStatus};
use protocol::{Outcome, RunLocation, StepId, StepRecord, StepRecordStatus, Timestamp, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::decide::Change as ItemChange;
use super::step::parse_plan;
use super::{Definition, Items};

/// The whole document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub plan: PlanDocument,
    pub items: BTreeMap<StepId, ItemDocument>,
}

/// The file `plan.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanDocument {
    pub request: String,
    /// Where the files are.
    pub directory: String,
    pub status: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub step: StepRecord,
}

/// The file of one item.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ItemDocument {
    pub name: String,
    /// What the agent says about what it made.
    #[serde(default)]
    pub description: String,
    pub make: StepRecord,
    pub approve: StepRecord,
    pub record: StepRecord,
    /// Why people rejected the item.
    pub rejections: Vec<String>,
    /// What the effect of the step `record` returned, each time it was performed.
    pub recorded: Vec<Value>,
}

/// The part with everything that belongs to no item.
pub(super) const PLAN: &str = "plan";

impl Document {
    pub(super) fn open(definition: &Definition, location: &RunLocation, at: Timestamp) -> Self {
        let plan = PlanDocument {
            request: definition.request.clone(),
            directory: format!("{}/.items/{}", location.repo_dir, location.run),
            status: "running".to_owned(),
            created_at: at,
            updated_at: at,
            step: StepRecord::default(),
        };
        Self { plan, items: BTreeMap::new() }
    }

    /// Returns the private copy of an item's file, which the agent of its step `make` finds in its worktree.
    pub(super) fn copy(&self, id: &StepId) -> Option<PrivateCopy> {
        Some(PrivateCopy { path: self.copy_path(id), body: self.items.get(id)?.body() })
    }

    /// Returns the path of the private copy, relative to the worktree.
    pub(super) fn copy_path(&self, id: &StepId) -> String {
        let run = self.plan.directory.rsplit_once('/').map_or("", |(_, run)| run);
        format!(".items/{run}/{id}.json")
    }

    pub(super) fn step(&self, id: &StepId) -> Option<&StepRecord> {
        let Some((item, suffix)) = id.as_str().rsplit_once('.') else { return Some(&self.plan.step) };
        let item = self.items.get(&StepId::new(item).ok()?)?;
        Some(match suffix {
            "make" => &item.make,
            "approve" => &item.approve,
            _ => &item.record,
        })
    }

    /// Returns a step, and the path of the part that has it.
    fn step_mut(&mut self, id: &StepId) -> Option<(&mut StepRecord, String)> {
        let Some((name, suffix)) = id.as_str().rsplit_once('.') else {
            return Some((&mut self.plan.step, PLAN.to_owned()));
        };
        let item = self.items.get_mut(&StepId::new(name).ok()?)?;
        let step = match suffix {
            "make" => &mut item.make,
            "approve" => &mut item.approve,
            _ => &mut item.record,
        };
        Some((step, name.to_owned()))
    }

    pub(super) fn part(&self, path: &str) -> String {
        let item = StepId::new(path).ok().and_then(|item| self.items.get(&item));
        let text = match item {
            Some(item) if path != PLAN => serde_json::to_string(item),
            _ => serde_json::to_string(&self.plan),
        };
        text.expect("BUG: a document is plain data")
    }

    pub(super) fn assemble(parts: &[(String, String)]) -> Option<Self> {
        let (_, plan) = parts.iter().find(|(path, _)| path == PLAN)?;
        let items = parts
            .iter()
            .filter(|(path, _)| path != PLAN)
            .map(|(path, body)| Some((StepId::new(path).ok()?, serde_json::from_str(body).ok()?)));
        Some(Self { plan: serde_json::from_str(plan).ok()?, items: items.collect::<Option<_>>()? })
    }

    pub(super) fn views(&self) -> Vec<View> {
        let view =
            |name: &str, body: String| View { path: format!("{}/{name}.json", self.plan.directory), body };
        let plan = serde_json::to_string_pretty(&self.plan).expect("BUG: a document is plain data");
        let plan = view(PLAN, plan + "\n");
        let items = self.items.iter().map(|(id, item)| view(id.as_str(), item.body()));
        std::iter::once(plan).chain(items).collect()
    }
}

impl ItemDocument {
    /// Returns the text of its file.
    fn body(&self) -> String {
        serde_json::to_string_pretty(self).expect("BUG: a document is plain data") + "\n"
    }

    /// Applies an agent's edit of the private copy. Fails if the result is not an item.
    pub(super) fn edited(&self, edit: &CopyEdit) -> Result<Self, String> {
        let CopyEdit::Patch(operations) = edit else { return Err("its file is no JSON document".to_owned()) };
        let item = serde_json::to_value(self).expect("BUG: a document is plain data");
        let edited = Patch::Operations(operations.clone()).apply(&item).map_err(|error| error.to_string())?;
        Self::deserialize(edited).map_err(|error| error.to_string())
    }
}

/// Applies an entry to the document and returns the parts that changed.
pub(super) fn record(document: &mut Document, entry: &Entry<Items>) -> Vec<String> {
    document.plan.updated_at = entry.at;
    let mut parts = vec![PLAN.to_owned()];
    if let Input::Opened { .. } = entry.input {
        document.plan.created_at = entry.at;
    }
    let evidence = entry.input.evidence();
    for change in &entry.changes {
        let changed_part = match change {
            Change::Status { status } => {
                status_word(*status).clone_into(&mut document.plan.status);
                None
            }
            Change::Protocol { transition } => {
                parts.extend(record_transition(document, transition, evidence));
                None
            }
            Change::Queued { .. }
            | Change::Waiting { .. }
            | Change::Answered { .. }
            | Change::BackoffElapsed { .. }
            | Change::Started { .. }
            | Change::StopRequested { .. }
            | Change::Ended { .. }
            | Change::Dequeued { .. } => {
                let step = change.step().and_then(|step| document.step_mut(step));
                let error = evidence.and_then(|evidence| evidence.error.clone());
                step.map(|(step, part)| {
                    step.record(change, error, entry.at);
                    part
                })
            }
        };
        parts.extend(changed_part);
    }
    parts.sort();
    parts.dedup();
    parts
}

/// Applies a transition and returns the items that changed.
fn record_transition(
    document: &mut Document,
    transition: &ItemChange,
    evidence: Option<&Evidence>,
) -> Vec<String> {
    let item = match transition {
        ItemChange::Planned(_) => {
            let items = evidence.and_then(|evidence| evidence.report.as_ref()?.extra_fields.get("items"));
            let planned = parse_plan(items).unwrap_or_default().into_iter();
            document.items =
                planned.map(|(id, name)| (id, ItemDocument { name, ..ItemDocument::default() })).collect();
            return document.items.keys().map(ToString::to_string).collect();
        }
        ItemChange::Failed(_) => return Vec::new(),
        ItemChange::Retried(step) => {
            let (step, part) = document.step_mut(&step.id()).expect("BUG: the document has every step");
            step.status = StepRecordStatus::Pending;
            return vec![part];
        }
        ItemChange::Made(item)
        | ItemChange::Approved(item)
        | ItemChange::Rejected(item)
        | ItemChange::Recorded(item)
        | ItemChange::Reopened(item) => item,
    };
    let path = document.copy_path(item);
    let item_document = document.items.get_mut(item).expect("BUG: the document has every item");
    match transition {
        ItemChange::Rejected(_) => {
            let answer = evidence.and_then(|evidence| evidence.answer.as_ref());
            item_document.rejections.extend(answer.and_then(|answer| answer.text()).map(str::to_owned));
            (item_document.make.status, item_document.approve.status) =
                (StepRecordStatus::Pending, StepRecordStatus::Pending);
        }
        ItemChange::Reopened(_) => {
            for step in [&mut item_document.make, &mut item_document.approve, &mut item_document.record] {
                *step = StepRecord::default();
            }
        }
        ItemChange::Recorded(_) => {
            let report = evidence.and_then(|evidence| evidence.report.as_ref());
            item_document.recorded.extend(report.map(|report| Value::Object(report.extra_fields.clone())));
        }
        ItemChange::Made(_) => {
            let report = evidence.and_then(|evidence| evidence.report.as_ref());
            let edit = report.and_then(|report| report.copy_edits.get(&path));
            if let Some(Ok(edited)) = edit.map(|edit| item_document.edited(edit)) {
                *item_document = edited;
            }
        }
        ItemChange::Planned(_) | ItemChange::Approved(_) | ItemChange::Failed(_) | ItemChange::Retried(_) => {
        }
    }
    vec![item.to_string()]
}

fn status_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Paused => "paused",
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => "stopped",
        RunStatus::Draining(_) | RunStatus::Finishing(_) => "finishing",
        RunStatus::Finished(Outcome::Succeeded) => "succeeded",
        RunStatus::Finished(Outcome::Incomplete) => "incomplete",
        RunStatus::Finished(Outcome::Failed) => "failed",
    }
}
