//! The rules of `peer`.
//!
//! Written from the original's tables and the documents before and after an entry, not with the functions that
//! decide or write, so that a mistake there is not repeated here.

use protocol::Outcome;
use protocol::edit::EditAuthor;
use protocol::entry::{Input as EntryInput, RecoverySource};
use protocol::peer::transition::recognise;
use protocol::peer::{
    Definition, Document, Peer, PeerCycleStatus, Phase, PhaseDocument, PhaseStatus,
    Transition as DocumentTransition,
};
use protocol::run::{Request, RunStatus};
use serde_json::Value;

use super::super::{Input, Transition, Violation, WriteInput};
use super::expected::{expected, is_reused};
use super::{ORDER, succeeded};

pub(super) fn inspect(definition: &Definition, transition: &Transition<'_, Peer>) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_order(transition.document_after(), &mut violations);
    check_end(transition, &mut violations);
    if let EntryInput::Recovered { source: RecoverySource::View { document, .. } } = &transition.entry.input {
        if transition.document_after().to_value() != *document {
            violations.push(Violation::new("an imported document is unchanged", "the document has changed"));
        }
        return violations;
    }
    let expected_transition = expected(definition, transition);
    check_recognised(transition, expected_transition, &mut violations);
    check_started_attempts(definition, transition, &mut violations);
    if transition.input.is_some() {
        check_sequence(transition.document_before(), transition.document_after(), &mut violations);
        check_nothing_lost(transition, expected_transition, &mut violations);
        check_reuse(definition, transition, expected_transition, &mut violations);
    }
    if let Some(Input::Write(write)) = transition.input {
        check_write_applied(transition, write, &mut violations);
    }
    violations
}

/// The entry changes the document by exactly the transition that its input requires.
fn check_recognised(
    transition: &Transition<'_, Peer>,
    expected_transition: DocumentTransition,
    violations: &mut Vec<Violation>,
) {
    const RULE: &str = "an entry makes exactly the write its input requires";
    // The start of the run has no input and no document before it.
    let old = transition.input.map(|_| transition.document_before());
    match recognise(old, transition.document_after()) {
        Ok(found) if found == expected_transition => {}
        Ok(found) => {
            violations.push(Violation::new(RULE, format!("it is `{found}`, not `{expected_transition}`")));
        }
        Err(invalid) => {
            violations
                .push(Violation::new(RULE, format!("it is none, not `{expected_transition}`: {invalid}")));
        }
    }
}

/// One write, one sequence number, one entry of the history.
fn check_sequence(before: &Document, after: &Document, violations: &mut Vec<Violation>) {
    let mut wrong =
        |what: String| violations.push(Violation::new("every write adds one to the sequence", what));
    if before == after {
        return;
    }
    if after.sequence != before.sequence + 1 {
        wrong(format!("`sequence` goes from {} to {}", before.sequence, after.sequence));
    }
    if after.metadata.updated_at < before.metadata.updated_at {
        wrong(format!("it was updated at {}, before the last time", after.metadata.updated_at));
    }
    match after.history.split_last() {
        Some((newest, earlier)) if earlier == before.history => {
            if (newest.sequence, newest.timestamp) != (after.sequence, after.metadata.updated_at) {
                wrong(format!("its entry has number {} and is of {}", newest.sequence, newest.timestamp));
            }
        }
        Some(_) | None => wrong(format!(
            "the history had {} entries and has {}, or others",
            before.history.len(),
            after.history.len()
        )),
    }
}

/// A phase starts when all phases before it are completed.
fn check_order(document: &Document, violations: &mut Vec<Violation>) {
    let started = ORDER.into_iter().rfind(|phase| document.phases[*phase].status != PhaseStatus::Pending);
    let open = |phase: &Phase| document.phases[*phase].status != PhaseStatus::Completed;
    for (at, earlier) in ORDER.into_iter().enumerate().filter(|(_, phase)| open(phase)) {
        if let Some(later) = started.filter(|later| ORDER[at + 1..].contains(later)) {
            let what = format!("`{later}` has started, and `{earlier}` is not completed");
            violations.push(Violation::new("phases start in order", what));
        }
    }
}

/// An attempt starts only for the one phase in progress. A completed phase does not run again, and a reused one does
/// not run.
fn check_started_attempts(
    definition: &Definition,
    transition: &Transition<'_, Peer>,
    violations: &mut Vec<Violation>,
) {
    for attempt in transition.started() {
        let phase = transition.step(&attempt.step);
        let (before, after) =
            (&transition.document_before().phases[phase], &transition.document_after().phases[phase]);
        let mut wrong = |what: &str| {
            let what = format!("`{attempt}` {what}");
            violations.push(Violation::new("attempts belong to the phase in progress", what));
        };
        if after.status != PhaseStatus::InProgress {
            wrong("starts, and its phase is not in progress");
        }
        if before.status == PhaseStatus::Completed {
            wrong("starts, and its phase is completed");
        }
        if is_reused(definition, phase) {
            wrong("starts, and the output of its phase is there");
        }
    }
}

