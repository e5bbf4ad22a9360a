//! What must hold in every protocol: over each transition, and in each state.

use std::collections::BTreeMap;

use protocol::entry::RunState;
use protocol::rules::StepStatus;
use protocol::run::{
    Absorbed, Attempt, Change, Ending, Exit, Fact, MAX_INTERRUPTIONS, Refusal, Request, Run, RunStatus,
    TurnStatus, absorb, consider, start_queued,
};
use protocol::{AttemptNo, Turn};

use super::input::{Interruptions, goes_by_itself, without_requests};
use super::scene::Scheduling;
use super::transition::{RunAt, Transition};
use super::{Broken, Explored, Input, Scene};

/// What one input did.
pub(super) fn transition<P: Explored>(
    scene: &Scene<P>,
    before: &RunAt<P>,
    transition: &Transition<'_, P>,
) -> Vec<Broken> {
    let mut broken = Vec::new();
    live_attempts(scene, before, transition, &mut broken);
    starts(scene, transition, &mut broken);
    finishes(transition, &mut broken);
    tries(scene, transition, &mut broken);
    match transition.input {
        Some(Input::Fact(fact)) => twice_is_nothing(scene, transition.after, fact, &mut broken),
        Some(Input::Ask(Request::Retry { step })) => {
            retries(scene, transition, step.as_ref(), &mut broken);
        }
        Some(Input::Ask(request)) => granted_twice(scene, transition.after, request, &mut broken),
        Some(Input::Write(_)) => writes(transition, &mut broken),
        Some(Input::Deferred | Input::Slots) | None => {}
    }
    if let Some(Input::Ask(Request::Stop)) = transition.input {
        stops(scene, transition, &mut broken);
    }
    broken
}

/// Keeps the books as the outside world would: who was started, who ended. They must agree with the run's.
fn live_attempts<P: Explored>(
    scene: &Scene<P>,
    before: &RunAt<P>,
    transition: &Transition<'_, P>,
    broken: &mut Vec<Broken>,
) {
    const TWICE: &str = "nobody is live_attempts twice";
    let mut alive: BTreeMap<P::Step, (Turn, AttemptNo)> = BTreeMap::new();
    alive.extend(
        transition
            .before
            .live_attempts()
            .map(|(attempt, _)| (attempt.step, (attempt.turn, attempt.attempt_no))),
    );
    if let Some(Input::Fact(Fact::Ended { attempt, .. })) = transition.input {
        alive.remove(&attempt.step);
    }
    for attempt in transition.started() {
        let number = (attempt.turn, attempt.attempt_no);
        if alive.insert(attempt.step.clone(), number).is_some() {
            broken
                .push(Broken::new(TWICE, format!("`{attempt}` starts while another attempt of it is alive")));
        }
        if before.started.get(&attempt.step).is_some_and(|newest| *newest >= number) {
            broken.push(Broken::new(TWICE, format!("`{attempt}` is not a new name")));
        }
    }
    let after: BTreeMap<_, _> = transition
        .after
        .live_attempts()
        .map(|(attempt, _)| (attempt.step, (attempt.turn, attempt.attempt_no)))
        .collect();
    if after != alive {
        broken.push(Broken::new(TWICE, format!("the run steps {after:?}, but {alive:?} are alive")));
    }
    if after.len() > scene.slots.count() {
        broken.push(Broken::new(
            "no more live_attempts than places",
            format!("{} are live_attempts", after.len()),
        ));
    }
}

