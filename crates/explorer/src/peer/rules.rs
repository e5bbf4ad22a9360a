//! The rules of `peer`.
//!
//! Written from the specification's tables and the two documents around an entry, not with the functions that decide or
//! write, so that a mistake there is not repeated here.

use protocol::Outcome;
use protocol::edit::EditAuthor;
use protocol::entry::{Input as EntryInput, RecoverySource};
use protocol::peer::transition::recognise;
use protocol::peer::{
    CycleStatus, Definition, Document, Peer, Phase, PhaseDocument, PhaseStatus, Transition as Written,
};
use protocol::run::{Request, RunStatus};
use serde_json::Value;

use super::super::{Input, Transition, Violation, WriteInput};
use super::expected::{expected, is_reused};
use super::{ORDER, succeeded};

pub(super) fn inspect(definition: &Definition, transition: &Transition<'_, Peer>) -> Vec<Violation> {
    let mut violations = Vec::new();
    order(transition.shown(), &mut violations);
    ends(transition, &mut violations);
    if let EntryInput::Recovered { source: RecoverySource::View { document, .. } } = &transition.entry.input {
        if transition.shown().to_value() != *document {
            violations.push(Violation::new("an imported document is unchanged", "the document has changed"));
        }
        return violations;
    }
    let wrote = expected(definition, transition);
    recognised(transition, wrote, &mut violations);
    started_attempts(definition, transition, &mut violations);
    if transition.input.is_some() {
        counts(transition.was(), transition.shown(), &mut violations);
        keeps(transition, wrote, &mut violations);
        reuses(definition, transition, wrote, &mut violations);
    }
    if let Some(Input::Write(writing)) = transition.input {
        applied_as_given(transition, writing, &mut violations);
    }
    violations
}

/// The entry makes exactly the write that its input requires.
fn recognised(transition: &Transition<'_, Peer>, wrote: Written, violations: &mut Vec<Violation>) {
    const RULE: &str = "an entry makes exactly the write its input requires";
    let old = transition.input.map(|_| transition.was());
    match recognise(old, transition.shown()) {
        Ok(found) if found == wrote => {}
        Ok(found) => violations.push(Violation::new(RULE, format!("it is `{found}`, not `{wrote}`"))),
        Err(invalid) => {
            violations.push(Violation::new(RULE, format!("it is none, not `{wrote}`: {invalid}")));
        }
    }
}

/// One write, one sequence number, one entry of the history.
fn counts(was: &Document, shown: &Document, violations: &mut Vec<Violation>) {
    let mut wrong =
        |what: String| violations.push(Violation::new("every write adds one to the sequence", what));
    if was == shown {
        return;
    }
    if shown.sequence != was.sequence + 1 {
        wrong(format!("`sequence` goes from {} to {}", was.sequence, shown.sequence));
    }
    if shown.metadata.updated_at < was.metadata.updated_at {
        wrong(format!("it was updated at {}, before the last time", shown.metadata.updated_at));
    }
    match shown.history.split_last() {
        Some((own, before)) if before == was.history => {
            if (own.sequence, own.timestamp) != (shown.sequence, shown.metadata.updated_at) {
                wrong(format!("its entry has number {} and is of {}", own.sequence, own.timestamp));
            }
        }
        Some(_) | None => wrong(format!(
            "the history had {} entries and has {}, or others",
            was.history.len(),
            shown.history.len()
        )),
    }
}

/// A phase starts when all phases before it are completed.
fn order(shown: &Document, violations: &mut Vec<Violation>) {
    let started = ORDER.into_iter().rfind(|phase| shown.phases[*phase].status != PhaseStatus::Pending);
    let open = |phase: &Phase| shown.phases[*phase].status != PhaseStatus::Completed;
    for (at, earlier) in ORDER.into_iter().enumerate().filter(|(_, phase)| open(phase)) {
        if let Some(later) = started.filter(|later| ORDER[at + 1..].contains(later)) {
            let what = format!("`{later}` has started, and `{earlier}` is not completed");
            violations.push(Violation::new("phases start in order", what));
        }
    }
}

/// An attempt starts only for the one phase in progress. A completed phase does not run again, and a reused one does
/// not run.
fn started_attempts(
    definition: &Definition,
    transition: &Transition<'_, Peer>,
    violations: &mut Vec<Violation>,
) {
    for attempt in transition.started() {
        let phase = transition.step(&attempt.step);
        let (was, shown) = (&transition.was().phases[phase], &transition.shown().phases[phase]);
        let mut wrong = |what: &str| {
            let what = format!("`{attempt}` {what}");
            violations.push(Violation::new("attempts belong to the phase in progress", what));
        };
        if shown.status != PhaseStatus::InProgress {
            wrong("starts, and its phase is not in progress");
        }
        if was.status == PhaseStatus::Completed {
            wrong("starts, and its phase is completed");
        }
        if is_reused(definition, phase) {
            wrong("starts, and the output of its phase is there");
        }
    }
}

