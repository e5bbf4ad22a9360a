//! Explores every state of small workflows. A shape is the graph of a workflow, a policy the `--on-failure` of the run.

use explorer::steps::Shape;
use explorer::{Limits, Model, Slots};
use protocol::steps::{Document, OnFailure, Status, Steps};

use super::explore_all::{counts, explore_all, totals};
use super::generated_files::{expect_file, expect_section};
use super::shapes::{
    APPROVAL, APPROVED_FORK, APPROVED_GATE, CHECKED, CHECKED_GATE, CONDITIONS, CROSSED, FORK, GATE,
    GATES_SIDE_BY_SIDE, HUMAN_IN_THE_LOOP, ITEMS, JOIN, LINE, NESTED, ONE, PAIR, PAIRED, PARALLEL, RESTART,
    RESTARTED_ITEMS, RESTARTED_PHASES, REVIEWED_WORKTREE, SIBLING, SIX, UNRELATED, WHEN, WORKTREE, WORKTREES,
};
use super::{ITERATIONS, ON_FAILURE_VALUES, model};

/// Shapes with agents only, and the number of requests on a path: two if the states are few enough.
const GRAPHS: [(&Shape, usize); 12] = [
    (&ONE, 2),
    (&PAIR, 2),
    (&LINE, 2),
    (&GATE, 2),
    (&FORK, 1),
    (&NESTED, 1),
    (&GATES_SIDE_BY_SIDE, 0),
    (&CROSSED, 0),
    (&SIBLING, 1),
    (&JOIN, 0),
    (&UNRELATED, 0),
    (&SIX, 0),
];

/// Shapes with people, restarts and worktrees, and the number of requests on a path.
const PEOPLE_RESTARTS_WORKTREES: [(&Shape, usize); 6] = [
    (&APPROVED_GATE, 2),
    (&APPROVAL, 1),
    (&RESTART, 2),
    (&WORKTREE, 1),
    (&REVIEWED_WORKTREE, 1),
    (&WORKTREES, 0),
];

fn models(shapes: &[(&Shape, usize)]) -> Vec<(Model<Steps>, Limits)> {
    let mut models = Vec::new();
    for (shape, requests) in shapes {
        for policy in ON_FAILURE_VALUES {
            // In a line no two steps run at once, so the number of slots does not matter, and `drain`, which waits for
            // running steps, is the same as `stop`.
            let slots: &[Slots] = match (shape.is_a_line(), policy) {
                (true, OnFailure::Drain) => &[],
                (true, OnFailure::Stop | OnFailure::Continue) | (false, OnFailure::Drain) => &[Slots::All],
                (false, OnFailure::Stop | OnFailure::Continue) => &[Slots::One, Slots::All],
            };
            for slots in slots.iter().copied() {
                models.push((model(shape, policy, slots), Limits::with_requests(*requests)));
            }
        }
    }
    models
}

#[test]
fn every_state_of_graphs_and_gates_keeps_the_rules() {
    let models = models(&GRAPHS);
    let explored = explore_all(&models);
    expect_file("protocols/steps/counts.md", &counts("workflow, policy, slots", &models, &explored));
    let about = "`steps`: 12 shapes of workflows, three policies, one slot and all";
    expect_section("exploration.md", "counts of steps", &totals(about, &explored));
}

#[test]
fn every_state_of_people_restarts_and_worktrees_keeps_the_rules() {
    let models = models(&PEOPLE_RESTARTS_WORKTREES);
    let explored = explore_all(&models);
    expect_file("protocols/steps/others.md", &counts("workflow, policy, slots", &models, &explored));
    let about = "`steps` with people, restarts and worktrees: 6 shapes, three policies, one slot and all";
    expect_section("exploration.md", "counts of other steps", &totals(about, &explored));
}

