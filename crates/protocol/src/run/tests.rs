//! Tests of the run state machine, with the protocol `steps`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use fastrand::Rng;

use super::*;
use crate::machine::{TypedMachine, json};
use crate::protocol_trait::{Outcome, Protocol as _, RunLocation};
use crate::steps::{Definition, OnFailure, State, StepSpec, Steps, StoredDefinition, Verdict, Workflow};
use crate::{AttemptId, AttemptNo, RunId, StepId, Timestamp, Turn};

fn step(id: &str) -> StepId {
    StepId::new(id).unwrap()
}

fn definition(steps: &[(&str, &[&str])]) -> Definition {
    Definition::from(stored(steps, &[], OnFailure::Stop))
}

/// Makes a stored definition: steps with their needs, and gates with their `loop_back_to`.
fn stored(steps: &[(&str, &[&str])], gates: &[(&str, &str)], on_failure: OnFailure) -> StoredDefinition {
    let steps = steps.iter().map(|(id, needs)| {
        let target = gates.iter().find(|(gate, _)| gate == id).map(|(_, target)| step(target));
        StepSpec {
            needs: needs.iter().map(|need| step(need)).collect(),
            loop_back_to: target,
            ..StepSpec::new(step(id), "agent", "prompt.md")
        }
    });
    StoredDefinition {
        workflow: Workflow {
            name: "test".to_owned(),
            description: String::new(),
            metadata: Default::default(),
            steps: steps.collect(),
        },
        source: String::new(),
        prompts: BTreeMap::new(),
        max_attempts: NonZeroU32::new(2).unwrap(),
        max_iterations: NonZeroU32::new(3).unwrap(),
        on_failure,
        gate_state_file: None,
        report_schema: None,
        memory: Default::default(),
    }
}

/// A run with its slots.
struct Fixture {
    run: Run,
    slots: usize,
}

impl Fixture {
    fn open(steps: &[(&str, &[&str])], slots: usize) -> Self {
        Self::of(definition(steps), slots)
    }

    fn of(definition: Definition, slots: usize) -> Self {
        let location = RunLocation::new(RunId::new("test").unwrap(), "/repo".to_owned());
        let document = Steps::open_document(&definition, &location, Timestamp::from_micros(0));
        let mut run = Run::empty(Box::new(TypedMachine::<Steps>::new(definition, document)));
        open(&mut run);
        let mut fixture = Self { run, slots };
        fixture.start_queued();
        fixture
    }

    fn start_queued(&mut self) -> Decision {
        start_queued(&mut self.run, self.slots)
    }

    fn absorb(&mut self, fact: Fact) -> Absorbed {
        let absorbed = absorb(&mut self.run, fact);
        self.start_and_proceed();
        absorbed
    }

    /// Starts queued steps and makes deferred transitions, until nothing changes.
    fn start_and_proceed(&mut self) {
        self.start_queued();
        while make_deferred_transition(&mut self.run).is_some() {
            self.start_queued();
        }
    }

    fn request(&mut self, request: Request) -> Result<Decision, Refusal> {
        let decision = consider(&mut self.run, &request);
        self.start_and_proceed();
        decision
    }

    fn gate_failed(&mut self, attempt: &str) -> Absorbed {
        self.ended(attempt, Ending::Reported(json(&Verdict::GateFailed)))
    }

    fn state(&self) -> &State {
        &TypedMachine::<Steps>::of(&*self.run.machine).unwrap().state
    }

    fn loop_backs(&self) -> Vec<(&str, u32)> {
        self.state().loop_backs.iter().map(|(step, count)| (step.as_str(), *count)).collect()
    }

    fn ended(&mut self, attempt: &str, ending: Ending) -> Absorbed {
        self.absorb(Fact::Ended { attempt: parse(attempt), ending })
    }

    fn done(&mut self, attempt: &str) -> Absorbed {
        self.ended(attempt, Ending::Reported(json(&Verdict::Done)))
    }

    fn live(&self) -> Vec<String> {
        self.run.live_attempts().map(|(attempt, _)| attempt.to_string()).collect()
    }
}

fn parse(attempt: &str) -> AttemptId {
    attempt.parse().unwrap()
}

