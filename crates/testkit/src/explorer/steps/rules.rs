//! The rules of `steps`.
//!
//! Written from the workflow alone (`needs`, `loop_back_to`, the limits), not with the functions that decide, so that
//! a mistake there is not repeated here.

use std::collections::BTreeSet;

use protocol::entry::Input as EntryInput;
use protocol::run::{Change, Ending, Fact, Request, RunStatus};
use protocol::steps::decide::{Change as ProtocolChange, State};
use protocol::steps::{Definition, OnFailure, Steps, Verdict};
use protocol::{Outcome, StepId};

use super::super::{Transition, Violation};

pub(super) fn inspect(definition: &Definition, transition: &Transition<'_, Steps>) -> Vec<Violation> {
    let mut violations = Vec::new();
    begins(definition, transition, &mut violations);
    loops(definition, transition, &mut violations);
    done_steps(transition, &mut violations);
    outcome(definition, transition.state_after(), transition.after.status, &mut violations);
    violations
}

/// A step starts when all its needs are done, and not while a loop-back over it is pending.
fn begins(definition: &Definition, transition: &Transition<'_, Steps>, violations: &mut Vec<Violation>) {
    let state = transition.state_after();
    let held = downstream(definition, targets(definition, &state.looping));
    for attempt in transition.started() {
        let needs = &definition.step(&attempt.step).needs;
        if let Some(missing) = needs.iter().find(|need| !state.done.contains(*need)) {
            let what = format!("`{attempt}` starts before `{missing}` is done");
            violations.push(Violation::new("a step starts after its needs are done", what));
        }
        if held.contains(&attempt.step) {
            let what = format!("`{attempt}` starts before the loop-back");
            violations.push(Violation::new("nothing starts below a pending loop-back", what));
        }
    }
}

/// A loop-back resets the targets and all steps below them, counts each once, and happens only within the limit.
fn loops(definition: &Definition, transition: &Transition<'_, Steps>, violations: &mut Vec<Violation>) {
    let (before, after) = (transition.state_before(), transition.state_after());
    let max = definition.max_iterations().get();
    let mut sent_back = BTreeSet::new();
    let mut restarted = BTreeSet::new();
    for change in &transition.entry.changes {
        if let Change::Protocol { transition: ProtocolChange::Restarted { steps, .. } } = change {
            restarted.extend(steps.iter().cloned());
        }
        let Change::Protocol { transition: ProtocolChange::Reset { gates, targets: first, steps } } = change
        else {
            continue;
        };
        let expected = downstream(definition, targets(definition, gates));
        sent_back.extend(steps.iter().cloned());
        if sent_back != expected {
            let what = format!("{steps:?} are reset, but the gates reach back over {expected:?}");
            violations.push(Violation::new("a loop-back resets everything below its target", what));
        }
        if let Some(gate) = gates.iter().find(|gate| before.iteration(gate) + 1 >= max) {
            let what = format!("`{gate}` was executed {} times", before.iteration(gate) + 1);
            violations.push(Violation::new("gates respect max_iterations", what));
        }
        if first.is_empty() || gates.iter().cloned().collect::<BTreeSet<_>>() != before.looping {
            violations.push(Violation::new(
                "one loop-back for all failed gates",
                format!("{gates:?} go back to {first:?}"),
            ));
        }
    }
    for step in definition.step_ids() {
        let counted = if restarted.contains(step) { 0 } else { before.iteration(step) };
        let expected = counted + u32::from(sent_back.contains(step));
        if after.iteration(step) != expected {
            let what = format!("`{step}` had {} loop-backs, and counts {}", expected, after.iteration(step));
            violations.push(Violation::new("every loop-back is counted", what));
        }
    }
    if let Some((step, Verdict::GateFailed)) = verdict(transition) {
        let is_last = before.iteration(step) + 1 >= max;
        if after.failed.contains(step) != is_last {
            let executions = before.iteration(step) + 1;
            let what = format!("execution {executions} of {max} failed; for good: {}", !is_last);
            violations.push(Violation::new("gates respect max_iterations", what));
        }
    }
}

/// Returns the verdict of a report or an answer, and its step.
fn verdict<'a>(transition: &'a Transition<'_, Steps>) -> Option<(&'a StepId, Verdict)> {
    match &transition.entry.input {
        EntryInput::Fact { fact: Fact::Ended { attempt, ending: Ending::Reported(verdict) }, .. } => {
            Some((&attempt.step, *verdict))
        }
        EntryInput::Fact { fact: Fact::Answered { step, verdict, .. }, .. } => Some((step, *verdict)),
        EntryInput::Opened { .. }
        | EntryInput::Fact { .. }
        | EntryInput::Request { .. }
        | EntryInput::Refused { .. }
        | EntryInput::Edited { .. }
        | EntryInput::Deferred
        | EntryInput::Recovered { .. } => None,
    }
}

