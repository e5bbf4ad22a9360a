//! The run layer, shown on `steps`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::*;
use crate::rules::Outcome;
use crate::steps::{Definition, DefinitionSource, OnFailure, StepSpec, Steps, Verdict, Workflow};
use crate::{AttemptNo, StepId, Turn};

type Step = StepId;

fn step(id: &str) -> Step {
    StepId::new(id).unwrap()
}

fn workflow(steps: &[(&str, &[&str])]) -> Definition {
    Definition::from(source(steps, &[], OnFailure::Stop))
}

/// Steps with what they need; gates with where they go back to.
fn source(steps: &[(&str, &[&str])], gates: &[(&str, &str)], on_failure: OnFailure) -> DefinitionSource {
    let steps = steps.iter().map(|(id, needs)| {
        let way_back = gates.iter().find(|(gate, _)| gate == id).map(|(_, target)| step(target));
        StepSpec {
            needs: needs.iter().map(|need| step(need)).collect(),
            loop_back_to: way_back,
            ..StepSpec::new(step(id), "agent", "prompt.md")
        }
    });
    DefinitionSource {
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
    }
}

/// A run with everything that goes along with it, for tests.
struct Scene {
    definition: Definition,
    run: Run<Steps>,
    slots: usize,
}

impl Scene {
    fn open(steps: &[(&str, &[&str])], slots: usize) -> Self {
        Self::of(workflow(steps), slots)
    }

    fn of(definition: Definition, slots: usize) -> Self {
        let mut run = Run::blank(&definition);
        open(&definition, &mut run);
        let mut scene = Self { definition, run, slots };
        scene.fill();
        scene
    }

    fn fill(&mut self) -> Decision<Steps> {
        start_queued(&self.definition, &mut self.run, self.slots)
    }

    fn absorb(&mut self, fact: Fact<Step, Verdict>) -> Absorbed<Steps> {
        let absorbed = absorb(&self.definition, &mut self.run, fact);
        self.go_on();
        absorbed
    }

    fn go_on(&mut self) {
        self.fill();
        while proceed(&self.definition, &mut self.run).is_some() {
            self.fill();
        }
    }

    fn ask(&mut self, request: Request<Step>) -> Result<Decision<Steps>, Refusal> {
        let decision = consider(&self.definition, &mut self.run, &request);
        self.go_on();
        decision
    }

    fn gate_fails(&mut self, attempt: &str) -> Absorbed<Steps> {
        self.over(attempt, Ending::Reported(Verdict::GateFailed))
    }

    fn iterations(&self) -> Vec<(&str, u32)> {
        self.run.state.iterations.iter().map(|(step, count)| (step.as_str(), *count)).collect()
    }

    fn over(&mut self, attempt: &str, ending: Ending<Verdict>) -> Absorbed<Steps> {
        self.absorb(Fact::Ended { attempt: parse(attempt), ending })
    }

    fn done(&mut self, attempt: &str) -> Absorbed<Steps> {
        self.over(attempt, Ending::Reported(Verdict::Done))
    }

    fn playing(&self) -> Vec<String> {
        self.run.live_attempts().map(|(attempt, _)| attempt.to_string()).collect()
    }
}

fn parse(attempt: &str) -> Attempt<Step> {
    let id: crate::AttemptId = attempt.parse().unwrap();
    Attempt { step: id.step, turn: id.turn, attempt_no: id.attempt_no }
}

#[test]
fn a_step_begins_when_all_it_needs_is_done() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])], 8);
    assert_eq!(scene.playing(), ["a#1.1"]);
    scene.done("a#1.1");
    assert_eq!(scene.playing(), ["b#1.1", "c#1.1"]);
    scene.done("c#1.1");
    assert_eq!(scene.playing(), ["b#1.1"]);
    scene.done("b#1.1");
    scene.done("d#1.1");
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn places_are_a_cap_and_go_by_workflow_order() {
    let mut scene = Scene::open(&[("z", &[]), ("y", &[]), ("x", &[])], 2);
    assert_eq!(scene.playing(), ["y#1.1", "z#1.1"]);
    scene.done("y#1.1");
    assert_eq!(scene.playing(), ["x#1.1", "z#1.1"]);
}