/// Content of the document is not lost: completed phases, errors, outputs, unknown fields.
fn check_nothing_lost(
    transition: &Transition<'_, Peer>,
    expected_transition: DocumentTransition,
    violations: &mut Vec<Violation>,
) {
    let (before, after) = (transition.document_before(), transition.document_after());
    let is_write = matches!(transition.input, Some(Input::Write(_)));
    let mut lost = |what: String| violations.push(Violation::new("no content is lost", what));
    for phase in ORDER {
        let (old, new) = (&before.phases[phase], &after.phases[phase]);
        if old.status == PhaseStatus::Completed && without_unknown_fields(old) != without_unknown_fields(new)
        {
            lost(format!("`{phase}` was completed, and changes"));
        }
        if !is_write && old.unknown != new.unknown {
            lost(format!("fields of `{phase}` that the format does not define"));
        }
        let produces = expected_transition == DocumentTransition::Completed(phase)
            || (expected_transition == DocumentTransition::Started(phase) && old.output.is_none());
        if !is_write && !produces && old.output != new.output {
            lost(format!("the output of `{phase}`"));
        }
        if !new.errors().starts_with(old.errors()) {
            lost(format!("errors of `{phase}`"));
        }
        let added = new.errors().len() - old.errors().len().min(new.errors().len());
        let failed = matches!(
            expected_transition,
            DocumentTransition::Failed(of) | DocumentTransition::Progress { phase: of, .. } if of == phase
        );
        if !is_write && added != usize::from(failed) {
            lost(format!("`{phase}` has {added} errors more"));
        }
    }
    let stopped = matches!(transition.input, Some(Input::Request(Request::Stop)));
    if let DocumentTransition::Failed(phase) = expected_transition
        && let Some(error) = after.phases[phase].errors().last()
        && (error.kind == "cancelled") != stopped
    {
        lost(format!("`{phase}` failed because of `{}`", error.kind));
    }
    if (&before.context, &before.metadata.created_at, &before.metadata.instruction, &before.cycle_id)
        != (&after.context, &after.metadata.created_at, &after.metadata.instruction, &after.cycle_id)
    {
        lost("what the cycle was opened with".to_owned());
    }
    if !is_write && (&before.unknown, &before.metadata.unknown) != (&after.unknown, &after.metadata.unknown) {
        lost("fields that the format does not define".to_owned());
    }
    let review_changed = (&before.cycle_summary, &before.insights) != (&after.cycle_summary, &after.insights);
    if review_changed && expected_transition != DocumentTransition::Completed(Phase::Review) {
        lost("what the review said".to_owned());
    }
}

/// A write is applied as given, under its author's name, and nothing else changes.
fn check_write_applied(
    transition: &Transition<'_, Peer>,
    write: &WriteInput,
    violations: &mut Vec<Violation>,
) {
    let mut wrong = |what: String| violations.push(Violation::new("a write is applied as given", what));
    let after = transition.document_after().to_value();
    match write.patch.apply(&transition.document_before().to_value()) {
        Ok(mut wanted) => {
            wanted["sequence"] = after["sequence"].clone();
            wanted["history"] = after["history"].clone();
            wanted["metadata"]["updated_at"] = after["metadata"]["updated_at"].clone();
            if wanted != after {
                wrong(format!("after `{}` the document differs", write.name));
            }
        }
        Err(why) => wrong(format!("`{}` was taken, and does not fit: {why}", write.name)),
    }
    let expected_author = match &write.author {
        // The person of every entry that the explorer makes.
        EditAuthor::Outside => "ada".to_owned(),
        EditAuthor::Step(step) => {
            let mut live_attempts = transition.before.live_attempts().map(|(attempt, _)| attempt);
            live_attempts
                .find(|attempt| attempt.step == *step)
                .map(|attempt| attempt.to_string())
                .unwrap_or_default()
        }
    };
    let author = after["history"].as_array().and_then(|history| history.last()).map(|newest| &newest["by"]);
    if author.and_then(Value::as_str) != Some(&expected_author) {
        wrong(format!("it is by {author:?}, not by `{expected_author}`"));
    }
}

/// Returns the phase without the fields that the format does not define.
fn without_unknown_fields(phase: &PhaseDocument) -> PhaseDocument {
    PhaseDocument { unknown: serde_json::Map::new(), ..phase.clone() }
}

/// A phase that was completed in the continued cycle is reused unchanged and names that cycle. No other phase names
/// one.
fn check_reuse(
    definition: &Definition,
    transition: &Transition<'_, Peer>,
    expected_transition: DocumentTransition,
    violations: &mut Vec<Violation>,
) {
    let (DocumentTransition::Started(phase) | DocumentTransition::Completed(phase)) = expected_transition
    else {
        return;
    };
    let after = &transition.document_after().phases[phase];
    let source = definition.continues.as_ref().filter(|_| is_reused(definition, phase));
    let mut wrong = |what: String| violations.push(Violation::new("a reused phase names its source", what));
    if after.reused_from.as_ref() != source.map(|continued| &continued.cycle) {
        wrong(format!("`{phase}` is from {:?}", after.reused_from));
    }
    let given_output = source.and_then(|continued| continued.outputs.get(phase as usize));
    if expected_transition == DocumentTransition::Completed(phase)
        && source.is_some()
        && after.output.as_ref() != given_output
    {
        wrong(format!("`{phase}` has another output than there"));
    }
}

/// A run has ended if and only if its document is completed or failed. It has succeeded if the cycle is completed and
/// its review successful.
fn check_end(transition: &Transition<'_, Peer>, violations: &mut Vec<Violation>) {
    let status = transition.document_after().metadata.status;
    let is_closed = matches!(status, PeerCycleStatus::Completed | PeerCycleStatus::Failed);
    let run_status = transition.after.status;
    let (has_ended, outcome) = match run_status {
        RunStatus::Finished(outcome) | RunStatus::Finishing(outcome) => (true, Some(outcome)),
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_) => (false, None),
    };
    if has_ended != is_closed {
        let what = format!("the run is {run_status:?}, the document {status:?}");
        violations.push(Violation::new("run and document end together", what));
    }
    let succeeded = succeeded(transition.document_after());
    if outcome.is_some_and(|outcome| (outcome == Outcome::Succeeded) != succeeded) {
        let what = format!("the run is {run_status:?}; completed with a successful review: {succeeded}");
        violations.push(Violation::new("the outcome matches the review", what));
    }
}
