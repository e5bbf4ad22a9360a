//! The items of data loops. `run_state.json` shows only their step; each item is a part of the document.

use super::{Parts, progress, step};
use crate::brief::Finding;
use crate::entry::{Entry, Evidence};
use crate::run::Change;
use crate::steps::Steps;
use crate::steps::definition::Definition;
use crate::steps::document::{
    Document, ItemFindings, Status, StepDocument, findings_part, gate_finding_part, item_part, progress_part,
};
use crate::steps::phases::Phase;
use crate::steps::phases::items;
use crate::steps::phases::loops::{self, item_id};
use crate::{StepId, Timestamp};

/// Records the items that a step has read, for it and for the steps that share them (`loop: {with: …}`).
pub(super) fn record_items(
    definition: &Definition,
    document: &mut Document,
    id: &StepId,
    count: u32,
    at: Timestamp,
    evidence: Option<&Evidence>,
    parts: &mut Parts,
) {
    let items_owner = definition.step(id);
    let report = evidence.and_then(|evidence| evidence.report.as_ref());
    let reported_items =
        report.and_then(|report| items::reported_items(items_owner, report)).unwrap_or_default();
    let progress = progress(document, id, parts);
    progress.phase = Some(Phase::WorkOnItems);
    progress.items = reported_items;
    restore_findings(document, id, parts);
    for member in definition.steps_sharing_items(items_owner) {
        for number in 1..=count {
            let item = item_id(&member.id, number);
            parts.touch(item_part(item.as_str()));
            document.items.insert(item.to_string(), StepDocument::pending());
        }
        let step = step(document, &member.id, parts);
        if step.status == Status::Skipped {
            continue;
        }
        step.status = Status::Pending;
        step.started_at = Some(at.into());
        step.ended_at = None;
        step.attempts = 1;
    }
}

/// Gives a step with a data loop the results of its items. It stays `Running`: the caller completes it.
pub(super) fn collect_results(
    definition: &Definition,
    document: &mut Document,
    id: &StepId,
    at: Timestamp,
    parts: &mut Parts,
) {
    let is_loop = definition.item_of(id).is_none() && definition.step(id).data_loop.is_some();
    if !is_loop {
        return;
    }
    let done: Vec<_> = items_of(document, id).cloned().collect();
    let step = step(document, id, parts);
    step.artifacts.clear();
    step.logs.clear();
    for item in done {
        let new = item.artifacts.into_iter().filter(|artifact| !step.artifacts.contains(artifact));
        let new: Vec<_> = new.collect();
        step.artifacts.extend(new);
        step.logs.extend(item.logs);
        step.metrics.extend(item.metrics);
        step.report_path = item.report_path.or(step.report_path.take());
    }
    step.started_at = step.started_at.or(Some(at.into()));
    step.last_error = None;
    step.manual_input_path = None;
    step.status = Status::Running;
}

/// Updates each step of which the entry changes an item: its status follows from those of its items.
pub(super) fn record_parents(
    definition: &Definition,
    document: &mut Document,
    entry: &Entry<Steps>,
    parts: &mut Parts,
) {
    if document.items.is_empty() {
        return;
    }
    let mut parents: Vec<&StepId> = Vec::new();
    for change in &entry.changes {
        let ids: Vec<&StepId> = match change {
            Change::Started { attempt, .. }
            | Change::StopRequested { attempt, .. }
            | Change::Ended { attempt, .. } => vec![&attempt.step],
            Change::Waiting { step, .. } | Change::Answered { step, .. } | Change::Dequeued { step } => {
                vec![step]
            }
            Change::Protocol { transition } => transition.steps().collect(),
            Change::Status { .. } | Change::Queued { .. } | Change::BackoffElapsed { .. } => Vec::new(),
        };
        let changed = ids.into_iter().filter_map(|id| definition.item_of(id)).map(|(step, _)| step);
        for parent in changed {
            if !parents.contains(&parent) {
                parents.push(parent);
            }
        }
    }
    for parent in parents {
        record_parent(document, parent, entry.at, parts);
    }
}