/// A step is done by a report, an approval or a skip, and stays so until a loop-back. A rejection that cannot loop back
/// fails it.
fn done_steps(transition: &Transition<'_, Steps>, violations: &mut Vec<Violation>) {
    let (before, after) = (transition.state_before(), transition.state_after());
    let mut done = before.done.clone();
    match verdict(transition) {
        Some((step, Verdict::Done)) => {
            done.insert(step.clone());
        }
        Some((step, Verdict::Rejected)) if !after.failed.contains(step) => {
            let what = format!("`{step}` was rejected and has not failed");
            violations.push(Violation::new("a rejection without a loop-back fails the step", what));
        }
        Some((_, Verdict::Rejected | Verdict::GateFailed)) | None => {}
    }
    match &transition.entry.input {
        EntryInput::Request { request: Request::Skip { step }, .. } => {
            done.insert(step.clone());
        }
        EntryInput::Opened { .. }
        | EntryInput::Fact { .. }
        | EntryInput::Request { .. }
        | EntryInput::Refused { .. }
        | EntryInput::Edited { .. }
        | EntryInput::Deferred
        | EntryInput::Recovered { .. } => {}
    }
    for change in &transition.entry.changes {
        if let Change::Protocol {
            transition: ProtocolChange::Reset { steps, .. } | ProtocolChange::Restarted { steps, .. },
        } = change
        {
            steps.iter().for_each(|step| {
                done.remove(step);
            });
        }
    }
    if after.done != done {
        let what = format!("{:?} are done, by the reports {done:?}", after.done);
        violations.push(Violation::new("a step is done by a report or a skip", what));
    }
    let all = [&after.done, &after.failed, &after.looping];
    let twice = after.done.iter().chain(&after.failed).chain(&after.looping);
    if let Some(step) =
        twice.into_iter().find(|step| all.iter().filter(|set| set.contains(*step)).count() > 1)
    {
        violations.push(Violation::new("a step has one status", format!("`{step}` has two")));
    }
}

/// Succeeded means all steps are done. Failed means a step failed and, under `continue`, no other step could run.
fn outcome(definition: &Definition, state: &State, status: RunStatus, violations: &mut Vec<Violation>) {
    let RunStatus::Finished(outcome) = status else { return };
    let all_done = definition.step_ids().all(|step| state.done.contains(step));
    let what = match outcome {
        Outcome::Succeeded if !all_done => "succeeded, and not all is done".to_owned(),
        Outcome::Incomplete => "incomplete, which no workflow can be".to_owned(),
        Outcome::Failed if state.failed.is_empty() => "failed, and nothing failed".to_owned(),
        Outcome::Failed if definition.on_failure() == OnFailure::Continue => {
            match can_still_run(definition, state).first() {
                Some(step) => format!("failed, and `{step}` was not started"),
                None => return,
            }
        }
        Outcome::Succeeded | Outcome::Failed => return,
    };
    violations.push(Violation::new("the outcome matches the steps", what));
}

/// Returns the open steps that need only steps which are done or can still run.
fn can_still_run(definition: &Definition, state: &State) -> BTreeSet<StepId> {
    let mut able = state.done.clone();
    loop {
        let steps = definition.workflow().steps.iter();
        let open = steps.filter(|step| !able.contains(&step.id) && !state.failed.contains(&step.id));
        let more: Vec<_> = open.filter(|step| step.needs.iter().all(|need| able.contains(need))).collect();
        if more.is_empty() {
            return able.difference(&state.done).cloned().collect();
        }
        able.extend(more.into_iter().map(|step| step.id.clone()));
    }
}

fn targets<'a>(definition: &Definition, gates: impl IntoIterator<Item = &'a StepId>) -> BTreeSet<StepId> {
    gates.into_iter().filter_map(|gate| definition.step(gate).loop_back_to.clone()).collect()
}

/// Returns these steps and all that depend on them, by repeating `needs` until nothing is added.
fn downstream(definition: &Definition, of: BTreeSet<StepId>) -> BTreeSet<StepId> {
    let mut reached = of;
    loop {
        let steps = definition.workflow().steps.iter();
        let more = steps.filter(|step| step.needs.iter().any(|need| reached.contains(need)));
        let more: Vec<_> = more.map(|step| step.id.clone()).filter(|step| !reached.contains(step)).collect();
        if more.is_empty() {
            return reached;
        }
        reached.extend(more);
    }
}
