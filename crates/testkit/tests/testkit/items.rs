//! The explorer visits the test protocol `items`, which has steps that appear during the run, people, effects and a request of
//! its own.

use explorer::{Exploration, Explored as _, Limits, Model, Slots, WalkParams, WalkStats};
use protocol::{ParsedReport, Protocol as _, RunId, RunLocation, StepId, Timestamp};
use testkit::items::{Definition, Items, Step, Verdict};

fn model(slots: Slots) -> Model<Items> {
    let definition = Definition::new("make things");
    // The format of `items` has no rules, so no document violates one.
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
        // With the start of queued steps in entries of their own.
        explored(&model(Slots::One).scheduling_separately(), 1),
    ];
    let states: usize = all.iter().map(|seen| seen.states).sum();
    assert!(states > 1_000, "people and requests multiply the states: {states}");
}

/// A walk is one random path through the states.
#[test]
fn long_walks_of_items_keep_the_rules_and_end() {
    let walks = WalkParams { seed: 7, count: 30, requests: 6, writes: 0, max_inputs: 2_000 };
    let walked: WalkStats = model(Slots::All).walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded > 3 && walked.failed > 3, "the walks should end in different ways: {walked:?}");
}

/// Regression: an item with the id `plan` replaced the plan in the document. An item with a very long id had steps whose ids,
/// such as `ID.make`, were too long.
#[test]
fn an_item_with_an_id_that_its_run_cannot_use_is_refused() {
    let definition = Definition::new("make things");
    let location = RunLocation {
        run: RunId::new("trial").unwrap(),
        repo_dir: "/repo".to_owned(),
        worktree: None,
        state_dir: None,
    };
    let document = Items::open_document(&definition, &location, Timestamp::from_micros(0));
    let is_accepted = |id: &str| {
        let verdict = Verdict::Planned(vec![StepId::new(id).unwrap()]);
        let report = Items::report(&definition, &Step::Plan, &verdict);
        match Items::parse_report(&definition, &document, &Step::Plan, &report) {
            ParsedReport::Verdict(parsed) => parsed == verdict,
            ParsedReport::Failed(_) | ParsedReport::Invalid(_) => false,
        }
    };
    let longest = (1..).map(|length| "a".repeat(length)).take_while(|id| StepId::new(id).is_ok()).last();
    assert!(is_accepted("door"));
    for id in ["plan", "a.b", &longest.unwrap()] {
        assert!(!is_accepted(id), "{id}");
    }
}