#[test]
fn a_step_starts_when_all_its_needs_are_done() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])], 8);
    assert_eq!(fixture.live(), ["a#1.1"]);
    fixture.done("a#1.1");
    assert_eq!(fixture.live(), ["b#1.1", "c#1.1"]);
    fixture.done("c#1.1");
    assert_eq!(fixture.live(), ["b#1.1"]);
    fixture.done("b#1.1");
    fixture.done("d#1.1");
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn slots_limit_live_attempts_and_are_given_in_workflow_order() {
    let mut fixture = Fixture::open(&[("z", &[]), ("y", &[]), ("x", &[])], 2);
    assert_eq!(fixture.live(), ["y#1.1", "z#1.1"]);
    fixture.done("y#1.1");
    assert_eq!(fixture.live(), ["x#1.1", "z#1.1"]);
}

#[test]
fn a_failed_attempt_backs_off_and_is_retried_up_to_the_limit() {
    let mut fixture = Fixture::open(&[("a", &[])], 1);
    fixture.ended("a#1.1", Ending::Failed);
    assert!(fixture.live().is_empty());
    fixture.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    assert_eq!(fixture.live(), ["a#1.2"]);
    fixture.ended("a#1.2", Ending::Failed);
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn an_interrupted_attempt_does_not_count_but_is_not_repeated_for_ever() {
    let mut fixture = Fixture::open(&[("a", &[])], 1);
    for interruption in 1..=MAX_INTERRUPTIONS {
        fixture.ended(&format!("a#1.{interruption}"), Ending::Interrupted);
        assert_eq!(fixture.live(), [format!("a#1.{}", interruption + 1)]);
    }
    assert_eq!(fixture.run.active_turns[&step("a")].failures, 0);
    fixture.ended(&format!("a#1.{}", MAX_INTERRUPTIONS + 1), Ending::Interrupted);
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn the_same_fact_twice_changes_nothing() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &["a"])], 1);
    fixture.done("a#1.1");
    let before = fixture.run.clone();
    assert_eq!(fixture.done("a#1.1"), Absorbed::Ignored(Stale::NoTurn));
    assert_eq!(fixture.run, before);
}

#[test]
fn a_late_report_is_not_applied_to_the_next_attempt() {
    let mut fixture = Fixture::open(&[("a", &[])], 1);
    fixture.ended("a#1.1", Ending::Failed);
    assert_eq!(fixture.done("a#1.1"), Absorbed::Ignored(Stale::AlreadyEnded));
    fixture.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    assert_eq!(fixture.done("a#1.1"), Absorbed::Ignored(Stale::Superseded));
    assert_eq!(fixture.live(), ["a#1.2"]);
}

#[test]
fn a_final_failure_stops_siblings_and_finishes_when_they_have_ended() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &[]), ("c", &[])], 2);
    fixture.ended("a#1.1", Ending::Failed);
    fixture.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    fixture.done("c#1.1");
    assert_eq!(fixture.live(), ["a#1.2", "b#1.1"]);
    let Absorbed::Decided(decision) = fixture.ended("a#1.2", Ending::Failed) else { panic!("stale") };
    assert_eq!(decision.actions, [Action::Stop { attempt: parse("b#1.1") }]);
    assert_eq!(fixture.run.status, RunStatus::Finishing(Outcome::Failed));
    fixture.ended("b#1.1", Ending::Stopped);
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
    assert!(fixture.run.active_turns.is_empty());
}

#[test]
fn a_report_before_the_stop_counts() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &["a"])], 1);
    fixture.request(Request::Stop).unwrap();
    fixture.done("a#1.1");
    assert_eq!(fixture.run.status, RunStatus::Stopped(RunStopCause::Requested));
    assert!(fixture.live().is_empty(), "a stopped run starts nothing");
    fixture.request(Request::Resume).unwrap();
    assert_eq!(fixture.live(), ["b#1.1"]);
}

