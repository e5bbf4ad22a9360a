//! `issue`, explored: three attempts, questions and escalations at every step, and the document in every state.

use std::fmt::Write as _;

use protocol::issue::{Closing, Document, Issue, Pending, Step, TriageMode, Verdict, check};
use protocol::{Event, Protocol as _};
use testkit::explorer::issue::{LEGEND, definition};
use testkit::explorer::{Explored as _, Limits, Scene, Slots, WalkStats, Walks};

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
    expect_section(
        "exploration.md",
        "counts of issue",
        &sum("`issue`: attempts, questions, escalations", &explored),
    );
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
    let mut definition = definition(1, 1, TriageMode::Omitted, Closing::ByMerge);
    definition.max_attempts = std::num::NonZeroU32::MIN;
    let scene: Scene<Issue> = Scene::new("one question", definition, Slots::All, violations);
    let explored = scene.explore(Limits::to_print(0)).unwrap_or_else(|found| panic!("{found}"));
    let about = "An issue without triage: one pipeline attempt, one attempt of each step, one question or escalation.";
    expect_file("protocols/issue/questions.txt", &explored.table(about, LEGEND));
}

/// Returns the edges of the pipeline: from each stage, by each verdict, to the step that is next.
fn diagram() -> String {
    let definition = definition(2, 0, TriageMode::First, Closing::AtOnce);
    let mut text = "```mermaid\nflowchart LR\n".to_owned();
    let mut state = Issue::begin(&definition);
    let mut stages = vec![state.stage];
    let mut next = 0;
    while let Some(stage) = stages.get(next).copied() {
        next += 1;
        state.stage = stage;
        let Some(step) = state.current() else { continue };
        let mut verdicts = Issue::verdicts(&definition, &state, &step);
        if matches!(step, Step::Triage | Step::Reviewer) {
            verdicts.push(Verdict::Asks(vec![Pending::Block]));
        }
        for verdict in verdicts {
            let event = Event::Reported { step, verdict: verdict.clone() };
            let decided = Issue::decide(&definition, &state, event);
            let mut after = state.clone();
            decided.changes.iter().for_each(|change| Issue::apply(&mut after, change));
            let to = match (&verdict, after.current()) {
                (Verdict::Asks(_), _) => "person".to_owned(),
                (_, Some(to)) => to.to_string(),
                (_, None) => "succeeded".to_owned(),
            };
            let _ = writeln!(text, "    {step} -- {} --> {to}", Issue::say_verdict(&verdict));
            if after.pending.is_empty() && !stages.contains(&after.stage) {
                stages.push(after.stage);
            }
        }
    }
    text + "```\n"
}

#[test]
fn the_diagram_shows_the_transition_table() {
    expect_section("issue.md", "diagram of issue", &diagram());
}

#[test]
fn long_walks_of_issue_keep_the_rules_and_end() {
    let walks = Walks { seed: 19, count: 12, requests: 4, writes: 0, longest: 1_000 };
    let scene = scene("walk", 3, 3, TriageMode::First, Closing::AtOnce);
    let walked: WalkStats = scene.walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded + walked.failed > 6, "the walks should end in different ways: {walked:?}");
}
