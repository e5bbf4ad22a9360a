//! Random walks with a fixed seed, for workflows with too many states to visit all. A policy is a value of `--on-failure`.

use explorer::{Slots, WalkParams, WalkStats};

use super::{ON_FAILURE_VALUES, model, shapes};

#[test]
fn long_walks_through_larger_workflows_keep_the_rules_and_end() {
    let mut all = WalkStats::default();
    for shape in [&shapes::SIX, &shapes::WIDE, &shapes::LINE_OF_GATES] {
        for policy in ON_FAILURE_VALUES {
            for slots in [Slots::One, Slots::All] {
                let walks = WalkParams { seed: 7, count: 12, requests: 6, writes: 0, max_inputs: 1_000 };
                let walked =
                    model(shape, policy, slots).walk(walks).unwrap_or_else(|found| panic!("{found}"));
                all.inputs += walked.inputs;
                all.succeeded += walked.succeeded;
                all.failed += walked.failed;
            }
        }
    }
    assert!(all.succeeded > 20 && all.failed > 20, "the walks should end in different ways: {all:?}");
}
