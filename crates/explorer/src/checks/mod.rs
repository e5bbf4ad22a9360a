//! The rules of every protocol, for each transition and each state.

pub(super) mod document;
pub(super) mod entry;
mod violation;

pub use violation::{CounterExample, Violation};

use std::collections::BTreeMap;

use protocol::protocol_trait::StepStatus;
use protocol::run::{
    Absorbed, AttemptConsequence, Change, Ending, Fact, MAX_INTERRUPTIONS, Refusal, Request, Run, RunStatus,
    TurnStatus, absorb, consider, start_queued,
};
use protocol::{AttemptId, AttemptNo, StepId, StepKind, Turn};
use serde_json::Value;

use super::input::{Interruptions, facts, must_progress, verdicts};
use super::model::Scheduling;
use super::transition::{Node, Transition};
use super::{Explored, Input, Model};

/// Checks one transition.
pub(super) fn check_transition<P: Explored>(
    model: &Model<P>,
    before: &Node,
    transition: &Transition<'_, P>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_live_attempts(model, before, transition, &mut violations);
    check_starts(transition, &mut violations);
    check_retry_reason(transition, &mut violations);
    check_finish(transition, &mut violations);
    check_attempt_counts(transition, &mut violations);
    match transition.input {
        Some(Input::Fact(fact)) => check_repeated_fact(transition.after, fact, &mut violations),
        Some(Input::Request(Request::Retry { step })) => {
            check_retry(transition, step.as_ref(), &mut violations);
        }
        // The protocol decides whether its own requests may be repeated.
        Some(Input::Request(Request::Protocol(_))) => {}
        Some(Input::Request(request)) => {
            check_repeated_request(model, transition.after, request, &mut violations);
        }
        Some(Input::Write(_)) => check_write(transition, &mut violations),
        Some(Input::Deferred | Input::StartQueued) | None => {}
    }
    match transition.input {
        Some(Input::Request(Request::Pause)) => check_pause(transition, &mut violations),
        Some(Input::Request(Request::Stop)) => check_stop(transition, &mut violations),
        _ => {}
    }
    violations
}

/// Compares the live attempts of the run with those that were started and ended, counted independently.
fn check_live_attempts<P: Explored>(
    model: &Model<P>,
    before: &Node,
    transition: &Transition<'_, P>,
    violations: &mut Vec<Violation>,
) {
    const RULE: &str = "no step runs twice at once";
    let mut expected: BTreeMap<StepId, (Turn, AttemptNo)> = BTreeMap::new();
    expected.extend(
        transition
            .before
            .live_attempts()
            .map(|(attempt, _)| (attempt.step, (attempt.turn, attempt.attempt_no))),
    );
    if let Some(Input::Fact(Fact::Ended { attempt, .. })) = transition.input {
        expected.remove(&attempt.step);
    }
    for attempt in transition.started() {
        let number = (attempt.turn, attempt.attempt_no);
        if expected.insert(attempt.step.clone(), number).is_some() {
            violations.push(Violation::new(
                RULE,
                format!("`{attempt}` starts while another attempt of it is alive"),
            ));
        }
        if before.started.get(&attempt.step).is_some_and(|newest| *newest >= number) {
            violations.push(Violation::new(RULE, format!("the id `{attempt}` was used before")));
        }
    }
    let after: BTreeMap<_, _> = transition
        .after
        .live_attempts()
        .map(|(attempt, _)| (attempt.step, (attempt.turn, attempt.attempt_no)))
        .collect();
    if after != expected {
        violations.push(Violation::new(
            RULE,
            format!("the run has {after:?} as live attempts, but {expected:?} were started"),
        ));
    }
    let machine = &transition.after.machine;
    let in_slots = after.keys().filter(|step| machine.step_kind(step) != StepKind::Effect).count();
    if in_slots > model.slots.count() {
        violations.push(Violation::new("no more live attempts than slots", format!("{in_slots} are live")));
    }
}

