//! The model of `team` for the explorer: its notation and its rules.

use std::collections::BTreeSet;
use std::num::{NonZeroU8, NonZeroU32};
use std::time::Duration;

use protocol::protocol_trait::StepStatus;
use protocol::report::{Report, ReportIdentity};
use protocol::run::{Run, RunStatus};
use protocol::team::{
    Blocked, Change, Choice, DecisionReason, Definition, DevelopReason, DeveloperVerdict, FinalStage,
    GroupId, Limits, MergeVerdict, ModeChoice, PlannedCriterion, PlannedWork, PmStep, QaVerdict, Role,
    ScheduledGroup, Stage, State, Step, Team, TechLeadVerdict, Verdict,
};
use protocol::{Answer, Outcome, Protocol as _, RunId, Timestamp, TypedMachine};
use serde_json::{Value, json};

use super::{Explored, Model, Slots, StepNotation, Transition, Violation};
use crate::team_files::TeamSchemas;

/// The groups in the plan of the model, and the turns of their roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// One group with a criterion that has a command. Two turns of each role.
    One,
    /// The same group with one turn of each role.
    OneTurn,
    /// Two independent groups. One turn of each role.
    Two,
    /// Two groups, of which the second depends on the first. One turn of each role.
    Chain,
}

/// Returns a definition with small limits. Its request is the name of the plan, which `plan_of` reads.
pub fn definition(plan: Plan) -> Definition {
    let two = NonZeroU8::new(2).expect("BUG: two is not zero");
    let one = NonZeroU8::MIN;
    let (request, turns) = match plan {
        Plan::One => ("one", two),
        Plan::OneTurn => ("one", one),
        Plan::Two => ("two", one),
        Plan::Chain => ("chain", one),
    };
    Definition {
        request: request.to_owned(),
        mode: ModeChoice::Auto,
        limits: Limits {
            developer: turns,
            qa: turns,
            review: turns,
            checks: turns,
            groups: two,
            attempts: NonZeroU32::MIN,
            idle: Duration::from_secs(60),
        },
        timeout: None,
        prompts: std::collections::BTreeMap::new(),
    }
}

/// Returns the state after the plan of one group.
pub fn planned_state() -> State {
    let definition = definition(Plan::One);
    let mut state = Team::begin(&definition);
    let (work, _) = plan_of(&definition);
    Team::apply(&mut state, &Change::Planned { work, limits: definition.limits });
    state
}

/// Returns the model of a plan. Its documents must fit the original schemas.
pub fn model(plan: Plan, slots: Slots) -> Model<Team> {
    let schemas = TeamSchemas::new();
    Model::new(definition(plan).request, definition(plan), slots, move |document| {
        schemas.violations(&Team::views(document))
    })
}

fn group(id: &str) -> GroupId {
    GroupId::new(id).expect("BUG: the name is safe")
}

fn planned_group(id: &str, after: &[&str]) -> ScheduledGroup {
    ScheduledGroup { id: group(id), phase: 0, after: after.iter().map(|id| group(id)).collect() }
}

/// Returns the plan of the model: its groups and criteria, and the report that gives them.
fn plan_of(definition: &Definition) -> (PlannedWork, Value) {
    let (groups, criteria) = match definition.request.as_str() {
        "one" => (vec![planned_group("A", &[])], vec![PlannedCriterion { groups: [group("A")].into() }]),
        "two" => (vec![planned_group("A", &[]), planned_group("B", &[])], Vec::new()),
        _ => (vec![planned_group("A", &[]), planned_group("B", &["A"])], Vec::new()),
    };
    let report = plan_report(&groups, definition.request == "one");
    (PlannedWork { groups, criteria }, report)
}

fn plan_report(groups: &[ScheduledGroup], has_command: bool) -> Value {
    let tasks: Vec<_> = groups
        .iter()
        .map(|group| json!({ "id": format!("T{}", group.id), "description": "do it" }))
        .collect();
    let task_groups: Vec<_> = groups
        .iter()
        .map(|group| {
            json!({
                "id": group.id, "name": format!("group {}", group.id), "tasks": [format!("T{}", group.id)],
                "files_affected": [format!("{}.txt", group.id)], "depends_on": group.after,
            })
        })
        .collect();
    let mut criterion = json!({ "id": "C1", "text": "it works", "tasks": ["TA"] });
    if has_command {
        criterion["command"] = "true".into();
    }
    let ids: Vec<_> = groups.iter().map(|group| &group.id).collect();
    json!({
        "verdict": "PLANNING_COMPLETE", "mode": "parallel", "mode_reasoning": "because", "all_tasks": tasks,
        "task_groups": task_groups, "execution_phases": [{ "phase_number": 1, "group_ids": ids }],
        "success_criteria": [criterion],
    })
}