/// Who may be started, and when.
fn starts<P: Explored>(scene: &Scene<P>, transition: &Transition<'_, P>, broken: &mut Vec<Broken>) {
    let Transition { before, after, input, .. } = transition;
    let held =
        P::deferred(&scene.definition, &after.state).map(|deferred| deferred.quiet).unwrap_or_default();
    for attempt in transition.started() {
        if after.status != RunStatus::Running {
            let what = format!("`{attempt}` starts in a run that is {:?}", after.status);
            broken.push(Broken::new("only an open run starts anything", what));
        }
        if held.contains(&attempt.step) {
            let what = format!("`{attempt}` starts, though something is due as soon as it is quiet");
            broken.push(Broken::new("what is due is waited for", what));
        }
    }
    let is_asked = matches!(input, Some(Input::Ask(_)) | None);
    if !is_asked && before.status != RunStatus::Running && after.status == RunStatus::Running {
        let what = format!("it was {:?}, and opens without being asked", before.status);
        broken.push(Broken::new("only people open a run again", what));
    }
    // Where a stop ends the run, whoever was at work has failed by it, and is still to end.
    let stops_end = P::on_stop(&scene.definition, &after.state).is_some();
    for (step, active) in &after.active_turns {
        let standing = P::step_status(&scene.definition, &after.state, step);
        let is_ending =
            matches!(after.status, RunStatus::Finishing(_)) && active.status == TurnStatus::Stopping;
        if standing != StepStatus::Unfinished && !(stops_end && is_ending && standing == StepStatus::Failed) {
            let what = format!("`{step}` has a turn, but is {standing:?}");
            broken.push(Broken::new("what is done is not done again", what));
        }
    }
}

fn finishes<P: Explored>(transition: &Transition<'_, P>, broken: &mut Vec<Broken>) {
    const RULE: &str = "finished once, with nobody alive";
    let finished = transition
        .entry
        .changes
        .iter()
        .filter(|change| matches!(change, Change::Status { status: RunStatus::Finished(_) }))
        .count();
    let was_finished = matches!(transition.before.status, RunStatus::Finished(_));
    let is_finished = matches!(transition.after.status, RunStatus::Finished(_));
    if finished > 1 || (was_finished && !matches!(transition.input, Some(Input::Ask(_) | Input::Write(_)))) {
        broken.push(Broken::new(RULE, "it is finished again"));
    }
    if is_finished && !transition.after.active_turns.is_empty() {
        broken
            .push(Broken::new(RULE, format!("these have turns: {:?}", transition.after.active_turns.keys())));
    }
}

/// A turn begins with all its attempts, each failed attempt costs one, and the last of them ends the turn.
fn tries<P: Explored>(scene: &Scene<P>, transition: &Transition<'_, P>, broken: &mut Vec<Broken>) {
    let mut wrong = |what| broken.push(Broken::new("tries are counted", what));
    for change in &transition.entry.changes {
        if let Change::Started { attempt, counted_attempt } = change {
            let tries = P::max_attempts(&scene.definition, &attempt.step).get();
            if *counted_attempt > tries || (attempt.attempt_no == AttemptNo(1) && *counted_attempt != 1) {
                wrong(format!("`{attempt}` counts as attempt {counted_attempt} of {tries}"));
            }
        }
    }
    let Some(Input::Fact(Fact::Ended { attempt, ending })) = transition.input else { return };
    let active = &transition.before.active_turns[&attempt.step];
    let exit = transition.entry.changes.iter().find_map(|change| match change {
        Change::Ended { attempt: over, exit } if over == attempt => Some(*exit),
        _ => None,
    });
    let plays = active.status == TurnStatus::Running;
    let tries = P::max_attempts(&scene.definition, &attempt.step).get();
    let used_up = match ending {
        Ending::Failed => plays && active.failures + 1 >= tries,
        Ending::Interrupted | Ending::Stopped => plays && active.interruptions + 1 > MAX_INTERRUPTIONS,
        Ending::Reported(_) => false,
    };
    if used_up != (exit == Some(Exit::Exhausted)) {
        wrong(format!("after {} failures of {tries} tries, `{attempt}` leaves as {exit:?}", active.failures));
    }
    let over = transition.after.active_turns.get(&attempt.step).filter(|after| after.turn == attempt.turn);
    if let Some(after) = over {
        let costs = u32::from(plays && *ending == Ending::Failed);
        if after.failures != active.failures + costs {
            wrong(format!("`{attempt}` had {} failures and has {}", active.failures, after.failures));
        }
    }
}

