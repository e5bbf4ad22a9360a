//! The rules of `steps`.
//!
//! Written from the workflow alone (`needs`, `loop_back_to`, the limits), not with the functions that decide, so that
//! a mistake there is not repeated here.

use std::collections::BTreeSet;

use protocol::entry::Input as EntryInput;
use protocol::run::{Change, Ending, Fact, Request, RunStatus};
use protocol::steps::{Change as ProtocolChange, Definition, OnFailure, Phase, State, Steps, Verdict};
use protocol::{Outcome, StepId};

use super::super::{Transition, Violation};

pub(super) fn inspect(definition: &Definition, transition: &Transition<'_, Steps>) -> Vec<Violation> {
    let mut violations = Vec::new();
    if definition.has_data_loops() {
        check_data_loops(definition, transition, &mut violations);
        return violations;
    }
    check_starts(definition, transition, &mut violations);
    check_loop_backs(definition, transition, &mut violations);
    check_done(definition, transition, &mut violations);
    check_phases(definition, transition, &mut violations);
    check_outcome(definition, transition.state_after(), transition.after.status, &mut violations);
    violations
}

/// At most `parallel` items are worked on at once. A step that shares the items of another, its items owner
/// (`loop: {with: …}`), works on an item after the steps it needs. A step is done when all its items are. No item of a
/// skipped step has a turn.
fn check_data_loops(
    definition: &Definition,
    transition: &Transition<'_, Steps>,
    violations: &mut Vec<Violation>,
) {
    let state = transition.state_after();
    let items_owner_of = |step: &StepId| {
        let spec = definition.step(step);
        definition.items_owner(spec).map(|items_owner| items_owner.id.clone())
    };
    let item =
        |step: &StepId, number: u32| StepId::new(format!("{step}.{number}")).expect("BUG: it is an id");
    for attempt in transition.started() {
        let spec = definition.step(&attempt.step);
        let number = definition.item_of(&attempt.step).map(|(_, number)| number);
        for need in &spec.needs {
            let shared_number = number.filter(|_| {
                items_owner_of(need).is_some() && items_owner_of(need) == items_owner_of(&spec.id)
            });
            let needed = shared_number.map_or_else(|| need.clone(), |number| item(need, number));
            if !state.done.contains(&needed) && !state.done.contains(need) {
                let what = format!("`{attempt}` starts before `{needed}` is done");
                violations.push(Violation::new("a step starts after its needs are done", what));
            }
        }
    }
    for (items_owner, count) in &state.item_counts {
        let parallel =
            definition.step(items_owner).data_loop.as_ref().map_or(1, |data_loop| data_loop.parallel.get());
        let turns = transition
            .after
            .active_turns
            .keys()
            .filter(|step| items_owner_of(step).as_ref() == Some(items_owner));
        let numbers: BTreeSet<_> =
            turns.filter_map(|step| definition.item_of(step)).map(|(_, number)| number).collect();
        if numbers.len() > parallel as usize {
            let what = format!("the items {numbers:?} of `{items_owner}` are worked on at once");
            violations.push(Violation::new("no more items at once than `parallel`", what));
        }
        let mut active = transition.after.active_turns.keys().filter_map(|step| definition.item_of(step));
        if let Some((step, number)) = active.find(|(step, _)| state.skipped.contains(*step)) {
            let what = format!("item {number} of `{step}` is in a turn");
            violations.push(Violation::new("no item of a skipped step is in a turn", what));
        }
        for step in definition.step_ids().filter(|step| items_owner_of(step).as_ref() == Some(items_owner)) {
            let all = (1..=*count).all(|number| state.done.contains(&item(step, number)));
            if state.done.contains(step) != all && !state.skipped.contains(step) {
                let what = format!("`{step}` is done: {}, all its items: {all}", state.done.contains(step));
                violations.push(Violation::new("a step is done when all its items are", what));
            }
        }
    }
    let RunStatus::Finished(outcome) = transition.after.status else { return };
    let all_done = definition.step_ids().all(|step| state.done.contains(step));
    if (outcome == Outcome::Succeeded) != all_done {
        let what = format!("{outcome:?}, all is done: {all_done}");
        violations.push(Violation::new("the outcome matches the steps", what));
    }
}

/// A step starts when all its needs are done, and not while a loop-back over it is pending.
fn check_starts(
    definition: &Definition,
    transition: &Transition<'_, Steps>,
    violations: &mut Vec<Violation>,
) {
    let state = transition.state_after();
    let below_loop_back = downstream(definition, targets(definition, &state.gates_looping_back));
    for attempt in transition.started() {
        let needs = &definition.step(&attempt.step).needs;
        if let Some(missing) = needs.iter().find(|need| !state.done.contains(*need)) {
            let what = format!("`{attempt}` starts before `{missing}` is done");
            violations.push(Violation::new("a step starts after its needs are done", what));
        }
        if below_loop_back.contains(&attempt.step) {
            let what = format!("`{attempt}` starts before the loop-back");
            violations.push(Violation::new("nothing starts below a pending loop-back", what));
        }
    }
}