/// Checks which attempts may start, and when.
fn check_starts<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    let Transition { before, after, input, .. } = transition;
    let must_not_start = after.machine.deferred().map(|deferred| deferred.must_be_idle).unwrap_or_default();
    for attempt in transition.started() {
        if after.status != RunStatus::Running {
            let what = format!("`{attempt}` starts in a run that is {:?}", after.status);
            violations.push(Violation::new("only a running run starts attempts", what));
        }
        if must_not_start.contains(&attempt.step) {
            let what = format!("`{attempt}` starts, though a deferred transition waits for its end");
            violations.push(Violation::new("a deferred transition is waited for", what));
        }
    }
    let is_requested = matches!(input, Some(Input::Request(_)) | None);
    if !is_requested && before.status != RunStatus::Running && after.status == RunStatus::Running {
        let what = format!("it was {:?}, and runs again without a request", before.status);
        violations.push(Violation::new("only a request resumes a run", what));
    }
    // A stop that ends the run fails its running steps at once, while their attempts are still stopping.
    let stop_ends_run = after.machine.on_stop().is_some();
    for (step, active) in &after.active_turns {
        let step_status = after.machine.step_status(step);
        let is_ending =
            matches!(after.status, RunStatus::Finishing(_)) && active.status == TurnStatus::Stopping;
        if step_status != StepStatus::Unfinished
            && !(stop_ends_run && is_ending && step_status == StepStatus::Failed)
        {
            let what = format!("`{step}` has a turn, but is {step_status:?}");
            violations.push(Violation::new("a finished step has no turn", what));
        }
    }
}

/// Checks that the brief of a retried attempt has the error of the attempt before it.
fn check_retry_reason<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    for change in &transition.entry.changes {
        if let Change::Started { attempt, counted_attempt: counted_attempt @ 2.., .. } = change
            && transition.after.machine.step_kind(&attempt.step) == StepKind::Agent
            && transition.after.machine.brief(&attempt.step, *counted_attempt).last_error.is_none()
        {
            let what = format!("`{attempt}` does not know why the attempt before it failed");
            violations.push(Violation::new("a retried agent is told why", what));
        }
    }
}

/// Checks that a run finishes once, with no turn left.
fn check_finish<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    const RULE: &str = "a run finishes once, with no live attempt";
    let finished = transition
        .entry
        .changes
        .iter()
        .filter(|change| matches!(change, Change::Status { status: RunStatus::Finished(_) }))
        .count();
    let was_finished = matches!(transition.before.status, RunStatus::Finished(_));
    let is_finished = matches!(transition.after.status, RunStatus::Finished(_));
    if finished > 1
        || (was_finished && !matches!(transition.input, Some(Input::Request(_) | Input::Write(_))))
    {
        violations.push(Violation::new(RULE, "it is finished again"));
    }
    if is_finished && !transition.after.active_turns.is_empty() {
        violations.push(Violation::new(
            RULE,
            format!("these steps have turns: {:?}", transition.after.active_turns.keys()),
        ));
    }
}

/// A turn begins with no attempt used, each failure uses one, and the last failure ends the turn.
fn check_attempt_counts<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    let mut wrong = |what| violations.push(Violation::new("attempts are counted", what));
    for change in &transition.entry.changes {
        if let Change::Started { attempt, counted_attempt, .. } = change {
            let max_attempts = transition.after.machine.max_attempts(&attempt.step).get();
            if *counted_attempt > max_attempts
                || (attempt.attempt_no == AttemptNo(1) && *counted_attempt != 1)
            {
                wrong(format!("`{attempt}` counts as attempt {counted_attempt} of {max_attempts}"));
            }
        }
    }
    let Some(Input::Fact(Fact::Ended { attempt, ending })) = transition.input else { return };
    let active = &transition.before.active_turns[&attempt.step];
    let consequence = transition.entry.changes.iter().find_map(|change| match change {
        Change::Ended { attempt: ended, consequence, .. } if ended == attempt => Some(*consequence),
        _ => None,
    });
    let is_running = active.status == TurnStatus::Running;
    let max_attempts = transition.before.machine.max_attempts(&attempt.step).get();
    let is_exhausted = match ending {
        Ending::Failed => is_running && active.failures + 1 >= max_attempts,
        Ending::Interrupted | Ending::Stopped => is_running && active.interruptions + 1 > MAX_INTERRUPTIONS,
        Ending::Reported(_) => false,
    };
    if is_exhausted != (consequence == Some(AttemptConsequence::Exhausted)) {
        wrong(format!(
            "after {} failures of {max_attempts} attempts, `{attempt}` ends as {consequence:?}",
            active.failures
        ));
    }
    let same_turn =
        transition.after.active_turns.get(&attempt.step).filter(|after| after.turn == attempt.turn);
    if let Some(after) = same_turn {
        let added_failures = u32::from(is_running && *ending == Ending::Failed);
        if after.failures != active.failures + added_failures {
            wrong(format!("`{attempt}` had {} failures and has {}", active.failures, after.failures));
        }
    }
}