#[test]
fn a_failed_attempt_rests_and_is_repeated_until_the_tries_are_used_up() {
    let mut scene = Scene::open(&[("a", &[])], 1);
    scene.over("a#1.1", Ending::Failed);
    assert!(scene.playing().is_empty());
    scene.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    assert_eq!(scene.playing(), ["a#1.2"]);
    scene.over("a#1.2", Ending::Failed);
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn an_interrupted_try_does_not_use_up_the_tries_but_is_not_repeated_for_ever() {
    let mut scene = Scene::open(&[("a", &[])], 1);
    for interruption in 1..=MAX_INTERRUPTIONS {
        scene.over(&format!("a#1.{interruption}"), Ending::Interrupted);
        assert_eq!(scene.playing(), [format!("a#1.{}", interruption + 1)]);
    }
    assert_eq!(scene.run.active_turns[&step("a")].failures, 0);
    scene.over(&format!("a#1.{}", MAX_INTERRUPTIONS + 1), Ending::Interrupted);
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn the_same_fact_twice_is_nothing() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &["a"])], 1);
    scene.done("a#1.1");
    let before = scene.run.clone();
    assert_eq!(scene.done("a#1.1"), Absorbed::Ignored(Stale::NoTurn));
    assert_eq!(scene.run, before);
}

#[test]
fn a_stragglers_report_is_not_applied_to_the_try_after_it() {
    let mut scene = Scene::open(&[("a", &[])], 1);
    scene.over("a#1.1", Ending::Failed);
    assert_eq!(scene.done("a#1.1"), Absorbed::Ignored(Stale::AlreadyEnded));
    scene.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    assert_eq!(scene.done("a#1.1"), Absorbed::Ignored(Stale::Superseded));
    assert_eq!(scene.playing(), ["a#1.2"]);
}

#[test]
fn a_final_failure_stops_siblings_and_finishes_when_they_are_gone() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &[]), ("c", &[])], 2);
    scene.over("a#1.1", Ending::Failed);
    scene.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    scene.done("c#1.1");
    assert_eq!(scene.playing(), ["a#1.2", "b#1.1"]);
    let Absorbed::Decided(decision) = scene.over("a#1.2", Ending::Failed) else { panic!("stale") };
    assert_eq!(decision.actions, [Action::End { attempt: parse("b#1.1") }]);
    assert_eq!(scene.run.status, RunStatus::Finishing(Outcome::Failed));
    scene.over("b#1.1", Ending::Stopped);
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
    assert!(scene.run.active_turns.is_empty());
}

#[test]
fn a_report_that_made_it_before_the_stop_counts() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &["a"])], 1);
    scene.ask(Request::Stop).unwrap();
    scene.done("a#1.1");
    assert_eq!(scene.run.status, RunStatus::Stopped(StopCause::Requested));
    assert!(scene.playing().is_empty(), "a halted run starts nothing");
    scene.ask(Request::Resume).unwrap();
    assert_eq!(scene.playing(), ["b#1.1"]);
}

#[test]
fn a_halted_run_keeps_its_turns_and_does_not_count_the_try() {
    let mut scene = Scene::open(&[("a", &[])], 1);
    scene.over("a#1.1", Ending::Failed);
    scene.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    scene.ask(Request::Interrupt).unwrap();
    assert_eq!(scene.run.status, RunStatus::Stopping(StopCause::Interrupted));
    // The agent may well exit with an error when it is told to end: that is not its failure.
    scene.over("a#1.2", Ending::Failed);
    assert_eq!(scene.run.status, RunStatus::Stopped(StopCause::Interrupted));
    scene.ask(Request::Resume).unwrap();
    assert_eq!(scene.playing(), ["a#1.3"]);
    let active = &scene.run.active_turns[&step("a")];
    assert_eq!((active.turn, active.attempt_no, active.failures), (Turn(1), AttemptNo(3), 1));
}

