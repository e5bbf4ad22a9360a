//! Records an entry in the document.

mod reports;
mod transitions;

use reports::record_report;
use serde_json::json;
use transitions::record_transition;

use super::decide::Change as IssueChange;
use super::definition::Definition;
use super::document::{Document, EnumOrText, PipelineStatus, format_seconds};
use super::parse;
use super::step::Step;
use super::{Issue, import};
use crate::check::shortened;
use crate::entry::{Author, Entry, Input, RecoverySource};
use crate::protocol_trait::RecordError;
use crate::run::{Change, Ending, Fact};
use crate::{StepId, StepRecord, Timestamp};

/// Records the entry in the document. Returns the parts that changed.
pub(super) fn record(
    definition: &Definition,
    document: &mut Document,
    entry: &Entry<Issue>,
) -> Result<Vec<String>, RecordError> {
    let mut new = document.clone();
    let mut all_parts_changed = false;
    match &entry.input {
        Input::Opened { .. } => {
            new.engine.created_at = Some(entry.at);
            new.pipeline.started_at = Some(format_seconds(entry.at));
            all_parts_changed = true;
        }
        Input::Recovered { source } => {
            all_parts_changed = true;
            match source {
                RecoverySource::View { document: found, .. }
                | RecoverySource::Document { document: found, .. }
                | RecoverySource::Migrated { document: found, .. } => {
                    new = import::imported_document(&new, found).map_err(RecordError)?;
                }
                RecoverySource::Journal { .. } | RecoverySource::Archive { .. } => {}
            }
        }
        Input::Fact { fact, evidence } => {
            let report = evidence.as_deref().and_then(|evidence| evidence.report.as_ref());
            if let (Fact::Ended { attempt, ending: Ending::Reported(verdict) }, Some(report)) = (fact, report)
                && let Some(step) = Step::parse(&attempt.step)
            {
                record_report(&mut new, step, verdict, report, entry.at).map_err(RecordError)?;
            }
            let refused = evidence.iter().flat_map(|evidence| &evidence.refused_edits);
            new.engine.notes.extend(refused.cloned());
        }
        Input::Request { .. } | Input::Refused { .. } | Input::Edited { .. } | Input::Deferred => {}
    }
    for change in &entry.changes {
        if let Change::Protocol { transition } = change {
            record_transition(definition, &mut new, transition, entry);
        } else {
            record_step_change(&mut new, change, entry);
        }
    }
    let parts = new.changed_parts((!all_parts_changed).then_some(&*document));
    *document = new;
    Ok(parts)
}

/// Records what happens to a turn.
fn record_step_change(document: &mut Document, change: &Change<IssueChange>, entry: &Entry<Issue>) {
    let Some(step) = change.step() else { return };
    let error = entry.input.evidence().and_then(|evidence| evidence.error.clone());
    step_mut(document, step).record(change, error, entry.at);
    if let Change::Started { .. } = change
        && let Some(agent) = Step::parse(step).and_then(Step::current_agent)
    {
        document.pipeline.current_agent = Some(agent.to_owned());
    }
}

fn step_mut<'a>(document: &'a mut Document, step: &StepId) -> &'a mut StepRecord {
    document.engine.steps.entry(step.clone()).or_default()
}

/// The id in `engine.pending` for a block: triage or the reviewer asks a person whether the run may go on.
pub(super) const BLOCK: &str = "block";

/// Records the answer to the first item of `engine.pending`. The caller removes the item.
fn record_answer(document: &mut Document, answer: &str, by: &str, at: Timestamp) {
    let Some(id) = document.engine.pending.first().cloned() else { return };
    let has_id = |other: &Option<String>| other.as_deref() == Some(id.as_str());
    let at = Some(format_seconds(at));
    let communication = &mut document.communication;
    if let Some(question) = communication.questions.iter_mut().find(|question| has_id(&question.id)) {
        (question.answered, question.answer) = (true, Some(answer.to_owned()));
        (question.answered_by, question.answered_at) = (Some(by.to_owned()), at);
    } else if let Some(escalation) = communication.escalations.iter_mut().find(|found| has_id(&found.id)) {
        (escalation.resolved, escalation.resolution) = (true, Some(answer.to_owned()));
        (escalation.resolved_by, escalation.resolved_at) = (Some(by.to_owned()), at);
    } else {
        document.engine.block_answers.push(format!("{by}: {answer}"));
    }
}

fn set_status(document: &mut Document, status: PipelineStatus) {
    document.pipeline.status = Some(EnumOrText::Known(status));
}

/// Sets the status to blocked if the first item of `engine.pending` waits for a person; the item becomes the reason.
fn block_if_waiting_for_person(document: &mut Document) {
    // A run that was stopped stays failed until it is retried.
    if document.pipeline.failure_reason.is_some() {
        return;
    }
    let Some(first) = document.engine.pending.first() else { return };
    let reason = match (document.question(first), document.escalation(first)) {
        (Some(question), _) if question.to == "human" => {
            format!("`{}` asks: {}", question.from, question.question)
        }
        (Some(_), _) => return,
        (None, Some(escalation)) if !escalation.requires_human => return,
        (None, Some(escalation)) => format!("`{}` escalates: {}", escalation.agent, escalation.reason),
        (None, None) => {
            let reasons = [
                &document.pipeline.blocked_reason,
                &document.engine.block_reason,
                &document.triage.rejection_reason,
            ];
            reasons.into_iter().flatten().next().cloned().unwrap_or_else(|| "blocked".to_owned())
        }
    };
    document.pipeline.blocked_reason = Some(reason);
    set_status(document, PipelineStatus::Blocked);
}

/// Ends a block. The reason moves to the notes.
fn unblock(document: &mut Document) {
    if parse::is_blocked(document) {
        let reason = document.pipeline.blocked_reason.take();
        document.engine.notes.extend(reason.map(|reason| format!("was blocked: {reason}")));
        set_status(document, PipelineStatus::InProgress);
    }
}

fn author_name(author: &Author) -> String {
    match author {
        Author::Engine { .. } => "the engine".to_owned(),
        Author::Person { name, .. } => name.clone(),
        Author::BucketClient { bucket, .. } => format!("another client of {}", shortened(&json!(bucket))),
    }
}