#[test]
fn a_stopped_run_keeps_its_turns_and_does_not_count_the_attempt() {
    let mut fixture = Fixture::open(&[("a", &[])], 1);
    fixture.ended("a#1.1", Ending::Failed);
    fixture.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    fixture.request(Request::Interrupt).unwrap();
    assert_eq!(fixture.run.status, RunStatus::Stopping(RunStopCause::EngineInterrupted));
    // An agent may exit with an error when it is stopped, which is not a failure.
    fixture.ended("a#1.2", Ending::Failed);
    assert_eq!(fixture.run.status, RunStatus::Stopped(RunStopCause::EngineInterrupted));
    fixture.request(Request::Resume).unwrap();
    assert_eq!(fixture.live(), ["a#1.3"]);
    let active = &fixture.run.active_turns[&step("a")];
    assert_eq!((active.turn, active.attempt_no, active.failures), (Turn(1), AttemptNo(3), 1));
}

#[test]
fn a_paused_run_lets_attempts_continue_and_starts_nothing() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &["a"])], 1);
    fixture.request(Request::Pause).unwrap();
    fixture.done("a#1.1");
    assert!(fixture.live().is_empty());
    fixture.request(Request::Resume).unwrap();
    assert_eq!(fixture.live(), ["b#1.1"]);
}

#[test]
fn requests_to_a_finished_run_are_refused_with_the_reason() {
    let mut fixture = Fixture::open(&[("a", &[])], 1);
    fixture.done("a#1.1");
    for request in [Request::Pause, Request::Resume, Request::Stop, Request::Interrupt] {
        assert_eq!(fixture.request(request), Err(Refusal::Succeeded));
    }
}

const REVIEWED: &[(&str, &[&str])] = &[
    ("plan", &[]),
    ("code", &["plan"]),
    ("docs", &["code"]),
    ("review", &["code"]),
    ("ship", &["review", "docs"]),
];

#[test]
fn a_failed_gate_resets_its_target_and_everything_downstream() {
    let mut fixture = Fixture::of(stored(REVIEWED, &[("review", "code")], OnFailure::Stop).into(), 8);
    fixture.done("plan#1.1");
    fixture.done("code#1.1");
    fixture.done("docs#1.1");
    fixture.gate_failed("review#1.1");
    assert_eq!(fixture.live(), ["code#2.1"]);
    assert_eq!(fixture.loop_backs(), [("code", 1), ("docs", 1), ("review", 1), ("ship", 1)]);
    fixture.done("code#2.1");
    fixture.done("docs#2.1");
    fixture.done("review#2.1");
    assert_eq!(fixture.live(), ["ship#1.1"]);
    fixture.done("ship#1.1");
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn a_loop_back_waits_for_live_attempts_downstream_of_the_target() {
    let mut fixture = Fixture::of(stored(REVIEWED, &[("review", "code")], OnFailure::Stop).into(), 8);
    fixture.done("plan#1.1");
    fixture.done("code#1.1");
    fixture.gate_failed("review#1.1");
    assert_eq!(fixture.live(), ["docs#1.1"], "docs is still running");
    fixture.ended("docs#1.1", Ending::Failed);
    assert_eq!(fixture.live(), ["code#2.1"], "docs was backing off and loses its turn");
    assert_eq!(
        fixture.absorb(Fact::BackoffElapsed { attempt: parse("docs#1.1") }),
        Absorbed::Ignored(Stale::NoTurn)
    );
}

#[test]
fn nothing_downstream_of_the_target_starts_while_a_loop_back_is_pending() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["c"]), ("e", &[])];
    let mut fixture = Fixture::of(stored(steps, &[("b", "a")], OnFailure::Stop).into(), 8);
    fixture.done("a#1.1");
    fixture.gate_failed("b#1.1");
    assert_eq!(fixture.live(), ["c#1.1", "e#1.1"]);
    fixture.done("c#1.1");
    assert_eq!(
        fixture.live(),
        ["a#2.1", "e#1.1"],
        "`d` became ready and was held back; `e` is not downstream"
    );
}