#[test]
fn a_paused_run_plays_on_but_starts_nothing() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &["a"])], 1);
    scene.ask(Request::Pause).unwrap();
    scene.done("a#1.1");
    assert!(scene.playing().is_empty());
    scene.ask(Request::Resume).unwrap();
    assert_eq!(scene.playing(), ["b#1.1"]);
}

#[test]
fn requests_to_a_finished_run_are_refused_with_the_reason() {
    let mut scene = Scene::open(&[("a", &[])], 1);
    scene.done("a#1.1");
    for request in [Request::Pause, Request::Resume, Request::Stop, Request::Interrupt] {
        assert_eq!(scene.ask(request), Err(Refusal::Succeeded));
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
fn a_failed_gate_sends_its_target_and_everything_downstream_back() {
    let mut scene = Scene::of(source(REVIEWED, &[("review", "code")], OnFailure::Stop).into(), 8);
    scene.done("plan#1.1");
    scene.done("code#1.1");
    scene.done("docs#1.1");
    scene.gate_fails("review#1.1");
    assert_eq!(scene.playing(), ["code#2.1"]);
    assert_eq!(scene.iterations(), [("code", 1), ("docs", 1), ("review", 1), ("ship", 1)]);
    scene.done("code#2.1");
    scene.done("docs#2.1");
    scene.done("review#2.1");
    assert_eq!(scene.playing(), ["ship#1.1"]);
    scene.done("ship#1.1");
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn the_way_back_waits_until_nothing_downstream_of_the_target_is_at_work() {
    let mut scene = Scene::of(source(REVIEWED, &[("review", "code")], OnFailure::Stop).into(), 8);
    scene.done("plan#1.1");
    scene.done("code#1.1");
    scene.gate_fails("review#1.1");
    assert_eq!(scene.playing(), ["docs#1.1"], "docs is still at work");
    scene.over("docs#1.1", Ending::Failed);
    assert_eq!(scene.playing(), ["code#2.1"], "docs rests and loses its turn");
    assert_eq!(
        scene.absorb(Fact::BackoffElapsed { attempt: parse("docs#1.1") }),
        Absorbed::Ignored(Stale::NoTurn)
    );
}

#[test]
fn nothing_downstream_of_the_target_starts_while_a_way_back_is_pending() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["c"]), ("e", &[])];
    let mut scene = Scene::of(source(steps, &[("b", "a")], OnFailure::Stop).into(), 8);
    scene.done("a#1.1");
    scene.gate_fails("b#1.1");
    assert_eq!(scene.playing(), ["c#1.1", "e#1.1"]);
    scene.done("c#1.1");
    assert_eq!(
        scene.playing(),
        ["a#2.1", "e#1.1"],
        "`d` became ready and was held; `e` has nothing to do with it"
    );
}

#[test]
fn gate_failures_gathered_meanwhile_make_one_way_back_to_the_most_upstream_target() {
    let steps: &[(&str, &[&str])] =
        &[("a", &[]), ("b", &["a"]), ("far", &["b"]), ("near", &["b"]), ("u", &[]), ("v", &["u"])];
    let gates = [("far", "a"), ("near", "b"), ("v", "u")];
    let mut scene = Scene::of(source(steps, &gates, OnFailure::Stop).into(), 8);
    for attempt in ["a#1.1", "b#1.1", "u#1.1"] {
        scene.done(attempt);
    }
    scene.gate_fails("far#1.1");
    scene.gate_fails("v#1.1");
    assert_eq!(scene.playing(), ["near#1.1"], "the unrelated target waits as well: they are one way back");
    scene.gate_fails("near#1.1");
    assert_eq!(scene.playing(), ["a#2.1", "u#2.1"]);
    assert_eq!(scene.iterations(), [("a", 1), ("b", 1), ("far", 1), ("near", 1), ("u", 1), ("v", 1)]);
}

