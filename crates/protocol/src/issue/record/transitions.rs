//! What a transition changes in the document.

use super::super::Issue;
use super::super::decide::{Change as IssueChange, FailureCause, Stage};
use super::super::definition::Definition;
use super::super::document::{
    Build, Document, PipelineAttempt, PipelineStatus, Review, Writer, format_seconds,
};
use super::super::step::Step;
use super::super::step::brief::exhaustion_reason;
use super::super::verdict::Pending;
use super::{author_name, block_if_waiting_for_person, record_answer, set_status, step_mut, unblock};
use crate::entry::{Entry, Evidence, Input};
use crate::run::Fact;
use crate::{StepId, StepRecordStatus, Timestamp};

/// Records a transition of the pipeline.
pub(super) fn record_transition(
    definition: &Definition,
    document: &mut Document,
    change: &IssueChange,
    entry: &Entry<Issue>,
) {
    match change {
        IssueChange::Entered(stage) => enter_stage(document, *stage, entry.at),
        IssueChange::Asked(pending) => {
            document.engine.asked += u32::try_from(pending.len()).unwrap_or(u32::MAX);
            if let Input::Fact { fact: Fact::Ended { attempt, .. }, .. } = &entry.input
                && !is_replaced_by_answer(&attempt.step, pending)
            {
                // The agent is asked again.
                step_mut(document, &attempt.step).status = StepRecordStatus::Pending;
            }
            block_if_waiting_for_person(document);
        }
        // The comment about the first pending item is on the issue; only the state keeps that.
        IssueChange::Posted => {}
        // The first pending item is answered, by a person in this entry or by an agent's report.
        IssueChange::PendingAnswered => {
            if let Some(answer) = entry.input.evidence().and_then(|evidence| evidence.answer.as_ref()) {
                let text = answer.text().map_or_else(|| answer.to_string(), str::to_owned);
                record_answer(document, &text, &author_name(&entry.by), entry.at);
            }
            if !document.engine.pending.is_empty() {
                document.engine.pending.remove(0);
            }
            unblock(document);
            block_if_waiting_for_person(document);
        }
        // No agent could answer: the first pending item goes to a person.
        IssueChange::Rerouted => {
            let first = document.engine.pending.first().cloned();
            let questions = &mut document.communication.questions;
            if let Some(question) = questions.iter_mut().find(|question| question.id == first) {
                let note = format!("`{}` could not answer: {}", question.to, question.question);
                "human".clone_into(&mut question.to);
                document.engine.notes.push(note);
            }
            let escalations = &mut document.communication.escalations;
            if let Some(escalation) = escalations.iter_mut().find(|escalation| escalation.id == first) {
                escalation.requires_human = true;
                let note = format!("no agent could resolve the escalation: {}", escalation.reason);
                document.engine.notes.push(note);
            }
            block_if_waiting_for_person(document);
        }
        IssueChange::LoopedBack => {
            close_pipeline_attempt(document, entry.at);
            document.pipeline.attempt += 1;
        }
        // The run fails when a last comment is on the issue.
        IssueChange::GaveUp => {
            record_no_attempts_left(definition, document, entry.at);
            document.engine.asked = 0;
        }
        IssueChange::Failed(FailureCause::Pipeline) => {
            record_no_attempts_left(definition, document, entry.at);
        }
        IssueChange::Failed(cause) => record_failure(document, *cause, entry),
        IssueChange::Retried(cause) => {
            let reason = document.pipeline.failure_reason.take();
            document.engine.notes.extend(reason.map(|reason| format!("retried after: {reason}")));
            document.learnings.outcome = None;
            set_status(document, PipelineStatus::InProgress);
            if *cause == FailureCause::Pipeline {
                close_pipeline_attempt(document, entry.at);
                document.pipeline.attempt = 1;
            }
            let failed =
                document.engine.steps.values_mut().filter(|step| step.status == StepRecordStatus::Failed);
            failed.for_each(|step| step.status = StepRecordStatus::Pending);
            block_if_waiting_for_person(document);
        }
        IssueChange::Imported(_) => {}
    }
}

