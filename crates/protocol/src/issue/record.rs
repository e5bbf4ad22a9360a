//! Records an entry in the document.

use serde_json::{Value, json};

use super::decide::{Change as IssueChange, FailureCause, Stage};
use super::definition::Definition;
use super::document::{
    Build, CommandRun, Document, EnumOrText, Escalation, Observation, PipelineAttempt, PipelineStatus,
    Question, Review, Writer, format_seconds,
};
use super::parse;
use super::step::brief::exhaustion_reason;
use super::step::{Agent, Step};
use super::verdict::{Pending, Verdict};
use super::{Issue, import};
use crate::check::shortened;
use crate::checks;
use crate::entry::{Author, Entry, Evidence, Input, RecoverySource};
use crate::protocol_trait::RecordError;
use crate::report::Report;
use crate::run::{Change, Ending, Fact};
use crate::{StepId, StepRecord, StepRecordStatus, Timestamp};

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

/// Records the report of a step.
fn record_report(
    document: &mut Document,
    step: Step,
    verdict: &Verdict,
    report: &Report,
    at: Timestamp,
) -> Result<(), String> {
    let text = |field: &str| report.extra_fields.get(field).and_then(Value::as_str).map(str::to_owned);
    match step {
        Step::Triage | Step::Analyst | Step::Writer | Step::Reviewer => {
            let agent = step.agent().expect("BUG: an agent works on the step");
            *document = parse::with_report(document, agent, report)?;
            record_agent_report(document, agent, verdict, report, at);
        }
        Step::Diff => {
            let files = parse::changed_files(report)?;
            let problems = parse::diff_problems(document, &files);
            document.engine.changed_files = files.changed;
            document.engine.diff_stat = text("stat").unwrap_or_default();
            document.engine.tree = text("tree");
            if *verdict != Verdict::Changed {
                document.build = Build {
                    completed: true,
                    errors: problems.iter().map(|problem| json!(problem)).collect(),
                    ..Build::default()
                };
                set_feedback(document, "build", problems.join("\n"));
            }
        }
        Step::Build => {
            let results = checks::results(report)?;
            // `None` if no check of this name ran.
            let passed = |name: &str| {
                let mut of_name = results.iter().filter(|result| result.name == name).peekable();
                of_name.peek()?;
                Some(of_name.all(checks::CheckResult::passed))
            };
            let failed: Vec<_> = results.iter().filter(|result| !result.passed()).collect();
            let describe = |result: &&checks::CheckResult| {
                format!("{} (`{}`)\n{}", result.summary(), result.command.join(" "), result.output.trim_end())
            };
            let mut texts: Vec<_> = failed.iter().map(describe).collect();
            if results.is_empty() {
                texts.push(
                    "no check is configured or found, so nothing shows that the change works".to_owned(),
                );
            }
            document.build = Build {
                completed: true,
                tests_passed: passed("test"),
                lint_passed: passed("lint"),
                type_check_passed: passed("types"),
                errors: texts.iter().map(|text| json!(text)).collect(),
                commands_run: results.iter().map(command_run).collect(),
                ..Build::default()
            };
            if *verdict == Verdict::BuildFailed {
                set_feedback(document, "build", texts.join("\n\n"));
            }
        }
        Step::Answer(agent) => record_answer(document, parse::answer_text(report)?, agent.name(), at),
        Step::Commit => {
            document.commit.hash = text("hash");
            document.commit.message = text("message");
        }
        Step::Push => {
            document.commit.pushed =
                *verdict == Verdict::Performed && report.extra_fields.get("pushed") == Some(&json!(true));
        }
        Step::PullRequest => {
            document.commit.pr_url = text("url");
            document.commit.pr_created = document.commit.pr_url.is_some();
        }
        Step::Close => document.commit.issue_closed = report.extra_fields.get("closed") == Some(&json!(true)),
        Step::Comment | Step::Person => {}
    }
    document.engine.notes.extend(text("rehearsal"));
    Ok(())
}

fn command_run(result: &checks::CheckResult) -> CommandRun {
    let details = json!({
        "check": result.name,
        "duration_ms": result.duration_ms,
        "tree": result.tree,
        "output_digest": result.output_digest,
        "log": result.log,
        "error": result.error,
    });
    CommandRun {
        command: result.command.join(" "),
        exit_code: result.exit_code,
        output: result.output.clone(),
        others: details.as_object().cloned().unwrap_or_default(),
    }
}

/// Sets the feedback for the writer of the next pipeline attempt.
fn set_feedback(document: &mut Document, from: &str, text: String) {
    document.review.feedback_for_writer = Some(text);
    document.review.feedback_from = Some(from.to_owned());
}

/// Records questions, escalations and observations of an agent, and whether its section is complete.
fn record_agent_report(
    document: &mut Document,
    agent: Agent,
    verdict: &Verdict,
    report: &Report,
    at: Timestamp,
) {
    let asked = if let Verdict::Asks(pending) = verdict { pending.as_slice() } else { &[] };
    // If triage blocks the run and asks nothing else, its section is complete.
    let is_complete = asked.is_empty() || (agent == Agent::Triage && asked == [Pending::Block]);
    match agent {
        Agent::Triage => document.triage.completed = is_complete,
        Agent::Analyst => {
            document.analysis.completed = is_complete;
            let classified = document.analysis.issue_type.clone();
            document.issue.kind = classified.or(document.issue.kind.take());
        }
        Agent::Writer => {
            document.writer.completed = is_complete;
            document.writer.attempt = Some(document.pipeline.attempt);
        }
        Agent::Reviewer => {
            document.review.completed = is_complete;
            if *verdict == Verdict::Rejected {
                document.review.feedback_from = Some("reviewer".to_owned());
            }
        }
    }
    let name = agent.name().to_owned();
    let list = |section: &str, field: &str| {
        let list =
            report.extra_fields.get(section).and_then(|section| section.get(field)).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut pending = Vec::new();
    for question in list("communication", "questions") {
        let id = format!("q{}", document.communication.questions.len() + 1);
        pending.push(id.clone());
        document.communication.questions.push(Question {
            id: Some(id),
            from: name.clone(),
            to: text(&question["to"]),
            question: text(&question["question"]),
            asked_at: Some(format_seconds(at)),
            ..Question::default()
        });
    }
    for escalation in list("communication", "escalations") {
        let id = format!("e{}", document.communication.escalations.len() + 1);
        pending.push(id.clone());
        document.communication.escalations.push(Escalation {
            id: Some(id),
            agent: name.clone(),
            reason: text(&escalation["reason"]),
            requires_human: escalation["requires_human"] != Value::Bool(false),
            raised_at: Some(format_seconds(at)),
            ..Escalation::default()
        });
    }
    for observation in list("learnings", "observations") {
        document.learnings.observations.push(Observation {
            agent: name.clone(),
            kind: text(&observation["type"]),
            content: text(&observation["content"]),
            ..Observation::default()
        });
    }
    if let Verdict::Asks(asked) = verdict {
        if asked.contains(&Pending::Block) {
            pending.push(BLOCK.to_owned());
            document.pipeline.blocked_reason = parse::block_reason(agent, report).flatten();
            document.engine.block_reason.clone_from(&document.pipeline.blocked_reason);
        }
        document.engine.pending = pending;
    }
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

/// Records a transition of the pipeline.
fn record_transition(
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