#[test]
fn the_last_gate_failure_allowed_by_the_limit_fails_the_gate_without_retry() {
    let steps: &[(&str, &[&str])] = &[("code", &[]), ("review", &["code"])];
    let mut scene = Scene::of(source(steps, &[("review", "code")], OnFailure::Stop).into(), 8);
    for execution in 1..=2 {
        scene.done(&format!("code#{execution}.1"));
        scene.gate_fails(&format!("review#{execution}.1"));
    }
    scene.done("code#3.1");
    scene.gate_fails("review#3.1");
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
    assert_eq!(scene.run.state.failed, [step("review")].into());
    scene.ask(Request::Retry { step: None }).unwrap();
    assert_eq!(scene.playing(), ["review#4.1"]);
}

#[test]
fn a_final_failure_under_stop_wins_over_a_pending_way_back() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["a"])];
    let mut scene = Scene::of(source(steps, &[("b", "a")], OnFailure::Stop).into(), 8);
    scene.done("a#1.1");
    scene.over("c#1.1", Ending::Failed);
    scene.absorb(Fact::BackoffElapsed { attempt: parse("c#1.1") });
    scene.gate_fails("b#1.1");
    scene.over("c#1.2", Ending::Failed);
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
    scene.ask(Request::Retry { step: Some(step("c")) }).unwrap();
    assert_eq!(scene.playing(), ["a#2.1"], "the way back was still to be taken");
}

#[test]
fn a_pause_holds_the_start_of_an_elapsed_back_off() {
    let mut scene = Scene::open(&[("a", &[])], 1);
    scene.over("a#1.1", Ending::Failed);
    scene.ask(Request::Pause).unwrap();
    scene.absorb(Fact::BackoffElapsed { attempt: parse("a#1.1") });
    assert!(scene.playing().is_empty());
    scene.ask(Request::Resume).unwrap();
    assert_eq!(scene.playing(), ["a#1.2"]);
}

fn fail_for_good(scene: &mut Scene, step: &str) {
    scene.over(&format!("{step}#1.1"), Ending::Failed);
    scene.absorb(Fact::BackoffElapsed { attempt: parse(&format!("{step}#1.1")) });
    scene.over(&format!("{step}#1.2"), Ending::Failed);
}

#[test]
fn drain_lets_running_steps_finish_and_starts_nothing_more() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["b"])];
    let mut scene = Scene::of(source(steps, &[], OnFailure::Drain).into(), 8);
    fail_for_good(&mut scene, "a");
    assert_eq!(
        (scene.run.status, scene.playing()),
        (RunStatus::Draining(Outcome::Failed), vec!["b#1.1".to_owned()])
    );
    scene.done("b#1.1");
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
    scene.ask(Request::Retry { step: None }).unwrap();
    assert_eq!(scene.playing(), ["a#2.1", "c#1.1"], "what became ready meanwhile is found again");
}

#[test]
fn continue_goes_on_with_what_does_not_depend_on_the_failed_step() {
    let steps: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["b"]), ("d", &["a", "c"])];
    let mut scene = Scene::of(source(steps, &[], OnFailure::Continue).into(), 8);
    fail_for_good(&mut scene, "a");
    scene.done("b#1.1");
    assert_eq!(scene.playing(), ["c#1.1"]);
    scene.done("c#1.1");
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Failed));
}

#[test]
fn a_skipped_step_satisfies_what_needs_it() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &["a"])], 8);
    assert_eq!(scene.ask(Request::Skip { step: step("a") }), Err(Refusal::Running("a".to_owned())));
    fail_for_good(&mut scene, "a");
    scene.ask(Request::Skip { step: step("a") }).unwrap();
    assert_eq!(scene.playing(), ["b#1.1"]);
    assert_eq!(
        scene.ask(Request::Skip { step: step("a") }),
        Ok(Decision::nothing()),
        "a second time is nothing"
    );
    scene.done("b#1.1");
    assert_eq!(scene.run.status, RunStatus::Finished(Outcome::Succeeded));
}