#[test]
fn pending_gate_failures_become_one_loop_back_to_the_most_upstream_target() {
    let steps: &[(&str, &[&str])] =
        &[("a", &[]), ("b", &["a"]), ("far", &["b"]), ("near", &["b"]), ("u", &[]), ("v", &["u"])];
    let gates = [("far", "a"), ("near", "b"), ("v", "u")];
    let mut fixture = Fixture::of(stored(steps, &gates, OnFailure::Stop).into(), 8);
    for attempt in ["a#1.1", "b#1.1", "u#1.1"] {
        fixture.done(attempt);
    }
    fixture.gate_failed("far#1.1");
    fixture.gate_failed("v#1.1");
    assert_eq!(fixture.live(), ["near#1.1"], "the unrelated target waits as well: it is one loop-back");
    fixture.gate_failed("near#1.1");
    assert_eq!(fixture.live(), ["a#2.1", "u#2.1"]);
    assert_eq!(fixture.loop_backs(), [("a", 1), ("b", 1), ("far", 1), ("near", 1), ("u", 1), ("v", 1)]);
}

#[test]
fn the_last_gate_failure_allowed_by_the_limit_fails_the_gate_without_retry() {
    let steps: &[(&str, &[&str])] = &[("code", &[]), ("review", &["code"])];
    let mut fixture = Fixture::of(stored(steps, &[("review", "code")], OnFailure::Stop).into(), 8);
    for turn in 1..=2 {
        fixture.done(&format!("code#{turn}.1"));
        fixture.gate_failed(&format!("review#{turn}.1"));
    }
    fixture.done("code#3.1");
    fixture.gate_failed("review#3.1");
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
    assert_eq!(fixture.state().failed, [step("review")].into());
    fixture.request(Request::Retry { step: None }).unwrap();
    assert_eq!(fixture.live(), ["review#4.1"]);
}

#[test]
fn with_on_failure_stop_a_final_failure_wins_over_a_pending_loop_back() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a"])];
    let mut fixture = Fixture::of(stored(steps, &[("b", "a")], OnFailure::Stop).into(), 8);
    fixture.done("a#1.1");
    fixture.ended("c#1.1", Ending::Failed);
    fixture.absorb(Fact::BackoffElapsed { attempt: parse("c#1.1") });
    fixture.gate_failed("b#1.1");
    fixture.ended("c#1.2", Ending::Failed);
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
    fixture.request(Request::Retry { step: Some(step("c")) }).unwrap();
    assert_eq!(fixture.live(), ["a#2.1"], "the loop-back was still pending");
}

#[test]
fn a_paused_run_does_not_start_a_step_whose_back_off_elapsed() {
    let mut fixture = Fixture::open(&[("a", &[])], 1);
    fixture.ended("a#1.1", Ending::Failed);
    fixture.request(Request::Pause).unwrap();
    fixture.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    assert!(fixture.live().is_empty());
    fixture.request(Request::Resume).unwrap();
    assert_eq!(fixture.live(), ["a#1.2"]);
}

/// Lets both attempts of a step fail.
fn exhaust(fixture: &mut Fixture, step: &str) {
    fixture.ended(&format!("{step}#1.1"), Ending::Failed);
    fixture.absorb(Fact::BackoffElapsed { attempt: parse(&format!("{step}#1.1")) });
    fixture.ended(&format!("{step}#1.2"), Ending::Failed);
}

#[test]
fn on_failure_drain_lets_running_steps_finish_and_starts_nothing_more() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["b"])];
    let mut fixture = Fixture::of(stored(steps, &[], OnFailure::Drain).into(), 8);
    exhaust(&mut fixture, "a");
    assert_eq!(
        (fixture.run.status, fixture.live()),
        (RunStatus::Draining(Outcome::Failed), vec!["b#1.1".to_owned()])
    );
    fixture.done("b#1.1");
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
    fixture.request(Request::Retry { step: None }).unwrap();
    assert_eq!(fixture.live(), ["a#2.1", "c#1.1"], "steps that became ready meanwhile are found again");
}