#[test]
fn every_state_of_steps_with_phases_keeps_the_rules() {
    let shapes = [
        (&HUMAN_IN_THE_LOOP, 2),
        (&APPROVED_FORK, 1),
        (&CONDITIONS, 0),
        (&WHEN, 1),
        (&CHECKED, 1),
        (&CHECKED_GATE, 1),
        (&RESTARTED_PHASES, 1),
    ];
    let mut models: Vec<(Model<Steps>, Limits)> = Vec::new();
    for (shape, requests) in shapes {
        for policy in ON_FAILURE_VALUES {
            models.push((model(shape, policy, Slots::All), Limits::with_requests(requests)));
        }
    }
    let explored = explore_all(&models);
    expect_file("protocols/steps/phases.md", &counts("workflow, policy, slots", &models, &explored));
    let about = "`steps` with people, conditions and checks: 7 shapes of workflows, three policies";
    expect_section("exploration.md", "counts of phases", &totals(about, &explored));
}

/// Two policies: an item that fails ends the run, or the other items follow. Of the shapes with paired steps, which share
/// the items of one loop, only the smaller one has requests.
#[test]
fn every_state_of_data_loops_keeps_the_rules() {
    let shapes = [(&ITEMS, 1), (&PARALLEL, 1), (&RESTARTED_ITEMS, 1), (&PAIRED, 0)];
    let models = shapes.iter().flat_map(|(shape, requests)| {
        let policies = [OnFailure::Stop, OnFailure::Continue];
        policies.map(|policy| (model(shape, policy, Slots::All), Limits::with_requests(*requests)))
    });
    let models: Vec<_> = models.collect();
    let explored = explore_all(&models);
    expect_file("protocols/steps/data-loops.md", &counts("workflow, policy, slots", &models, &explored));
    let about = "`steps` with data loops: 4 shapes of workflows, two policies";
    expect_section("exploration.md", "counts of data loops", &totals(about, &explored));
}

/// After a request that a command has committed, the engine starts queued steps in an entry of its own. It may be killed before
/// that entry.
#[test]
fn starts_in_entries_of_their_own_keep_the_rules() {
    let shapes = [(&ONE, 2), (&PAIR, 1), (&LINE, 1), (&GATE, 1), (&FORK, 0), (&SIBLING, 0)];
    let model = |shape| model(shape, ON_FAILURE_VALUES[0], Slots::One).scheduling_separately();
    let models = shapes.map(|(shape, requests)| (model(shape), Limits::with_requests(requests)));
    let states: usize = explore_all(&models).iter().map(|seen| seen.states).sum();
    assert!(states > 1_000, "{states} states are too few for these workflows");
}

#[test]
fn an_exploration_with_too_many_states_fails() {
    let limits = Limits { states: 10, ..Limits::with_requests(2) };
    let found = model(&PAIR, ON_FAILURE_VALUES[0], Slots::All).explore(limits).unwrap_err();
    assert_eq!(found.violations[0].rule, "the number of states is limited");
}

#[test]
fn a_counter_example_has_the_shortest_path() {
    let no_step_failed = |document: &Document| {
        let failed = document.steps.iter().filter(|(_, step)| step.status == Status::Failed);
        failed.map(|(id, _)| format!("`{id}` failed")).collect()
    };
    let definition = LINE.definition(ON_FAILURE_VALUES[0], ITERATIONS);
    let model: Model<Steps> = Model::new("line, stop", definition, Slots::All, no_step_failed);
    let found = model.explore(Limits::with_requests(1)).unwrap_err();
    // `z` is backing off, `-1` is one failed attempt.
    insta::assert_snapshot!(found, @r"
    rule violated: the document keeps its format's rules: `a` failed
    in `line, stop, all slots`, on this path:
       0  (opens)             running     a▶ b· c·
       1  a fails             running     az-1 b· c·
       2  a back-off elapsed  running     a▶-1 b· c·
       3  a fails             FAILED      a✗ b· c·
    ");
}