#[test]
fn retry_is_refused_where_nothing_has_failed() {
    let mut scene = Scene::open(&[("a", &[]), ("b", &[])], 8);
    assert_eq!(scene.ask(Request::Retry { step: None }), Err(Refusal::NothingFailed));
    scene.done("a#1.1");
    assert_eq!(scene.ask(Request::Retry { step: Some(step("a")) }), Err(Refusal::NotFailed("a".to_owned())));
    assert_eq!(scene.ask(Request::Skip { step: step("a") }), Err(Refusal::Done("a".to_owned())));
}

/// Facts and requests at random: what a decision says is exactly what it did, no step runs twice at once, the cap holds,
/// and left alone the run ends with nobody alive.
#[test]
fn random_walks_keep_the_promises_of_the_run() {
    let shapes: [&[(&str, &[&str])]; 3] = [
        &[("a", &[]), ("b", &["a"]), ("c", &["a"]), ("d", &["b", "c"])],
        &[("a", &[]), ("b", &[]), ("c", &[]), ("d", &["a"])],
        &[("a", &[]), ("b", &["a"]), ("c", &["b"])],
    ];
    let mut random = Lcg(7);
    for walk in 0..3000 {
        let mut scene = Scene::open(shapes[walk % shapes.len()], 1 + walk % 3);
        let mut requests = 0;
        for step in 0.. {
            assert!(step < 500, "walk {walk} does not end: {:?}", scene.run);
            if matches!(scene.run.status, RunStatus::Finished(_)) {
                assert!(scene.run.active_turns.is_empty(), "finished with somebody in a active");
                break;
            }
            let mut replayed = scene.run.clone();
            let decision = random_move(&mut scene, &mut random, &mut requests);
            for change in &decision.changes {
                replayed.apply(change);
            }
            assert_eq!(replayed, scene.run, "a decision says what it does");
            assert!(scene.run.live_attempts().count() <= scene.slots);
        }
    }
}

fn random_move(scene: &mut Scene, random: &mut Lcg, requests: &mut u32) -> Decision<Steps> {
    let resting: Vec<_> =
        scene.run.active_turns.iter().filter(|(_, active)| active.status == TurnStatus::BackingOff).collect();
    let resting = resting.first().map(|(step, active)| Attempt {
        step: (*step).clone(),
        turn: active.turn,
        attempt_no: active.attempt_no,
    });
    let alive: Vec<_> = scene.run.live_attempts().map(|(attempt, _)| attempt).collect();
    let halted = matches!(scene.run.status, RunStatus::Stopped(_) | RunStatus::Paused);
    if (alive.is_empty() && resting.is_none()) || halted || (*requests < 4 && random.below(8) == 0) {
        *requests += 1;
        let all = [Request::Pause, Request::Stop, Request::Interrupt, Request::Resume];
        let request = if *requests > 4 || halted { Request::Resume } else { all[random.below(4)].clone() };
        let decided = consider(&scene.definition, &mut scene.run, &request);
        let mut decision = decided.unwrap_or(Decision::nothing());
        decision.append(scene.fill());
        return decision;
    }
    let fact = match resting {
        Some(attempt) if alive.is_empty() || random.below(3) == 0 => Fact::BackoffElapsed { attempt },
        Some(_) | None => {
            let attempt = alive[random.below(alive.len())].clone();
            let ending = match random.below(8) {
                0 | 1 => Ending::Failed,
                2 => Ending::Interrupted,
                3 => Ending::Stopped,
                _ => Ending::Reported(Verdict::Done),
            };
            Fact::Ended { attempt, ending }
        }
    };
    match absorb(&scene.definition, &mut scene.run, fact) {
        Absorbed::Decided(mut decision) => {
            decision.append(scene.fill());
            decision
        }
        Absorbed::Ignored(stale) => panic!("{stale}"),
    }
}

/// A small generator of our own: the same walks on every machine.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}