/// A fact that is absorbed a second time is ignored.
fn check_repeated_fact(after: &Run, fact: &Fact, violations: &mut Vec<Violation>) {
    let mut again = after.clone();
    match absorb(&mut again, fact.clone()) {
        Absorbed::Ignored(_) if again == *after => {}
        absorbed => {
            let what = format!("repeated, it was {absorbed:?}");
            violations.push(Violation::new("a repeated fact changes nothing", what));
        }
    }
}

/// A retry reopens the step it names, or all failed steps, and leaves the others failed.
fn check_retry<P: Explored>(
    transition: &Transition<'_, P>,
    named: Option<&StepId>,
    violations: &mut Vec<Violation>,
) {
    let mut expected = transition.before.machine.failed_steps();
    expected.retain(|step| named.is_some_and(|named| named != step));
    let after = transition.after.machine.failed_steps();
    if after != expected {
        violations.push(Violation::new(
            "a retry reopens the steps it names",
            format!("{after:?} are left, not {expected:?}"),
        ));
    }
}

/// A granted pause changes a running run to paused.
fn check_pause<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    let (before, after) = (transition.before.status, transition.after.status);
    if before == RunStatus::Running && after != RunStatus::Paused {
        let what = format!("it was {before:?}, and is {after:?}");
        violations.push(Violation::new("a pause holds a running run", what));
    }
}

/// A stop ends the run if its protocol defines `on_stop`; otherwise the run is stopped and can be resumed.
fn check_stop<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    let (before, after) = (&transition.before, transition.after.status);
    let must_end = match before.status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => {
            before.machine.on_stop().is_some()
        }
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => true,
    };
    let is_done = match after {
        RunStatus::Running | RunStatus::Paused | RunStatus::Draining(_) => false,
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => !must_end,
        RunStatus::Finishing(_) | RunStatus::Finished(_) => must_end,
    };
    if !is_done {
        let what = format!("it was {:?}, and is {after:?}", before.status);
        violations.push(Violation::new("a stop stops the run or ends it", what));
    }
}

/// A write to the document does not affect the run.
fn check_write<P: Explored>(transition: &Transition<'_, P>, violations: &mut Vec<Violation>) {
    if transition.before != transition.after || !transition.entry.actions.is_empty() {
        violations.push(Violation::new("a write does not change the run", "the run has changed"));
    }
}

/// A request that was granted changes nothing the second time.
fn check_repeated_request<P: Explored>(
    model: &Model<P>,
    after: &Run,
    request: &Request,
    violations: &mut Vec<Violation>,
) {
    let mut again = after.clone();
    let changes_nothing = match consider(&mut again, request) {
        Ok(mut decision) => {
            if model.scheduling == Scheduling::Together {
                decision.append(start_queued(&mut again, model.slots.count()));
            }
            decision.is_nothing()
        }
        Err(Refusal::Paused) => {
            *request == Request::Pause
                && after.status == RunStatus::Paused
                && after.machine.kind().info().refuses_noop_requests
        }
        // A stop that has ended the run is refused the second time.
        Err(_) => {
            let ended = after.machine.on_stop().is_some() && matches!(after.status, RunStatus::Finished(_));
            *request == Request::Stop && ended
        }
    };
    if !changes_nothing || again != *after {
        violations.push(Violation::new("a repeated request changes nothing", "repeated, it does"));
    }
}

/// A refusal has a reason and changes nothing.
pub(super) fn check_refusal(before: &Node, run: &Run, refusal: &Refusal) -> Vec<Violation> {
    let mut violations = Vec::new();
    if *run != before.state.run {
        violations
            .push(Violation::new("a refused request changes nothing", format!("refused because {refusal}")));
    }
    if refusal.to_string().is_empty() {
        violations.push(Violation::new("a refusal has a reason", format!("{refusal:?} is empty")));
    }
    violations
}

