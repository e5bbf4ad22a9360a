//! `issue`, explored: three attempts, questions and escalations at every step, and the document in every state.

use protocol::issue::{Closing, Document, Issue, TriageMode, check};
use testkit::explorer::issue::{LEGEND, definition};
use testkit::explorer::{Limits, Scene, Slots, WalkStats, Walks};

use super::explore_all::{counts, explore_all, sum};
use super::generated_files::{expect_file, expect_section};

/// Returns what is wrong with a document, by the rules of its format.
fn violations(document: &Document) -> Vec<String> {
    let found = check(&document.shown());
    let all = found.violations.into_iter().chain(found.warnings);
    all.map(|violation| format!("{}: {}", violation.pointer, violation.message)).collect()
}

fn scene(name: &str, attempts: u32, questions: u32, triage: TriageMode, closing: Closing) -> Scene<Issue> {
    Scene::new(name, definition(attempts, questions, triage, closing), Slots::All, violations)
}

#[test]
fn every_state_of_issue_keeps_the_rules() {
    let (first, omitted) = (TriageMode::First, TriageMode::Omitted);
    let scenes = [
        (scene("three attempts, one question", 3, 1, first, Closing::AtOnce), Limits::with_requests(0)),
        (scene("one attempt, two questions", 1, 2, omitted, Closing::ByMerge), Limits::with_requests(0)),
        (scene("two attempts, no questions", 2, 0, first, Closing::ByMerge), Limits::with_requests(1)),
        (scene("one attempt, one question", 1, 1, omitted, Closing::ByMerge), Limits::with_requests(1)),
        (
            scene("one attempt, separate starts", 1, 0, first, Closing::ByMerge).scheduling_separately(),
            Limits::with_requests(1),
        ),
    ];
    let explored = explore_all(&scenes);
    expect_file("protocols/issue/counts.md", &counts("pipeline", &scenes, &explored));
    expect_section("exploration.md", "counts of issue", &sum("`issue`: attempts, questions, escalations", &explored));
}

#[test]
fn the_table_of_two_attempts() {
    let scene = scene("two attempts", 2, 0, TriageMode::First, Closing::ByMerge);
    let explored = scene.explore(Limits::to_print(0)).unwrap_or_else(|found| panic!("{found}"));
    let about = "An issue with two pipeline attempts, two attempts of each step, no questions.";
    expect_file("protocols/issue/two-attempts.txt", &explored.table(about, LEGEND));
}

#[test]
fn the_table_and_diagram_of_one_attempt_with_a_question() {
    let scene = scene("one attempt", 1, 1, TriageMode::First, Closing::ByMerge);
    let explored = scene.explore(Limits::to_print(0)).unwrap_or_else(|found| panic!("{found}"));
    let about = "An issue with one pipeline attempt, two attempts of each step, one question or escalation.";
    expect_file("protocols/issue/questions.txt", &explored.table(about, LEGEND));
}

#[test]
fn long_walks_of_issue_keep_the_rules_and_end() {
    let walks = Walks { seed: 19, count: 12, requests: 4, writes: 0, longest: 1_000 };
    let scene = scene("walk", 3, 3, TriageMode::First, Closing::AtOnce);
    let walked: WalkStats = scene.walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded + walked.failed > 6, "the walks should end in different ways: {walked:?}");
}