#[test]
fn on_failure_continue_runs_steps_that_do_not_depend_on_the_failed_one() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["b"]), ("d", &["a", "c"])];
    let mut fixture = Fixture::of(stored(steps, &[], OnFailure::Continue).into(), 8);
    exhaust(&mut fixture, "a");
    fixture.done("b#1.1");
    assert_eq!(fixture.live(), ["c#1.1"]);
    fixture.done("c#1.1");
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn a_skipped_step_satisfies_what_needs_it() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &["a"])], 8);
    assert_eq!(fixture.request(Request::Skip { step: step("a") }), Err(Refusal::Running("a".to_owned())));
    exhaust(&mut fixture, "a");
    fixture.request(Request::Skip { step: step("a") }).unwrap();
    assert_eq!(fixture.live(), ["b#1.1"]);
    assert_eq!(
        fixture.request(Request::Skip { step: step("a") }),
        Ok(Decision::nothing()),
        "a second skip changes nothing"
    );
    fixture.done("b#1.1");
    assert_eq!(fixture.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn retry_is_refused_if_nothing_has_failed() {
    let mut fixture = Fixture::open(&[("a", &[]), ("b", &[])], 8);
    assert_eq!(fixture.request(Request::Retry { step: None }), Err(Refusal::NothingFailed));
    fixture.done("a#1.1");
    assert_eq!(
        fixture.request(Request::Retry { step: Some(step("a")) }),
        Err(Refusal::NotFailed("a".to_owned()))
    );
    assert_eq!(fixture.request(Request::Skip { step: step("a") }), Err(Refusal::Done("a".to_owned())));
}

/// Applies random facts and requests. A decision lists exactly the changes it made, the number of live attempts stays within
/// the slots, and every walk ends with a finished run and no live attempt.
#[test]
fn random_walks_keep_the_invariants_of_the_run() {
    let shapes: [&[(&str, &[&str])]; 3] = [
        &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])],
        &[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a"])],
        &[("a", &[]), ("b", &["a"]), ("c", &["b"])],
    ];
    let mut random = Rng::with_seed(7);
    for walk in 0..3000 {
        let mut fixture = Fixture::open(shapes[walk % shapes.len()], 1 + walk % 3);
        let mut requests = 0;
        for step in 0.. {
            assert!(step < 500, "walk {walk} does not end: {:?}", fixture.run);
            if matches!(fixture.run.status, RunStatus::Finished(_)) {
                assert!(fixture.run.active_turns.is_empty(), "a finished run has no active turn");
                break;
            }
            let mut replayed = fixture.run.clone();
            let decision = apply_random_input(&mut fixture, &mut random, &mut requests);
            for change in &decision.changes {
                replayed.apply(change).unwrap();
            }
            assert_eq!(replayed, fixture.run, "a decision lists what it changes");
            assert!(fixture.run.live_attempts().count() <= fixture.slots);
        }
    }
}

fn apply_random_input(fixture: &mut Fixture, random: &mut Rng, requests: &mut u32) -> Decision {
    let backing_off: Vec<_> = fixture
        .run
        .active_turns
        .iter()
        .filter(|(_, active)| active.status == TurnStatus::BackingOff)
        .collect();
    let backing_off = backing_off.first().map(|(step, active)| active.attempt_id(step));
    let live: Vec<_> = fixture.run.live_attempts().map(|(attempt, _)| attempt).collect();
    let inactive = matches!(fixture.run.status, RunStatus::Stopped(_) | RunStatus::Paused);
    if (live.is_empty() && backing_off.is_none()) || inactive || (*requests < 4 && random.usize(..8) == 0) {
        *requests += 1;
        let all = [Request::Pause, Request::Stop, Request::Interrupt, Request::Resume];
        let request =
            if *requests > 4 || inactive { Request::Resume } else { all[random.usize(..4)].clone() };
        let decided = consider(&mut fixture.run, &request);
        let mut decision = decided.unwrap_or(Decision::nothing());
        decision.append(fixture.start_queued());
        return decision;
    }
    let fact = match backing_off {
        Some(attempt) if live.is_empty() || random.usize(..3) == 0 => Fact::BackoffElapsed { attempt },
        Some(_) | None => {
            let attempt = live[random.usize(..live.len())].clone();
            let ending = match random.usize(..8) {
                0 | 1 => Ending::Failed,
                2 => Ending::Interrupted,
                3 => Ending::Stopped,
                _ => Ending::Reported(json(&Verdict::Done)),
            };
            Fact::Ended { attempt, ending }
        }
    };
    match absorb(&mut fixture.run, fact) {
        Absorbed::Decided(mut decision) => {
            decision.append(fixture.start_queued());
            decision
        }
        Absorbed::Ignored(stale) => panic!("{stale}"),
    }
}
