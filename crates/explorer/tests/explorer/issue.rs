//! `issue`, explored: three attempts, questions and escalations at every step, and the document in every state.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use explorer::issue::{definition, describe_pending};
use explorer::{Explored as _, Limits, Model, Slots, WalkParams, WalkStats};
use protocol::issue::{
    CloseIssue, Definition, Document, Issue, Pending, Stage, State, Step, TriageMode, Verdict, check,
};
use protocol::{Event, Move, Next, Protocol as _};

use super::explore_all::{counts, explore_all, totals};
use super::generated_files::{expect_file, expect_section};

/// Returns what is wrong with a document, by the rules of its format.
fn violations(document: &Document) -> Vec<String> {
    let found = check(&document.file_content());
    let all = found.violations.into_iter().chain(found.warnings);
    all.map(|violation| format!("{}: {}", violation.pointer, violation.message)).collect()
}

fn model(
    name: &str,
    attempts: u32,
    questions: u32,
    triage: TriageMode,
    close_issue: CloseIssue,
) -> Model<Issue> {
    Model::new(name, definition(attempts, questions, triage, close_issue), Slots::All, violations)
}

/// A model in which a step that fails once has no attempts left.
fn strict(
    name: &str,
    attempts: u32,
    questions: u32,
    triage: TriageMode,
    close_issue: CloseIssue,
) -> Model<Issue> {
    let mut definition = definition(attempts, questions, triage, close_issue);
    definition.max_attempts = NonZeroU32::MIN;
    Model::new(name, definition, Slots::All, violations)
}

#[test]
fn every_state_of_issue_keeps_the_rules() {
    let (with_triage, without_triage) = (TriageMode::Run, TriageMode::Skip);
    let (at_once, by_merge) = (CloseIssue::ByRun, CloseIssue::ByMerge);
    let models = [
        (
            strict("three attempts, one question, no retries or interruptions", 3, 1, with_triage, at_once),
            Limits::with_any_requests().uninterrupted(),
        ),
        (model("three attempts, one question", 3, 1, with_triage, at_once), Limits::with_requests(0)),
        (
            strict("one attempt, two questions, no retries", 1, 2, without_triage, by_merge),
            Limits::with_requests(0),
        ),
        (model("two attempts, no questions", 2, 0, with_triage, by_merge), Limits::with_requests(1)),
        (
            strict("one attempt, one question, no retries", 1, 1, without_triage, by_merge),
            Limits::with_requests(1),
        ),
        (
            model("one attempt, separate starts", 1, 0, with_triage, by_merge).scheduling_separately(),
            Limits::with_requests(1),
        ),
    ];
    let explored = explore_all(&models);
    expect_file("protocols/issue/counts.md", &counts("pipeline", &models, &explored));
    expect_section(
        "exploration.md",
        "counts of issue",
        &totals("`issue`: attempts, questions, escalations", &explored),
    );
}

/// Returns the first column of the table: the step that works, and what the decision about it depends on.
fn situation(definition: &Definition, state: &State, step: Step) -> String {
    let asker = state.stage.step().map(|step| step.to_string()).unwrap_or_default();
    let pending: Vec<_> = state.pending.iter().map(describe_pending).collect();
    let detail = match state.pending.is_empty() {
        false => format!(" {} of {asker}", pending.join("+")),
        true if step == Step::Comment && state.stage == Stage::GiveUp => " on the failure".to_owned(),
        true if step == Step::Comment => " on the result".to_owned(),
        true if matches!(step, Step::Diff | Step::Build | Step::Reviewer) => {
            let is_last = state.attempt == definition.pipeline_attempts.get();
            if is_last { " in the last attempt".to_owned() } else { String::new() }
        }
        true => String::new(),
    };
    match state.failed {
        Some(cause) => format!("{step}{detail}, failed: {cause:?}").to_lowercase(),
        None => format!("{step}{detail}"),
    }
}

/// Returns the transition table: every decision once.
fn transitions() -> String {
    let definition = definition(2, 2, TriageMode::Run, CloseIssue::ByRun);
    let mut states = vec![Issue::begin(&definition)];
    let mut rows = Vec::new();
    let mut next = 0;
    while let Some(state) = states.get(next).cloned() {
        next += 1;
        let failed = Issue::failed_steps(&definition, &state);
        let Some(step) = failed.first().copied().or_else(|| state.current()) else { continue };
        let mut events = vec![("has no attempts left".to_owned(), Event::Exhausted { step })];
        let verdicts = Issue::verdicts(&definition, &state, &step).into_iter();
        events.extend(
            verdicts.map(|verdict| (Issue::describe_verdict(&verdict), Event::Reported { step, verdict })),
        );
        if state.failed.is_some() {
            events = vec![("is retried".to_owned(), Event::Retried { steps: failed })];
        } else if step == Step::Person {
            events.remove(0);
        }
        for (input, event) in events {
            let Move { changes, next } = Issue::decide(&definition, &state, event);
            let mut after = state.clone();
            changes.iter().for_each(|change| Issue::apply(&mut after, change));
            let next = match next {
                Next::Queue(steps) | Next::QueueUnlessInTurn(steps) => {
                    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
                }
                Next::Finish(outcome) | Next::Drain(outcome) => format!("**{outcome:?}**").to_lowercase(),
            };
            let changes: Vec<_> = changes.iter().map(Issue::describe_change).collect();
            let row = format!(
                "| {} | {input} | {} | {next} |",
                situation(&definition, &state, step),
                changes.join(", ")
            );
            if !rows.contains(&row) {
                rows.push(row);
            }
            // `answer_steps` lists the steps outside the pipeline that the run shows. No decision depends on it.
            after.answer_steps.clear();
            if !states.contains(&after) {
                states.push(after);
            }
        }
    }
    rows.sort();
    format!(
        "What follows what, with two pipeline attempts and two questions. `?x` is a question to `x`, `esc` an escalation to a \
         person, `try` one that another agent decides.\n\n| step | says | change | next |\n|---|---|---|---|\n{}\n",
        rows.join("\n")
    )
}

#[test]
fn the_table_shows_every_transition() {
    expect_file("protocols/issue/transitions.md", &transitions());
}

/// Returns the edges of the pipeline: from each stage, by each verdict, to the step that is next.
fn diagram() -> String {
    let definition = definition(2, 0, TriageMode::Run, CloseIssue::ByRun);
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
            let _ = writeln!(text, "    {step} -- {} --> {to}", Issue::describe_verdict(&verdict));
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
    let walks = WalkParams { seed: 19, count: 80, requests: 1, writes: 0, max_inputs: 1_000 };
    let model = model("walk", 3, 3, TriageMode::Run, CloseIssue::ByRun);
    let walked: WalkStats = model.walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded > 0 && walked.failed > 0, "the walks should end in different ways: {walked:?}");
}
