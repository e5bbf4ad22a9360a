//! `items`, explored: steps that appear, people, effects and a request of its own.

use explorer::{Exploration, Limits, Model, Slots, WalkParams, WalkStats};
use testkit::items::{Definition, Items};

fn model(slots: Slots) -> Model<Items> {
    let definition = Definition::new("make things");
    Model::new("items", definition, slots, |_| Vec::new())
}

fn explored(model: &Model<Items>, requests: usize) -> Exploration {
    model.explore(Limits::with_requests(requests)).unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn every_state_of_items_keeps_the_rules() {
    let all = [
        explored(&model(Slots::One), 1),
        explored(&model(Slots::All), 1),
        explored(&model(Slots::One).scheduling_separately(), 1),
    ];
    let states: usize = all.iter().map(|seen| seen.states).sum();
    assert!(states > 1_000, "people and requests multiply the states: {states}");
}

#[test]
fn long_walks_of_items_keep_the_rules_and_end() {
    let walks = WalkParams { seed: 7, count: 30, requests: 6, writes: 0, longest: 2_000 };
    let walked: WalkStats = model(Slots::All).walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded > 3 && walked.failed > 3, "the walks should end in different ways: {walked:?}");
}