fn record_parent(document: &mut Document, id: &StepId, at: Timestamp, parts: &mut Parts) {
    let is_done = |status| matches!(status, Status::Completed | Status::Skipped);
    if document.steps.get(id.as_str()).is_none_or(|step| is_done(step.status)) {
        return;
    }
    let first = |status: Status| items_of(document, id).find(|item| item.status == status);
    let (status, from) = if let Some(failed) = first(Status::Failed) {
        (Status::Failed, Some(failed.clone()))
    } else if let Some(waiting) = first(Status::WaitingOnHuman) {
        (Status::WaitingOnHuman, Some(waiting.clone()))
    } else if first(Status::Running).is_some() {
        (Status::Running, None)
    } else {
        (Status::Pending, None)
    };
    let step = step(document, id, parts);
    step.status = status;
    step.started_at = step.started_at.or(Some(at.into()));
    step.ended_at = (status == Status::Failed).then_some(at.into());
    step.last_error = from.as_ref().and_then(|item| item.last_error.clone());
    step.manual_input_path = from.and_then(|item| item.manual_input_path);
}

/// Returns the items of a step in their order.
fn items_of<'a>(document: &'a Document, id: &'a StepId) -> impl Iterator<Item = &'a StepDocument> {
    (1..).map_while(move |number| document.items.get(item_id(id, number).as_str()))
}

/// Stores the findings about items that a restart removes, until the list of items has been read again. `restarted` are
/// the steps that start again: the finding of a gate that loops back to one of them goes to that step.
pub(super) fn keep_findings(
    definition: &Definition,
    document: &mut Document,
    items: &[StepId],
    restarted: &[StepId],
    parts: &mut Parts,
) {
    for id in items {
        let own = document.findings.remove(id.as_str()).map(|findings| (id.clone(), findings));
        let of_gate = document.gate_findings.remove(id.as_str()).and_then(|finding| {
            parts.touch(gate_finding_part(id.as_str()));
            Some((loops::target(definition, id)?, vec![finding]))
        });
        for (target, findings) in own.into_iter().chain(of_gate) {
            parts.touch(findings_part(id.as_str()));
            match definition.item_of(&target) {
                Some((step, number)) => keep_for_item(definition, document, step, number, findings, parts),
                None if restarted.contains(&target) => {
                    document.findings.entry(target.to_string()).or_default().extend(findings);
                    parts.touch(findings_part(target.as_str()));
                }
                None => {}
            }
        }
    }
}

/// Stores findings about an item until the list of items has been read again.
fn keep_for_item(
    definition: &Definition,
    document: &mut Document,
    step: &StepId,
    number: u32,
    findings: Vec<Finding>,
    parts: &mut Parts,
) {
    let Some(items_owner) = definition.items_owner(definition.step(step)) else { return };
    let progress = progress(document, &items_owner.id, parts);
    if let Some(item) = progress.items.get(number as usize - 1).cloned() {
        progress.item_findings.push(ItemFindings { item, number, step: step.clone(), findings });
    }
}

/// Gives stored findings back to the items that are also in the new list.
fn restore_findings(document: &mut Document, id: &StepId, parts: &mut Parts) {
    let progress = progress(document, id, parts);
    let (items, item_findings) = (progress.items.clone(), std::mem::take(&mut progress.item_findings));
    for ItemFindings { item, number, step, findings } in item_findings {
        let mut equal_items =
            (1..).zip(&items).filter(|(_, other)| **other == item).map(|(number, _)| number);
        let first = equal_items.next();
        let new_number = if equal_items.any(|other| other == number) { Some(number) } else { first };
        if let Some(new_number) = new_number {
            let id = item_id(&step, new_number);
            parts.touch(findings_part(id.as_str()));
            document.findings.entry(id.to_string()).or_default().extend(findings);
        }
    }
}

/// Removes items whose list is read again, and everything that is stored about them.
pub(super) fn forget_items(document: &mut Document, ids: &[StepId], parts: &mut Parts) {
    for id in ids {
        let id = id.as_str();
        document.items.remove(id);
        parts.touch(item_part(id));
        if document.progress.remove(id).is_some() {
            parts.touch(progress_part(id));
        }
        if document.findings.remove(id).is_some() {
            parts.touch(findings_part(id));
        }
        if document.gate_findings.remove(id).is_some() {
            parts.touch(gate_finding_part(id));
        }
    }
}

/// Reopens steps of which some items are repeated.
pub(super) fn reopen(document: &mut Document, ids: &[StepId], parts: &mut Parts) {
    for id in ids {
        progress(document, id, parts).phase = Some(Phase::WorkOnItems);
        let step = step(document, id, parts);
        step.status = Status::Pending;
        step.ended_at = None;
    }
}