/// Returns the plan that replaces a group by one other group, and its report.
fn split_of(id: &GroupId) -> (PlannedWork, Value) {
    let new = format!("{id}1");
    let work = PlannedWork { groups: vec![planned_group(&new, &[])], criteria: Vec::new() };
    let report = json!({
        "verdict": "PLANNING_COMPLETE",
        "task_groups": [{ "id": new, "name": "smaller", "tasks": [format!("T{id}")], "files_affected": [] }],
    });
    (work, report)
}

impl Explored for Team {
    fn verdicts(definition: &Definition, state: &State, step: &Step) -> Vec<Verdict> {
        match step {
            Step::Pm(PmStep::Plan) => vec![Verdict::Plan(match state.splitting() {
                Some(id) => split_of(id).0,
                None => plan_of(definition).0,
            })],
            Step::Pm(PmStep::Criteria) => {
                [BTreeSet::new(), [0].into()].map(|failed| Verdict::Criteria { failed }).to_vec()
            }
            Step::Pm(PmStep::Check) => vec![Verdict::Complete],
            Step::Pm(PmStep::Merge) => vec![Verdict::FastForwarded],
            Step::Pm(PmStep::Decision) => {
                [Choice::Continue, Choice::Accept, Choice::Fail].map(Verdict::Choice).to_vec()
            }
            // Two groups are explored for interference: a few verdicts of each role are enough.
            Step::Group(_, Role::Developer) if definition.request != "one" => {
                [DeveloperVerdict::ReadyForReview, DeveloperVerdict::Blocked].map(Verdict::Developer).to_vec()
            }
            Step::Group(_, Role::Decision) if definition.request != "one" => {
                [Choice::Skip, Choice::Fail].map(Verdict::Choice).to_vec()
            }
            Step::Group(_, Role::Developer) => {
                [DeveloperVerdict::ReadyForQa, DeveloperVerdict::ReadyForReview, DeveloperVerdict::Blocked]
                    .map(Verdict::Developer)
                    .to_vec()
            }
            Step::Group(_, Role::Qa) => {
                [QaVerdict::Pass, QaVerdict::Fail, QaVerdict::Blocked, QaVerdict::Flaky]
                    .map(Verdict::Qa)
                    .to_vec()
            }
            Step::Group(id, Role::TechLead) => match state.groups[id].stage {
                Stage::Unblock(_) => vec![Verdict::TechLead(TechLeadVerdict::Unblocked)],
                _ => [1, 0]
                    .map(|blocking| TechLeadVerdict::ChangesRequested { blocking })
                    .into_iter()
                    .chain([TechLeadVerdict::Approved])
                    .map(Verdict::TechLead)
                    .collect(),
            },
            Step::Group(_, Role::Merge) => {
                [MergeVerdict::Merged, MergeVerdict::Refused].map(Verdict::Merge).to_vec()
            }
            Step::Group(id, Role::Decision) => {
                // A group that replaces another is not split again, so that the states are finite.
                let choices = [Choice::Continue, Choice::Skip, Choice::Fail, Choice::Split];
                let count = if id.as_str().ends_with('1') { 3 } else { 4 };
                choices.into_iter().take(count).map(Verdict::Choice).collect()
            }
        }
    }