fn record_no_attempts_left(definition: &Definition, document: &mut Document, at: Timestamp) {
    // The outcome is a word of the document's format.
    set_failed(document, exhaustion_reason(definition), "failed_max_retries", at);
}

/// Returns whether the answer of a person replaces the step: triage that has blocked the run is not asked again.
fn is_replaced_by_answer(step: &StepId, pending: &[Pending]) -> bool {
    Step::parse(step) == Some(Step::Triage) && pending == [Pending::Block]
}

fn enter_stage(document: &mut Document, stage: Stage, at: Timestamp) {
    document.engine.asked = 0;
    match stage {
        Stage::Announce => document.commit.completed = true,
        Stage::Done => {
            set_status(document, PipelineStatus::Completed);
            document.pipeline.completed_at = Some(format_seconds(at));
            record_outcome(document, "success", at);
        }
        Stage::Triage
        | Stage::Analyst
        | Stage::Writer
        | Stage::Diff
        | Stage::Build
        | Stage::Reviewer
        | Stage::Commit
        | Stage::Push
        | Stage::PullRequest
        | Stage::Close
        | Stage::GiveUp => {}
    }
}

/// Moves the sections of the finished pipeline attempt to `attempts`. The next writer gets the feedback, and starts from the
/// git tree that the diff step recorded, without files that build or reviewer added later.
fn close_pipeline_attempt(document: &mut Document, at: Timestamp) {
    document.engine.previous_tree = document.engine.tree.take();
    let feedback = document.review.feedback_for_writer.clone();
    let record = PipelineAttempt {
        attempt: document.pipeline.attempt,
        writer: std::mem::take(&mut document.writer),
        build: std::mem::take(&mut document.build),
        review: std::mem::take(&mut document.review),
        ended_at: format_seconds(at),
    };
    document.attempts.push(record);
    document.writer = Writer { previous_feedback: feedback, ..Writer::default() };
    (document.build, document.review) = (Build::default(), Review::default());
    document.engine.asked = 0;
}

fn record_failure(document: &mut Document, cause: FailureCause, entry: &Entry<Issue>) {
    let error = || {
        let evidence: Option<&Evidence> = entry.input.evidence();
        evidence.and_then(|evidence| evidence.error.clone()).unwrap_or_else(|| "no attempts left".to_owned())
    };
    match cause {
        // `record_transition` records this one by itself.
        FailureCause::Pipeline => {}
        FailureCause::Step => {
            let agent = document.pipeline.current_agent.clone().unwrap_or_default();
            set_failed(document, format!("`{agent}` has no attempts left: {}", error()), "error", entry.at);
        }
        FailureCause::Stopped => {
            let reason = if let Input::Request { reason: Some(reason), .. } = &entry.input {
                format!(": {reason}")
            } else {
                String::new()
            };
            set_failed(
                document,
                format!("Stopped by {}{reason}", author_name(&entry.by)),
                "stopped",
                entry.at,
            );
        }
        FailureCause::Refused => {
            let answer = entry.input.evidence().and_then(|evidence| evidence.answer.as_ref()?.text());
            let by = author_name(&entry.by);
            // A person may have overruled triage before; then another agent has asked.
            let is_by_triage = document.triage.should_proceed == Some(false)
                && document.pipeline.current_agent.as_deref() == Some("triage");
            let outcome = if is_by_triage { "escalated" } else { "blocked" };
            set_failed(document, format!("Ended by {by}: {}", answer.unwrap_or_default()), outcome, entry.at);
        }
    }
}

fn set_failed(document: &mut Document, reason: String, outcome: &str, at: Timestamp) {
    set_status(document, PipelineStatus::Failed);
    document.pipeline.blocked_reason = None;
    document.pipeline.failure_reason = Some(reason);
    record_outcome(document, outcome, at);
}

fn record_outcome(document: &mut Document, outcome: &str, at: Timestamp) {
    document.engine.ended_at = Some(at);
    document.learnings.outcome = Some(outcome.to_owned());
    document.learnings.attempts_used = Some(document.pipeline.attempt);
    document.learnings.duration_minutes =
        document.engine.created_at.map(|created_at| at.since(created_at).as_secs() / 60);
}