/// A loop-back resets its targets and all steps below them, which are those that depend on them. It counts each of these
/// steps once, and happens only within `max_iterations`.
fn check_loop_backs(
    definition: &Definition,
    transition: &Transition<'_, Steps>,
    violations: &mut Vec<Violation>,
) {
    let (before, after) = (transition.state_before(), transition.state_after());
    let max = definition.max_iterations().get();
    let mut reset = BTreeSet::new();
    let mut restarted = BTreeSet::new();
    for change in &transition.entry.changes {
        // A user restarts the run at a step: the loop-backs of these steps are counted anew.
        if let Change::Protocol { transition: ProtocolChange::Restarted { steps, .. } } = change {
            restarted.extend(steps.iter().cloned());
        }
        let Change::Protocol {
            transition: ProtocolChange::Reset { gates, targets: loop_targets, steps, .. },
        } = change
        else {
            continue;
        };
        let expected = downstream(definition, targets(definition, gates));
        reset.extend(steps.iter().cloned());
        if reset != expected {
            let what = format!("{steps:?} are reset, but the gates reach back over {expected:?}");
            violations.push(Violation::new("a loop-back resets everything below its target", what));
        }
        if let Some(gate) = gates.iter().find(|gate| before.loop_backs(gate) + 1 >= max) {
            let what = format!("`{gate}` was executed {} times", before.loop_backs(gate) + 1);
            violations.push(Violation::new("gates respect max_iterations", what));
        }
        if loop_targets.is_empty()
            || gates.iter().cloned().collect::<BTreeSet<_>>() != before.gates_looping_back
        {
            violations.push(Violation::new(
                "one loop-back for all failed gates",
                format!("{gates:?} go back to {loop_targets:?}"),
            ));
        }
    }
    for step in definition.step_ids() {
        let loop_backs = if restarted.contains(step) { 0 } else { before.loop_backs(step) };
        let expected = loop_backs + u32::from(reset.contains(step));
        if after.loop_backs(step) != expected {
            let what = format!("`{step}` had {} loop-backs, and counts {}", expected, after.loop_backs(step));
            violations.push(Violation::new("every loop-back is counted", what));
        }
    }
    if let Some((step, Verdict::GateFailed)) = verdict(transition) {
        let is_last = before.loop_backs(step) + 1 >= max;
        if after.failed.contains(step) != is_last {
            let executions = before.loop_backs(step) + 1;
            let is_failed = after.failed.contains(step);
            let what = format!("execution {executions} of {max} failed; for good: {is_failed}");
            violations.push(Violation::new("gates respect max_iterations", what));
        }
    }
}