    fn report(definition: &Definition, step: &Step, verdict: &Verdict) -> Report {
        let fields = match verdict {
            Verdict::Plan(work) => {
                let first = plan_of(definition);
                if *work == first.0 {
                    first.1
                } else {
                    let id = work.groups[0].id.as_str();
                    split_of(&group(&id[..id.len() - 1])).1
                }
            }
            // The word by which the project manager of the original says that all work is done.
            Verdict::Complete => json!({ "verdict": "BAZINGA" }),
            Verdict::Criteria { failed } => {
                let code = i32::from(!failed.is_empty());
                json!({ "checks": [{
                    "name": "C1", "command": ["true"], "exit_code": code, "duration_ms": 1, "output_digest": "",
                    "output": "seen",
                }] })
            }
            Verdict::Developer(verdict) => {
                let word = match verdict {
                    DeveloperVerdict::ReadyForQa => "READY_FOR_QA",
                    DeveloperVerdict::ReadyForReview => "READY_FOR_REVIEW",
                    DeveloperVerdict::Blocked => "BLOCKED",
                };
                json!({
                    "verdict": word, "summary": "did it", "unit_tests": { "total": 1, "passed": 1, "failed": 0 },
                    "git": { "files": ["A.txt"], "commits": ["abc do it"] },
                })
            }
            Verdict::Qa(verdict) => {
                let word = match verdict {
                    QaVerdict::Pass => "PASS",
                    QaVerdict::Fail => "FAIL",
                    QaVerdict::Blocked => "BLOCKED",
                    QaVerdict::Flaky => "FLAKY",
                };
                json!({ "verdict": word, "findings": ["seen"], "e2e_tests": { "total": 1, "passed": 0, "failed": 1 } })
            }
            Verdict::TechLead(verdict) => match verdict {
                TechLeadVerdict::Approved => json!({
                    "verdict": "approved", "feedback": "good", "code_quality_score": 8.5, "security_issues_count": 0,
                }),
                TechLeadVerdict::ChangesRequested { blocking } => {
                    let issues: Vec<_> =
                        (0..*blocking).map(|_| json!({ "priority": "high", "title": "wrong" })).collect();
                    json!({ "verdict": "changes_requested", "feedback": "change it", "issues": issues })
                }
                TechLeadVerdict::Unblocked => json!({ "verdict": "unblocked", "feedback": "do this" }),
            },
            Verdict::Merge(MergeVerdict::Refused) => json!({ "gate_failure": true, "logs": ["conflict"] }),
            Verdict::Merge(MergeVerdict::Merged) => json!({ "logs": ["merged"] }),
            Verdict::FastForwarded | Verdict::Choice(_) => json!({}),
        };
        let expected = ReportIdentity {
            run_id: RunId::new("explored").expect("BUG: the name is safe"),
            step_id: Self::step_id(step),
            agent: step.agent().to_owned(),
        };
        let at = Timestamp::from_micros(1_750_000_000_000_000);
        Report::completed(&expected, at, fields.as_object().cloned().unwrap_or_default())
    }

    fn answer(_: &Definition, _: &Step, verdict: &Verdict) -> Answer {
        Answer::Choose { option: Self::describe_verdict(verdict), reason: Some("because".to_owned()) }
    }

