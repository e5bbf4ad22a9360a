//! `team`, explored: one group in full, and two that may affect each other. All documents are validated with the original
//! schemas.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use explorer::team::{Plan, definition, model, planned_state};
use explorer::{Exploration, Explored as _, Interruptions, Limits, Model, Slots, WalkParams};
use protocol::team::{
    Blocked, Choice, DecisionReason, DevelopReason, DeveloperVerdict, GroupProgress, MergeVerdict, QaVerdict,
    Role, Stage, State, Step, Team, TechLeadVerdict, Verdict,
};
use protocol::{Event, Protocol as _};

use super::generated_files::{expect_file, expect_section};

fn explored(model: &Model<Team>, limits: Limits) -> Exploration {
    model.explore(limits).unwrap_or_else(|found| panic!("{found}"))
}

fn uninterrupted(requests: usize) -> Limits {
    Limits { interruptions: Interruptions::Never, ..Limits::with_requests(requests) }
}

/// Explores a model, and compares its counts with the section `section_name` of `docs/team.md`. `name` is how the page calls
/// the model.
fn expect_counts(section_name: &str, name: &str, model: &Model<Team>, limits: Limits) {
    let seen = explored(model, limits);
    let counts = format!(
        "* {name}: {} states, {} transitions, {} refused requests\n",
        seen.states, seen.transitions, seen.refusals
    );
    expect_section("team.md", section_name, &counts);
}

#[test]
fn every_state_of_one_group_with_two_turns_of_each_role_keeps_the_rules() {
    let model = model(Plan::One, Slots::All);
    expect_counts("two turns", "One group, two turns of each role", &model, uninterrupted(0));
}

#[test]
fn every_state_of_one_group_with_a_request_keeps_the_rules() {
    let model = model(Plan::OneTurn, Slots::All);
    expect_counts(
        "a request",
        "One group, one turn of each role, a pause, stop or retry at any state",
        &model,
        uninterrupted(1),
    );
}

#[test]
fn every_state_of_two_groups_at_once_keeps_the_rules() {
    expect_counts("two groups", "Two groups at once", &model(Plan::Two, Slots::All), uninterrupted(0));
}

#[test]
fn every_state_of_a_group_after_another_keeps_the_rules() {
    let limits = Limits::with_requests(0);
    expect_counts(
        "a chain",
        "One group after the other, with interruptions",
        &model(Plan::Chain, Slots::One),
        limits,
    );
}

#[test]
fn long_walks_keep_the_rules_and_end() {
    let walks = WalkParams { seed: 11, count: 30, requests: 6, writes: 0, max_inputs: 2_000 };
    let walked = model(Plan::Two, Slots::All).walk(walks).unwrap_or_else(|found| panic!("{found}"));
    assert!(walked.succeeded > 1 && walked.failed > 1, "the walks should end in different ways: {walked:?}");
}

const STAGES: [Stage; 11] = [
    Stage::Develop(DevelopReason::New),
    Stage::Develop(DevelopReason::QaFailed),
    Stage::Develop(DevelopReason::ChangesRequested),
    Stage::Develop(DevelopReason::Unblocked),
    Stage::Test,
    Stage::Review,
    Stage::Unblock(Blocked::Developer),
    Stage::Unblock(Blocked::Qa),
    Stage::Unblock(Blocked::Flaky),
    Stage::Merge,
    Stage::Complete,
];

/// Every report of a group's roles, every choice of a person, and the end of each role's attempts: the role, the event in
/// words, and the event.
fn events() -> Vec<(Role, String, Event<Step, Verdict>)> {
    let reports = [
        Verdict::Developer(DeveloperVerdict::ReadyForQa),
        Verdict::Developer(DeveloperVerdict::ReadyForReview),
        Verdict::Developer(DeveloperVerdict::Blocked),
        Verdict::Qa(QaVerdict::Pass),
        Verdict::Qa(QaVerdict::Fail),
        Verdict::Qa(QaVerdict::Blocked),
        Verdict::Qa(QaVerdict::Flaky),
        Verdict::TechLead(TechLeadVerdict::Approved),
        Verdict::TechLead(TechLeadVerdict::ChangesRequested { blocking: 1 }),
        Verdict::TechLead(TechLeadVerdict::Unblocked),
        Verdict::Merge(MergeVerdict::Merged),
        Verdict::Merge(MergeVerdict::Refused),
    ];
    let choices = [Choice::Continue, Choice::Split, Choice::Skip, Choice::Fail].map(Verdict::Choice);
    let step =
        |role| Step::Group(planned_state().groups.keys().next().expect("there is a group").clone(), role);
    let reported = reports.into_iter().chain(choices).map(|verdict| {
        let role = match verdict {
            Verdict::Developer(_) => Role::Developer,
            Verdict::Qa(_) => Role::Qa,
            Verdict::TechLead(_) => Role::TechLead,
            Verdict::Merge(_) => Role::Merge,
            _ => Role::Decision,
        };
        (role, Team::describe_verdict(&verdict), Event::Reported { step: step(role), verdict })
    });
    let roles = [Role::Developer, Role::Qa, Role::TechLead, Role::Merge];
    let exhausted =
        roles.map(|role| (role, "no attempts left".to_owned(), Event::Exhausted { step: step(role) }));
    reported.chain(exhausted).collect()
}