/// An agent starts when the conditions hold, a person is asked after the agent's report, and a finished step has no
/// phase. A step that is in its first phase has no entry in `phases` either.
fn check_phases(
    definition: &Definition,
    transition: &Transition<'_, Steps>,
    violations: &mut Vec<Violation>,
) {
    let (before, after) = (transition.state_before(), transition.state_after());
    let mut wrong = |what| violations.push(Violation::new("a step goes through its phases", what));
    for attempt in transition.started() {
        let phase = after.phases.get(&attempt.step);
        let spec = definition.step(&attempt.step);
        if !spec.gates.is_empty() && phase.is_none() && spec.when.is_empty() {
            wrong(format!("`{attempt}` starts before its conditions hold"));
        }
    }
    for (step, phase) in &after.phases {
        let spec = definition.step(step);
        let from = before.phases.get(step);
        let is_reached = from == Some(phase)
            || match phase {
                // `When` is always the first phase. Definitions with data loops are not checked here.
                Phase::When | Phase::ReadItems | Phase::WorkOnItems => false,
                Phase::Conditions => from.is_none() && !spec.when.is_empty() && !spec.gates.is_empty(),
                // Follows `when` or `gates`, if the step has one of them. With both it follows `gates`.
                Phase::Work => {
                    (from.is_none() && spec.gates.is_empty() != spec.when.is_empty())
                        || from == Some(&Phase::Conditions)
                        || (from == Some(&Phase::Checks) && after.failed_check_turns(step) > 0)
                }
                Phase::Checks => {
                    !spec.checks.is_empty()
                        && (from == Some(&Phase::Work) || (from.is_none() && spec.gates.is_empty()))
                }
                Phase::Approval if !spec.checks.is_empty() => from == Some(&Phase::Checks),
                Phase::Approval => {
                    spec.human_in_the_loop
                        && (from == Some(&Phase::Work) || (from.is_none() && spec.gates.is_empty()))
                }
                Phase::Approved => {
                    from == Some(&Phase::Approval)
                        || (spec.is_for_person() && (from == Some(&Phase::Work) || spec.gates.is_empty()))
                }
            };
        if !is_reached {
            wrong(format!("`{step}` goes from {from:?} to {phase:?}"));
        }
        if after.done.contains(step) || after.failed.contains(step) || after.gates_looping_back.contains(step)
        {
            wrong(format!("`{step}` is over, and in {phase:?}"));
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

/// A step is done by its last report, after an approval, or by a skip, and stays so until a loop-back. A rejection that
/// cannot loop back fails it.
fn check_done(definition: &Definition, transition: &Transition<'_, Steps>, violations: &mut Vec<Violation>) {
    let (before, after) = (transition.state_before(), transition.state_after());
    let mut done = before.done.clone();
    let phase = |step: &StepId| before.phases.get(step).copied();
    match verdict(transition) {
        Some((step, Verdict::Done)) => {
            let spec = definition.step(step);
            // The report of the last phase completes a step in the same entry. After the answer of a person, a deferred
            // transition does.
            let is_before_work = phase(step) == Some(Phase::Conditions)
                || (phase(step).is_none() && (!spec.gates.is_empty() || !spec.when.is_empty()));
            let is_checked = spec.checks.is_empty() || phase(step) == Some(Phase::Checks);
            if !is_before_work && is_checked && !spec.is_for_person() && !spec.human_in_the_loop {
                done.insert(step.clone());
            }
        }
        Some((step, Verdict::Rejected)) if !after.failed.contains(step) => {
            let what = format!("`{step}` was rejected and has not failed");
            violations.push(Violation::new("a rejection without a loop-back fails the step", what));
        }
        Some((step, Verdict::ChecksFailed)) => {
            let attempts = definition.max_attempts(step).get();
            let failures = before.failed_check_turns(step) + 1;
            if after.failed.contains(step) != (failures >= attempts) {
                let what = format!("the checks of `{step}` failed {failures} times of {attempts}");
                violations.push(Violation::new("red checks cost an attempt", what));
            }
        }
        Some((step, Verdict::Skip)) => {
            done.insert(step.clone());
            if !after.skipped.contains(step) {
                let what = format!("`{step}` is not to run, and was not skipped");
                violations.push(Violation::new("a step that is not to run is skipped", what));
            }
        }
        Some((_, Verdict::Rejected | Verdict::GateFailed | Verdict::Items(_))) | None => {}
    }
    let ends = matches!(
        transition.after.status,
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_)
    );
    let is_deferred = matches!(transition.entry.input, EntryInput::Deferred);
    // A deferred transition completes the first approved step; the end of the run completes all of them.
    let approved = before.phases.iter().filter(|(_, phase)| **phase == Phase::Approved);
    let approved: Vec<_> = approved.map(|(step, _)| step.clone()).collect();
    let completed = approved.iter().filter(|step| after.done.contains(*step));
    done.extend(completed.filter(|_| is_deferred || ends).cloned());
    if ends && let Some(step) = approved.iter().find(|step| after.phases.contains_key(*step)) {
        let what = format!("`{step}` is approved, and the run ends");
        violations.push(Violation::new("an approved step is done when the run ends", what));
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
    let statuses = [&after.done, &after.failed, &after.gates_looping_back];
    let steps = after.done.iter().chain(&after.failed).chain(&after.gates_looping_back);
    if let Some(step) =
        steps.into_iter().find(|step| statuses.iter().filter(|set| set.contains(*step)).count() > 1)
    {
        violations.push(Violation::new("a step has one status", format!("`{step}` has two")));
    }
}

/// Succeeded means all steps are done. Failed means a step failed and, under `continue`, no other step could run.
fn check_outcome(definition: &Definition, state: &State, status: RunStatus, violations: &mut Vec<Violation>) {
    let RunStatus::Finished(outcome) = status else { return };
    let all_done = definition.step_ids().all(|step| state.done.contains(step));
    let what = match outcome {
        _ if state.restarting.is_some() => format!("{outcome:?}, and a restart was requested"),
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
    let mut reached = state.done.clone();
    loop {
        let steps = definition.workflow().steps.iter();
        let open = steps.filter(|step| !reached.contains(&step.id) && !state.failed.contains(&step.id));
        let more: Vec<_> = open.filter(|step| step.needs.iter().all(|need| reached.contains(need))).collect();
        if more.is_empty() {
            return reached.difference(&state.done).cloned().collect();
        }
        reached.extend(more.into_iter().map(|step| step.id.clone()));
    }
}

fn targets<'a>(definition: &Definition, gates: impl IntoIterator<Item = &'a StepId>) -> BTreeSet<StepId> {
    gates.into_iter().filter_map(|gate| definition.step(gate).loop_back_to.clone()).collect()
}

/// Returns these steps and all steps that depend on them, directly or through others.
fn downstream(definition: &Definition, roots: BTreeSet<StepId>) -> BTreeSet<StepId> {
    let mut reached = roots;
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