fn twice_is_nothing<P: Explored>(
    scene: &Scene<P>,
    after: &Run<P>,
    fact: &Fact<P::Step, P::Verdict>,
    broken: &mut Vec<Broken>,
) {
    let mut again = after.clone();
    match absorb(&scene.definition, &mut again, fact.clone()) {
        Absorbed::Ignored(_) if again == *after => {}
        absorbed => {
            let what = format!("the second time it was {absorbed:?}");
            broken.push(Broken::new("the same fact twice is nothing", what));
        }
    }
}

/// A retry asks again whom it names, or all, and leaves the others failed.
fn retries<P: Explored>(
    scene: &Scene<P>,
    transition: &Transition<'_, P>,
    named: Option<&P::Step>,
    broken: &mut Vec<Broken>,
) {
    let mut left = P::failed_steps(&scene.definition, &transition.before.state);
    left.retain(|step| named.is_some_and(|named| named != step));
    let after = P::failed_steps(&scene.definition, &transition.after.state);
    if after != left {
        broken.push(Broken::new("a retry asks whom it names", format!("{after:?} are left, not {left:?}")));
    }
}

/// A stop ends the runs of a protocol that says how, and halts all others.
fn stops<P: Explored>(scene: &Scene<P>, transition: &Transition<'_, P>, broken: &mut Vec<Broken>) {
    let (before, after) = (&transition.before, transition.after.status);
    let ends = match before.status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => {
            P::on_stop(&scene.definition, &before.state).is_some()
        }
        RunStatus::Draining(_) | RunStatus::Finishing(_) | RunStatus::Finished(_) => true,
    };
    let done = match after {
        RunStatus::Running | RunStatus::Paused | RunStatus::Draining(_) => false,
        RunStatus::Stopping(_) | RunStatus::Stopped(_) => !ends,
        RunStatus::Finishing(_) | RunStatus::Finished(_) => ends,
    };
    if !done {
        let what = format!("it was {:?}, and is {after:?}", before.status);
        broken.push(Broken::new("a stop halts the run or ends it", what));
    }
}

/// What is written into the document is no news to the run.
fn writes<P: Explored>(transition: &Transition<'_, P>, broken: &mut Vec<Broken>) {
    if transition.before != transition.after || !transition.entry.actions.is_empty() {
        broken.push(Broken::new("a writing moves nothing", "the run is another"));
    }
}

fn granted_twice<P: Explored>(
    scene: &Scene<P>,
    after: &Run<P>,
    request: &Request<P::Step>,
    broken: &mut Vec<Broken>,
) {
    let mut again = after.clone();
    let nothing = match consider(&scene.definition, &mut again, request) {
        Ok(mut decision) => {
            if scene.scheduling == Scheduling::Together {
                decision.append(start_queued(&scene.definition, &mut again, scene.slots.count()));
            }
            decision.is_nothing()
        }
        // A stop that has ended the run cannot be granted again: it is over.
        Err(_) => {
            let ended = P::on_stop(&scene.definition, &after.state).is_some()
                && matches!(after.status, RunStatus::Finished(_));
            *request == Request::Stop && ended
        }
    };
    if !nothing || again != *after {
        broken.push(Broken::new("a request granted twice changes nothing", "the second time it does"));
    }
}

/// A refusal says why, and changes nothing.
pub(super) fn refusal<P: Explored>(before: &RunAt<P>, run: &Run<P>, refusal: &Refusal) -> Vec<Broken> {
    let mut broken = Vec::new();
    if *run != before.state.run {
        broken.push(Broken::new("a refused request changes nothing", format!("refused because {refusal}")));
    }
    if refusal.to_string().is_empty() {
        broken.push(Broken::new("a refusal says why", format!("{refusal:?} has no words")));
    }
    broken
}

