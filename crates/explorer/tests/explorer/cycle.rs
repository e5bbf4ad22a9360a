//! `cycle`, explored: two iterations with every verdict, pause, stop and extend at every state.
//!
//! The phases of an iteration: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use explorer::cycle::{LEGEND, definition, model, test_check};
use explorer::{Exploration, Interruptions, Limits, Model, Slots, WalkParams, WalkStats};
use protocol::cycle::{Cycle, DecisionMode, Definition, MergeMode, Overlap};

use super::generated_files::{expect_file, expect_section};

fn explored(model: &Model<Cycle>, limits: Limits) -> Exploration {
    model.explore(limits).unwrap_or_else(|found| panic!("{found}"))
}

/// A cycle of at most two iterations with one attempt per step.
fn plain() -> Model<Cycle> {
    model("four phases", definition(1), Slots::All)
}

/// A cycle in which exploration and a first test run begin before their phase.
fn overlapping() -> Model<Cycle> {
    let definition = Definition {
        overlap: Overlap::On,
        checks: vec![test_check()],
        merge_mode: MergeMode::FastForward,
        decisions: DecisionMode::Auto,
        ..definition(1)
    };
    model("overlap, checks and fast-forward", definition, Slots::All)
}

/// A cycle in which two tasks are coded at the same time.
fn parallel(max_iterations: u32) -> Model<Cycle> {
    let definition =
        Definition { max_iterations, parallel: 2, merge_mode: MergeMode::Branch, ..definition(1) };
    model("two tasks at once", definition, Slots::All)
}

/// Explores a model, and compares its counts with the section `section_name` of `docs/cycle.md`.
fn expect_counts(section_name: &str, model: &Model<Cycle>, limits: Limits) {
    let seen = explored(model, limits);
    let interruptions = match limits.interruptions {
        Interruptions::Never => ", without interruptions",
        Interruptions::Once | Interruptions::Any => "",
    };
    let counts = format!(
        "* {}{interruptions}, requests on a path: {}: {} states, {} transitions, {} refused requests\n",
        seen.model,
        limits.describe_requests(),
        seen.states,
        seen.transitions,
        seen.refusals
    );
    expect_section("cycle.md", section_name, &counts);
}

#[test]
fn every_state_of_two_iterations_keeps_the_rules_with_every_request() {
    expect_counts("two iterations", &plain(), Limits::with_any_requests());
}

#[test]
fn every_state_with_overlapping_steps_keeps_the_rules() {
    expect_counts("overlap", &overlapping(), Limits::with_requests(0));
}

#[test]
fn every_state_with_overlapping_steps_and_requests_keeps_the_rules() {
    expect_counts("overlap and requests", &overlapping(), Limits::with_requests(1).uninterrupted());
}

#[test]
fn every_state_with_parallel_tasks_keeps_the_rules() {
    expect_counts("parallel tasks", &parallel(1), Limits::with_requests(0));
}

#[test]
fn a_cycle_of_one_iteration_as_a_table() {
    let definition = Definition { max_iterations: 1, ..definition(1) };
    let explored = explored(&model("one iteration", definition, Slots::All), Limits::to_print(0));
    let about = "ra, ep, cd, vas; one attempt, one iteration.";
    expect_file("protocols/cycle/one-iteration.txt", &explored.table(about, LEGEND));
    let diagram = explored.diagram();
    expect_file("protocols/cycle/one-iteration.mmd", &diagram);
    expect_section("cycle.md", "diagram", &format!("```mermaid\n{diagram}```\n"));
}

#[test]
fn any_order_of_extend_pause_resume_stop_and_interruption_leaves_a_valid_document() {
    let (mut succeeded, mut failed) = (0, 0);
    for (seed, model) in [(1, plain()), (2, overlapping()), (3, parallel(2))] {
        let walks = WalkParams { seed, count: 15, requests: 8, writes: 0, max_inputs: 3_000 };
        let walked: WalkStats = model.walk(walks).unwrap_or_else(|found| panic!("{found}"));
        succeeded += walked.succeeded;
        failed += walked.failed;
    }
    assert!(
        succeeded > 0 && failed > 0,
        "the walks should end in both ways: {succeeded} succeeded, {failed} failed"
    );
}
