//! `peer`, explored: every state of new, continued and imported cycles.

use explorer::peer::{LEGEND, continued, cycle, document_statuses, imported, model, of_whole_repository};
use explorer::{DocumentChanges, Exploration, Limits, Model, WalkParams, WalkStats};
use protocol::peer::{Definition, Peer};

use super::explore_all::{counts, explore_all, totals};
use super::generated_files::{expect_file, expect_section};

fn models() -> Vec<Model<Peer>> {
    let mut models: Vec<_> =
        (1..=3).map(|attempts| model(&format!("new, attempts: {attempts}"), cycle(attempts))).collect();
    models.push(model("global", of_whole_repository(2)));
    models.extend((1..=3).map(|reused| model(&format!("continues, reuses: {reused}"), continued(reused, 2))));
    models.extend(imported(2));
    models
}

/// The models with every queued step started in a journal entry of its own.
fn with_separate_starts(models: Vec<Model<Peer>>) -> impl Iterator<Item = Model<Peer>> {
    models.into_iter().map(|mut model| {
        model.name.push_str(", separate starts");
        model.scheduling_separately()
    })
}

/// Cycles with one write and one request.
fn with_writes() -> Vec<Model<Peer>> {
    let in_progress = imported(1).into_iter().filter(|model| model.name.ends_with("execute in_progress"));
    let mut models =
        vec![model("new, attempts: 2", cycle(2)), model("continues, reuses: 2", continued(2, 1))];
    models.extend(in_progress);
    for model in &mut models {
        model.name.push_str(", with a write");
    }
    models
}

#[test]
fn every_state_of_a_cycle_keeps_the_rules() {
    let all = models()
        .into_iter()
        .chain(with_separate_starts(models()))
        .map(|model| (model, Limits::with_requests(2)));
    let with_writes = with_writes().into_iter().map(|model| (model, Limits::with_requests(1).and_writes(1)));
    let models: Vec<_> = all.chain(with_writes).collect();
    let explored = explore_all(&models);
    expect_file("protocols/peer/counts.md", &counts("cycle", &models, &explored));
    let about = "`peer`: new, continued and imported cycles, also with a write";
    expect_section("exploration.md", "counts of peer", &totals(about, &explored));
    let mut changes = DocumentChanges::default();
    explored.iter().for_each(|seen| changes.add(seen));
    let diagram = format!("```mermaid\n{}```\n", changes.diagram(&document_statuses()));
    expect_section("peer.md", "course of a cycle", &diagram);
}

#[test]
fn long_walks_with_many_writes_keep_the_rules_and_end() {
    let mut all = WalkStats::default();
    for model in [
        model("new, attempts: 6", cycle(6)),
        model("global, separate starts", of_whole_repository(3)).scheduling_separately(),
    ] {
        let walks = WalkParams { seed: 7, count: 20, requests: 4, writes: 150, max_inputs: 1_000 };
        let walked = model.walk(walks).unwrap_or_else(|found| panic!("{found}"));
        all.inputs += walked.inputs;
        all.succeeded += walked.succeeded;
        all.failed += walked.failed;
    }
    assert!(all.succeeded > 5 && all.failed > 5, "the walks should end in different ways: {all:?}");
}

fn explored(definition: Definition, requests: usize) -> Exploration {
    let explored = model("cycle", definition).explore(Limits::to_print(requests));
    explored.unwrap_or_else(|found| panic!("{found}"))
}

#[test]
fn a_new_cycle_as_a_table_and_a_diagram() {
    let explored = explored(cycle(2), 0);
    expect_file("protocols/peer/cycle.txt", &explored.table("A new cycle. Two attempts.", LEGEND));
    expect_file("protocols/peer/cycle.mmd", &explored.diagram());
}

#[test]
fn a_new_cycle_with_one_request_as_a_table() {
    let explored = explored(cycle(1), 1);
    expect_file(
        "protocols/peer/cycle-request.txt",
        &explored.table("A new cycle. One attempt, one request.", LEGEND),
    );
}

#[test]
fn a_cycle_that_continues_a_failed_one_as_a_table() {
    let explored = explored(continued(2, 1), 1);
    let about = "Continues a cycle whose plan and execution were completed. One attempt, one request.";
    expect_file("protocols/peer/continued.txt", &explored.table(about, LEGEND));
}

#[test]
fn permitted_and_refused_writes_as_a_table() {
    let explored = model("cycle", cycle(1)).explore(Limits::to_print(0).and_writes(1));
    let explored = explored.unwrap_or_else(|found| panic!("{found}"));
    let about = "A new cycle, and all writes to its document. One attempt, one write.";
    expect_file("protocols/peer/writes.txt", &explored.table(about, LEGEND));
}