    fn describe_verdict(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Plan(_) => "plan",
            Verdict::Complete => "complete",
            Verdict::Criteria { failed } if failed.is_empty() => "criteria pass",
            Verdict::Criteria { .. } => "criteria fail",
            Verdict::FastForwarded => "fast-forwarded",
            Verdict::Developer(DeveloperVerdict::ReadyForQa) => "ready for qa",
            Verdict::Developer(DeveloperVerdict::ReadyForReview) => "ready for review",
            Verdict::Developer(DeveloperVerdict::Blocked) | Verdict::Qa(QaVerdict::Blocked) => "blocked",
            Verdict::Qa(QaVerdict::Pass) => "pass",
            Verdict::Qa(QaVerdict::Fail) => "fail",
            Verdict::Qa(QaVerdict::Flaky) => "flaky",
            Verdict::TechLead(TechLeadVerdict::Approved) => "approved",
            Verdict::TechLead(TechLeadVerdict::ChangesRequested { blocking: 0 }) => "changes",
            Verdict::TechLead(TechLeadVerdict::ChangesRequested { .. }) => "blocking changes",
            Verdict::TechLead(TechLeadVerdict::Unblocked) => "unblocked",
            Verdict::Merge(MergeVerdict::Merged) => "merged",
            Verdict::Merge(MergeVerdict::Refused) => "merge refused",
            Verdict::Choice(Choice::Split) => "split",
            Verdict::Choice(Choice::Continue) => "continue",
            Verdict::Choice(Choice::Skip) => "skip",
            Verdict::Choice(Choice::Fail) => "fail",
            Verdict::Choice(Choice::Accept) => "accept",
        }
        .to_owned()
    }

    fn describe_step(definition: &Definition, state: &State, step: &Step) -> StepNotation {
        let symbol = match Self::step_status(definition, state, step) {
            StepStatus::Succeeded => "✓",
            StepStatus::Skipped => "-",
            StepStatus::Failed => "✗",
            StepStatus::Unfinished => "·",
        };
        let note = match step {
            Step::Group(id, Role::Developer) => {
                let group = &state.groups[id];
                // The turns that are left of the developer, of QA and of the review.
                format!(
                    " {} d{}q{}r{}",
                    stage_word(group.stage),
                    group.left.developer,
                    group.left.qa,
                    group.left.review
                )
            }
            Step::Group(..) | Step::Pm(_) => String::new(),
        };
        StepNotation { symbol, note }
    }

    fn describe_change(change: &Change) -> String {
        match change {
            Change::Planned { work, .. } => format!("{} groups", work.groups.len()),
            Change::Replaced { group, .. } => format!("{group} replaced"),
            Change::Moved { group, to, .. } => format!("{group} → {}", stage_word(*to)),
            Change::Asked { group, reason, .. } => format!("{group} asks: {}", reason_word(*reason)),
            Change::Chosen { group, choice } => {
                format!("{group} {}", Self::describe_verdict(&Verdict::Choice(*choice)))
            }
            Change::CriteriaRan { failed } => format!("{} criteria fail", failed.len()),
            Change::Refused { .. } => "completion refused".to_owned(),
            Change::CompletionAsked => "check asks".to_owned(),
            Change::CompletionChosen { choice } => Self::describe_verdict(&Verdict::Choice(*choice)),
            Change::Accepted => "completion accepted".to_owned(),
            Change::FastForwarded => "fast-forwarded".to_owned(),
            Change::Failed { step } => format!("{step} failed"),
            Change::Retried { step } => format!("{step} again"),
            Change::Imported { .. } => "imported".to_owned(),
        }
    }

    fn document_differences(
        run: &Run,
        TypedMachine { state, document, .. }: &TypedMachine<Self>,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        for (id, group) in &state.groups {
            match document.groups.get(id) {
                Some(shown) if (shown.stage, shown.progress) == (group.stage, group.progress) => {}
                shown => differences.push(format!("group `{id}` is {group:?} and shown as {shown:?}")),
            }
        }
        let live: BTreeSet<_> = run.live_attempts().map(|(attempt, _)| attempt.step).collect();
        let shown: BTreeSet<_> = document.run.active.keys().cloned().collect();
        if live != shown {
            differences.push(format!("{shown:?} are shown as active, {live:?} are"));
        }
        differences
    }

    fn check_rules(definition: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        let mut violations = Vec::new();
        let state = transition.state_after();
        if transition.after.status == RunStatus::Finished(Outcome::Succeeded) {
            let open = state.groups.values().any(|group| !group.is_done());
            if open || state.final_stage != FinalStage::FastForwarded {
                violations.push(Violation::new("a run succeeds when all groups are done", "one is open"));
            }
        }
        for attempt in transition.started() {
            if let Step::Group(id, role @ (Role::Developer | Role::Qa | Role::TechLead)) =
                transition.step(&attempt.step)
            {
                let group = &state.groups[&id];
                let starts_early = group.after.iter().any(|needed| !state.groups[needed].is_done());
                if starts_early {
                    violations.push(Violation::new(
                        "a group starts after what it needs",
                        format!("`{id}` {role:?}"),
                    ));
                }
            }
        }
        let working = state.groups.keys().filter(|id| {
            let has_turn = |role: Role| {
                transition.after.active_turns.contains_key(&Self::step_id(&Step::Group((*id).clone(), role)))
            };
            has_turn(Role::Developer) || has_turn(Role::Qa) || has_turn(Role::TechLead)
        });
        if working.count() > usize::from(definition.limits.groups.get()) {
            violations.push(Violation::new("no more groups at once than the limit", "there are"));
        }
        violations
    }
}

fn stage_word(stage: Stage) -> &'static str {
    match stage {
        Stage::Develop(DevelopReason::New) => "new",
        Stage::Develop(DevelopReason::QaFailed) => "qa failed",
        Stage::Develop(DevelopReason::ChangesRequested) => "changes requested",
        Stage::Develop(DevelopReason::Unblocked) => "unblocked",
        Stage::Test => "test",
        Stage::Review => "review",
        Stage::Unblock(Blocked::Developer) => "developer blocked",
        Stage::Unblock(Blocked::Qa) => "qa blocked",
        Stage::Unblock(Blocked::Flaky) => "flaky",
        Stage::Merge => "approved",
        Stage::Complete => "complete",
    }
}

fn reason_word(reason: DecisionReason) -> &'static str {
    match reason {
        DecisionReason::Developer => "developer turns",
        DecisionReason::Qa => "qa turns",
        DecisionReason::Review => "reviews",
        DecisionReason::NoProgress => "no progress",
        DecisionReason::TechLead => "tech lead failed",
        DecisionReason::Merge => "merge failed",
        DecisionReason::Imported => "imported",
    }
}