/// What must hold in a state, however it was reached.
pub(super) fn run_at<P: Explored>(scene: &Scene<P>, run_at: &RunAt<P>) -> Vec<Broken> {
    let mut broken = Vec::new();
    never_stuck(scene, run_at, &mut broken);
    stale_is_nothing(scene, &run_at.state.run, &mut broken);
    for (step, active) in &run_at.state.run.active_turns {
        let id =
            Run::<P>::id(&Attempt { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no });
        if active.status == TurnStatus::BackingOff && !run_at.state.timers.contains_key(&id) {
            broken.push(Broken::new("who rests has a timer", format!("nothing will wake `{id}`")));
        }
    }
    broken
}

/// A run that nobody holds back goes on by itself; one that is held back does so when it is resumed.
fn never_stuck<P: Explored>(scene: &Scene<P>, run_at: &RunAt<P>, broken: &mut Vec<Broken>) {
    let RunState { run, .. } = &run_at.state;
    let stuck = |run: &Run<P>| {
        goes_by_itself(run.status) && without_requests(scene, run, Interruptions::Any).is_empty()
    };
    if stuck(run) {
        broken.push(Broken::new("never stuck", "nothing can happen any more, and the run is not over"));
    }
    if let RunStatus::Paused | RunStatus::Stopped(_) = run.status {
        let mut resumed = run.clone();
        let granted = consider(&scene.definition, &mut resumed, &Request::Resume);
        start_queued(&scene.definition, &mut resumed, scene.slots.count());
        if granted.is_err() || stuck(&resumed) {
            broken.push(Broken::new("never stuck", "resumed, nothing can happen, and the run is not over"));
        }
    }
}

/// News of attempts that are not, or no longer, anybody's current one.
fn stale_is_nothing<P: Explored>(scene: &Scene<P>, run: &Run<P>, broken: &mut Vec<Broken>) {
    let mut after = run.clone();
    for step in P::steps(&scene.definition) {
        let (turn, attempt_no, status) = match run.active_turns.get(&step) {
            Some(active) => (active.turn, active.attempt_no, Some(active.status)),
            None => (run.turns.get(&step).copied().unwrap_or(Turn(1)), AttemptNo(1), None),
        };
        let earlier_attempt = AttemptNo(attempt_no.0.saturating_sub(1));
        let mut stale = vec![(Turn(turn.0.saturating_sub(1)), attempt_no), (turn, attempt_no.next())];
        stale.extend((attempt_no.0 > 0).then_some((turn, earlier_attempt)));
        let is_over = !status.is_some_and(TurnStatus::holds_slot);
        let is_up = status != Some(TurnStatus::BackingOff);
        let attempt = |(turn, attempt_no)| Attempt { step: step.clone(), turn, attempt_no };
        let over = stale.iter().copied().chain(is_over.then_some((turn, attempt_no)));
        let rested = stale.iter().copied().chain(is_up.then_some((turn, attempt_no)));
        let mut facts: Vec<_> =
            rested.map(|number| Fact::BackoffElapsed { attempt: attempt(number) }).collect();
        let verdicts = P::verdicts(&scene.definition, &step);
        for number in over {
            let endings = verdicts.iter().cloned().map(Ending::Reported).chain([Ending::Failed]);
            facts.extend(endings.map(|ending| Fact::Ended { attempt: attempt(number), ending }));
        }
        for fact in facts {
            if let Absorbed::Decided(_) = absorb(&scene.definition, &mut after, fact.clone()) {
                broken.push(Broken::new("stale news is nothing", format!("{fact:?} was taken in")));
                return;
            }
        }
    }
    if after != *run {
        broken.push(Broken::new("stale news is nothing", "it was ignored, and changed the run"));
    }
}