/// The status of a group in the words of the original, and what a person is asked or has decided about it.
fn shown(state: &State, started: bool) -> String {
    let group = state.groups.values().next().expect("there is a group");
    let status = group.stage.status(started);
    match group.progress {
        GroupProgress::Open => status.to_owned(),
        GroupProgress::Asks(reason) => format!("{status}, asks ({reason:?})"),
        GroupProgress::Splitting => format!("{status}, splitting"),
        GroupProgress::Skipped => format!("{status}, closed: skipped"),
        GroupProgress::Split => format!("{status}, closed: split"),
        GroupProgress::Failed(_) => format!("{status}, closed: failed"),
    }
}

/// Every transition of a group as the engine decides it (from, role, event, to), and the number of pairs of a stage
/// and an event that change nothing or cannot occur.
fn transitions() -> (Vec<[String; 4]>, usize) {
    let definition = definition(Plan::One);
    let (mut rows, mut unchanged) = (Vec::new(), 0);
    for stage in STAGES {
        for (role, reported, event) in events() {
            let mut state = planned_state();
            let group = state.groups.values_mut().next().expect("there is a group");
            group.stage = stage;
            if role == Role::Decision {
                group.progress = GroupProgress::Asks(DecisionReason::Developer);
            }
            let before = shown(&state, role != Role::Decision);
            // At each stage only one step can report or run out of attempts: the one that an opened run would queue.
            let is_current_step = Team::decide(&definition, &state, Event::Opened).next
                == protocol::Next::QueueUnlessInTurn(vec![step_of(&event)]);
            let decided = Team::decide(&definition, &state, event);
            decided.changes.iter().for_each(|change| Team::apply(&mut state, change));
            if decided.changes.is_empty() || !is_current_step {
                unchanged += 1;
                continue;
            }
            let name = format!("{role:?}").to_lowercase().replace("techlead", "tech lead");
            let row = [before, name, reported, shown(&state, false)];
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    (rows, unchanged)
}

fn step_of(event: &Event<Step, Verdict>) -> Step {
    match event {
        Event::Reported { step, .. } | Event::Exhausted { step } | Event::Skipped { step } => step.clone(),
        Event::Opened | Event::Retried { .. } => panic!("the event has no step"),
    }
}

#[test]
fn the_transitions_of_a_group_as_a_table() {
    let (rows, unchanged) = transitions();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2].map(width);
    let mut text =
        "A group: its status, the role that reports, what it reports, the status after it.\n".to_owned();
    let _ = writeln!(
        text,
        "{} transitions; the other {unchanged} pairs of a stage and an event change nothing.\n",
        rows.len()
    );
    for [from, role, event, to] in &rows {
        let [a, b, c] = widths;
        let _ = writeln!(text, "{from:<a$} | {role:<b$} | {event:<c$} | {to}");
    }
    expect_file("protocols/team/group.txt", &text);
}

#[test]
fn the_diagram_shows_the_transitions_of_a_group() {
    let mut edges: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for stage in STAGES {
        let (from, to) = (stage.status(false), stage.status(true));
        if from != to {
            let role = match stage {
                Stage::Develop(_) => "developer starts",
                Stage::Test => "QA starts",
                _ => "tech lead starts",
            };
            edges.entry((from.to_owned(), to.to_owned())).or_default().push(role.to_owned());
        }
    }
    for [from, _, event, to] in transitions().0 {
        // What a person decides is in a table of the page.
        if !from.contains(',') && !to.contains(',') {
            let words = edges.entry((from, to)).or_default();
            if !words.contains(&event) {
                words.push(event);
            }
        }
    }
    let mut text = "```mermaid\nstateDiagram-v2\n    [*] --> pending\n".to_owned();
    for ((from, to), words) in edges {
        let _ = writeln!(text, "    {from} --> {to}: {}", words.join(", "));
    }
    text.push_str("    complete --> [*]\n```\n");
    expect_section("team.md", "diagram of a group", &text);
}