/// Content of the document is not lost: completed phases, errors, outputs, unknown fields.
fn keeps(transition: &Transition<'_, Peer>, wrote: Written, violations: &mut Vec<Violation>) {
    let (was, shown) = (transition.was(), transition.shown());
    let writes = matches!(transition.input, Some(Input::Write(_)));
    let mut lost = |what: String| violations.push(Violation::new("no content is lost", what));
    for phase in ORDER {
        let (old, new) = (&was.phases[phase], &shown.phases[phase]);
        if old.status == PhaseStatus::Completed && known(old) != known(new) {
            lost(format!("`{phase}` was completed, and changes"));
        }
        if !writes && old.unknown != new.unknown {
            lost(format!("fields of `{phase}` that the format does not define"));
        }
        let produces =
            wrote == Written::Completed(phase) || (wrote == Written::Started(phase) && old.output.is_none());
        if !writes && !produces && old.output != new.output {
            lost(format!("the output of `{phase}`"));
        }
        if !new.errors().starts_with(old.errors()) {
            lost(format!("errors of `{phase}`"));
        }
        let added = new.errors().len() - old.errors().len().min(new.errors().len());
        let failed =
            matches!(wrote, Written::Failed(of) | Written::Progress { phase: of, .. } if of == phase);
        if !writes && added != usize::from(failed) {
            lost(format!("`{phase}` has {added} errors more"));
        }
    }
    let stopped = matches!(transition.input, Some(Input::Request(Request::Stop)));
    if let Written::Failed(phase) = wrote
        && let Some(error) = shown.phases[phase].errors().last()
        && (error.kind == "cancelled") != stopped
    {
        lost(format!("`{phase}` failed because of `{}`", error.kind));
    }
    if (&was.context, &was.metadata.created_at, &was.metadata.instruction, &was.cycle_id)
        != (&shown.context, &shown.metadata.created_at, &shown.metadata.instruction, &shown.cycle_id)
    {
        lost("what the cycle was opened with".to_owned());
    }
    if !writes && (&was.unknown, &was.metadata.unknown) != (&shown.unknown, &shown.metadata.unknown) {
        lost("fields that the format does not define".to_owned());
    }
    let closing = (&was.cycle_summary, &was.insights) != (&shown.cycle_summary, &shown.insights);
    if closing && wrote != Written::Completed(Phase::Review) {
        lost("what the review said".to_owned());
    }
}

/// A write is applied as given, under its author's name, and nothing else changes.
fn applied_as_given(
    transition: &Transition<'_, Peer>,
    writing: &WriteInput,
    violations: &mut Vec<Violation>,
) {
    let mut wrong = |what: String| violations.push(Violation::new("a write is applied as given", what));
    let shown = transition.shown().to_value();
    match writing.patch.apply(&transition.was().to_value()) {
        Ok(mut wanted) => {
            wanted["sequence"] = shown["sequence"].clone();
            wanted["history"] = shown["history"].clone();
            wanted["metadata"]["updated_at"] = shown["metadata"]["updated_at"].clone();
            if wanted != shown {
                wrong(format!("after `{}` the document differs", writing.name));
            }
        }
        Err(why) => wrong(format!("`{}` was taken, and does not fit: {why}", writing.name)),
    }
    let by = match &writing.author {
        EditAuthor::Outside => "ada".to_owned(),
        EditAuthor::Step(step) => {
            let mut live_attempts = transition.before.live_attempts().map(|(attempt, _)| attempt);
            live_attempts
                .find(|attempt| attempt.step == *step)
                .map(|attempt| attempt.to_string())
                .unwrap_or_default()
        }
    };
    let named = shown["history"].as_array().and_then(|history| history.last()).map(|own| &own["by"]);
    if named.and_then(Value::as_str) != Some(&by) {
        wrong(format!("it is by {named:?}, not by `{by}`"));
    }
}

/// Returns the phase without the fields that the format does not define.
fn known(phase: &PhaseDocument) -> PhaseDocument {
    PhaseDocument { unknown: serde_json::Map::new(), ..phase.clone() }
}

/// A phase that was completed in the cycle before is reused as it was and names its source; no other phase does.
fn reuses(
    definition: &Definition,
    transition: &Transition<'_, Peer>,
    wrote: Written,
    violations: &mut Vec<Violation>,
) {
    let (Written::Started(phase) | Written::Completed(phase)) = wrote else { return };
    let shown = &transition.shown().phases[phase];
    let source = definition.continues.as_ref().filter(|_| is_reused(definition, phase));
    let mut wrong = |what: String| violations.push(Violation::new("a reused phase names its source", what));
    if shown.reused_from.as_ref() != source.map(|continued| &continued.cycle) {
        wrong(format!("`{phase}` is from {:?}", shown.reused_from));
    }
    let given = source.and_then(|continued| continued.outputs.get(phase as usize));
    if wrote == Written::Completed(phase) && source.is_some() && shown.output.as_ref() != given {
        wrong(format!("`{phase}` has another output than there"));
    }
}

/// A run has ended if and only if its document is completed or failed. It has succeeded if the cycle is completed and
/// its review successful.
fn ends(transition: &Transition<'_, Peer>, violations: &mut Vec<Violation>) {
    let status = transition.shown().metadata.status;
    let closed = matches!(status, CycleStatus::Completed | CycleStatus::Failed);
    let phase = transition.after.status;
    let (over, outcome) = match phase {
        RunStatus::Finished(outcome) | RunStatus::Finishing(outcome) => (true, Some(outcome)),
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_) => (false, None),
    };
    if over != closed {
        let what = format!("the run is {phase:?}, the document {status:?}");
        violations.push(Violation::new("run and document end together", what));
    }
    let succeeded = succeeded(transition.shown());
    if outcome.is_some_and(|outcome| (outcome == Outcome::Succeeded) != succeeded) {
        let what = format!("the run is {phase:?}; completed with a successful review: {succeeded}");
        violations.push(Violation::new("the outcome matches the review", what));
    }
}