/// Checks a state, however it was reached.
pub(super) fn check_node<P: Explored>(model: &Model<P>, node: &Node) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_never_stuck(model, node, &mut violations);
    check_stale_facts::<P>(&node.state.run, &mut violations);
    for (step, active) in &node.state.run.active_turns {
        let id = active.attempt_id(step);
        if active.status == TurnStatus::BackingOff && !node.state.timers.contains_key(&id) {
            violations
                .push(Violation::new("every back-off has a timer", format!("nothing will retry `{id}`")));
        }
        let is_for_person = node.state.run.machine.step_kind(step) == StepKind::Person;
        if is_for_person != (active.status == TurnStatus::Waiting) {
            let what = format!("`{step}` is {:?}; a person works on it: {is_for_person}", active.status);
            violations.push(Violation::new("the turn of a person waits, and no other", what));
        }
    }
    violations
}

/// A run makes progress without a request, unless it is paused, stopped or finished. A paused or stopped run does so
/// after it is resumed.
fn check_never_stuck<P: Explored>(model: &Model<P>, node: &Node, violations: &mut Vec<Violation>) {
    let run = &node.state.run;
    let stuck = |run: &Run| {
        // A run that stops or ends does not wait for an answer.
        let is_progress = |input: &Input| !input.is_answer() || run.status == RunStatus::Running;
        must_progress(run.status) && !facts(model, run, Interruptions::Any).iter().any(is_progress)
    };
    if stuck(run) {
        violations.push(Violation::new("never stuck", "no input is possible, and the run has not ended"));
    }
    if let RunStatus::Paused | RunStatus::Stopped(_) = run.status {
        let mut resumed = run.clone();
        let granted = consider(&mut resumed, &Request::Resume);
        start_queued(&mut resumed, model.slots.count());
        if granted.is_err() || stuck(&resumed) {
            violations.push(Violation::new(
                "never stuck",
                "resumed, no input is possible, and the run has not ended",
            ));
        }
    }
}

/// Checks that facts about other attempts and turns than the current ones are ignored.
fn check_stale_facts<P: Explored>(run: &Run, violations: &mut Vec<Violation>) {
    let mut after = run.clone();
    for step in run.machine.steps() {
        let (turn, attempt_no, status) = match run.active_turns.get(&step) {
            Some(active) => (active.turn, active.attempt_no, Some(active.status)),
            None => (run.turns.get(&step).copied().unwrap_or(Turn(1)), AttemptNo(1), None),
        };
        let earlier_attempt = AttemptNo(attempt_no.0.saturating_sub(1));
        let mut stale = vec![(Turn(turn.0.saturating_sub(1)), attempt_no), (turn, attempt_no.next())];
        stale.extend((attempt_no.0 > 0).then_some((turn, earlier_attempt)));
        let has_ended = !status.is_some_and(TurnStatus::has_live_attempt);
        let is_not_backing_off = status != Some(TurnStatus::BackingOff);
        let attempt = |(turn, attempt_no)| AttemptId { step: step.clone(), turn, attempt_no };
        let ended = stale.iter().copied().chain(has_ended.then_some((turn, attempt_no)));
        let not_backing_off = stale.iter().copied().chain(is_not_backing_off.then_some((turn, attempt_no)));
        let mut facts: Vec<_> =
            not_backing_off.map(|number| Fact::BackoffElapsed { attempt: attempt(number) }).collect();
        let verdicts: Vec<_> = verdicts::<P>(run, &step).collect();
        for number in ended {
            let endings = verdicts.iter().cloned().map(Ending::Reported).chain([Ending::Failed]);
            facts.extend(endings.map(|ending| Fact::Ended { attempt: attempt(number), ending }));
        }
        let earlier_turn = Turn(turn.0.saturating_sub(1));
        let is_not_waiting = status != Some(TurnStatus::Waiting);
        for turn in [earlier_turn, turn.next()].into_iter().chain(is_not_waiting.then_some(turn)) {
            let answer =
                |verdict: &Value| Fact::Answered { step: step.clone(), turn, verdict: verdict.clone() };
            facts.extend(verdicts.iter().map(answer));
        }
        for fact in facts {
            if let Absorbed::Decided(_) = absorb(&mut after, fact.clone()) {
                violations
                    .push(Violation::new("a stale fact changes nothing", format!("{fact:?} was absorbed")));
                return;
            }
        }
    }
    if after != *run {
        violations
            .push(Violation::new("a stale fact changes nothing", "it was ignored, and changed the run"));
    }
}
