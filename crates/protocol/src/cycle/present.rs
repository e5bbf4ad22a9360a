//! How a run of `cycle` is shown to people and in `--json`.
//!
//! Each iteration has four phases, one for each role: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas`
//! validates.

use serde_json::{Map, Value, json};

use super::decide::{AnsweredBy, Change, Request};
use super::definition::{Definition, MergeMode};
use super::document::{BlockerStatus, DecisionStatus, Document, Iteration, Status};
use super::state::{Stage, State};
use super::step::{Problems, RaisedItem, Role, Step, Verdict};
use super::{Cycle, brief, check, layout, report};
use crate::present::{FileFormat, Line, Present, StepSummary, StepTable, StepTableRow, Tone};
use crate::prompt::PromptTemplate;
use crate::protocol_trait::{Never, StepStatus};
use crate::report::Report;
use crate::{RunId, StepId, StepRecord, StepRecordStatus, Timestamp};

/// Returns the name of what works on a step: a role, `engine` or `person`.
pub(super) fn agent(step: &Step) -> &'static str {
    match step {
        Step::Test | Step::Merge(_) | Step::FastForward => "engine",
        Step::Answer(_) => "person",
        Step::Phase(_) | Step::Explore | Step::Baseline | Step::Task(_) => {
            step.role().map_or("engine", Role::as_str)
        }
    }
}

impl Present for Cycle {
    const STEP_NOUNS: (&'static str, &'static str) = ("phase", "phases");
    const STEPS_KEY: &'static str = "agents";
    const START_COMMAND: &'static str = "callboard cycle";
    const START_ARGUMENT: &'static str = "task";
    const CAN_RETRY: bool = true;
    const IMPORT_CAN_RENAME: bool = false;
    const PROMPTS: &'static [PromptTemplate] = brief::TEMPLATES;
    const VIEW_PATTERNS: &'static [&'static str] = &[layout::VIEWS];
    const REHEARSAL_SCRIPT_STEPS: &'static [&'static str] = &["ra", "ep", "cd", "vas"];
    const FORMATS: &'static [FileFormat] = check::FORMATS;

    fn agent(_: &Definition, _: &State, step: &Step) -> String {
        agent(step).to_owned()
    }

    fn needs(definition: &Definition, state: &State, step: &Step) -> Vec<Step> {
        // The steps `Explore` and `Baseline` exist only with this option.
        let overlaps = state.steps(definition).contains(&Step::Explore);
        let if_overlapping = |step: Step| overlaps.then_some(step);
        let last_coding_steps: Vec<_> = match state.tasks.is_empty() {
            true => vec![Step::Phase(Role::Developer)],
            false => state.tasks.keys().map(|task| Step::Merge(task.clone())).collect(),
        };
        match step {
            Step::Phase(Role::Analyst) | Step::Explore | Step::Answer(_) => Vec::new(),
            Step::Phase(Role::Planner) => {
                if_overlapping(Step::Explore).into_iter().chain([Step::Phase(Role::Analyst)]).collect()
            }
            Step::Baseline => vec![Step::Phase(Role::Analyst)],
            Step::Phase(Role::Developer) | Step::Task(_) => {
                let mut needs: Vec<_> =
                    if_overlapping(Step::Baseline).into_iter().chain([Step::Phase(Role::Planner)]).collect();
                if let Step::Task(task) = step {
                    let depends = state.tasks.get(task).into_iter().flat_map(|task| task.depends_on.clone());
                    needs.extend(depends.map(Step::Merge));
                }
                needs
            }
            Step::Merge(task) => vec![Step::Task(task.clone())],
            Step::Test => last_coding_steps,
            Step::Phase(Role::Validator) if definition.checks.is_empty() => last_coding_steps,
            Step::Phase(Role::Validator) => vec![Step::Test],
            Step::FastForward => vec![Step::Phase(Role::Validator)],
        }
    }

    fn unblocks_dependents(definition: &Definition, state: &State, step: &Step) -> bool {
        state.status(definition, step) == StepStatus::Succeeded
    }

    fn about(definition: &Definition, document: &Document) -> Vec<String> {
        let state = &document.master_file;
        let mut lines = vec![format!("iteration {} of {}", state.current_iteration, state.max_iterations)];
        let branch = match definition.merge_mode {
            MergeMode::InPlace => None,
            MergeMode::Branch | MergeMode::FastForward => Some(format!("branch cycle/{}", state.cycle_id)),
        };
        lines.extend(branch);
        lines
    }

    fn created_at(document: &Document) -> Timestamp {
        document.engine.created_at
    }

    fn step_summary(document: &Document, step: &Step) -> StepSummary {
        // A step that succeeded in an earlier iteration has not begun in this one.
        let record = document.step_of_iteration(step).cloned().unwrap_or_else(|| {
            // The cycle was imported or rebuilt, or the record is of an earlier iteration.
            let has_succeeded = match step {
                Step::Phase(role) => has_completed(document, *role),
                Step::Answer(item) => is_answered(document, *item),
                Step::Explore
                | Step::Baseline
                | Step::Test
                | Step::Task(_)
                | Step::Merge(_)
                | Step::FastForward => false,
            };
            let status = if has_succeeded { StepRecordStatus::Succeeded } else { StepRecordStatus::Pending };
            StepRecord { status, ..StepRecord::default() }
        });
        // A turn of a cycle is an iteration, not a loop-back.
        StepSummary { loop_backs: 0, ..record.summary() }
    }

    fn result(document: &Document) -> Vec<Line> {
        let state = &document.master_file;
        let mut lines = Vec::new();
        if let Some(results) = &state.test_results {
            let source = results.unknown.get("source").and_then(Value::as_str).unwrap_or("claim");
            let source = if source == "engine" { "run by the engine" } else { "as the agent says" };
            lines.push(Line::plain(format!(
                "tests: {} % of {} pass, {source}",
                results.pass_rate, results.total_tests
            )));
        }
        let has_ended = matches!(state.status, Status::Completed | Status::Failed);
        let last = state.iterations.last().filter(|_| has_ended);
        for issue in last.into_iter().flat_map(|iteration| &iteration.issues_found) {
            let first = issue.lines().next().unwrap_or_default();
            lines.push(Line::toned(Tone::Attention, "open: ").then(first));
        }
        // A failed step is listed with its error, which is the same reason.
        let is_listed =
            document.engine.steps.values().any(|step| step.record.status == StepRecordStatus::Failed);
        if let Some(reason) = state.failure_reason.as_ref().filter(|_| !is_listed) {
            lines.push(Line::toned(Tone::Bad, reason.clone()));
        }
        lines
    }

    fn result_fields(document: &Document) -> Map<String, Value> {
        let state = &document.master_file;
        let issues =
            state.iterations.last().map(|iteration| iteration.issues_found.clone()).unwrap_or_default();
        let fields = json!({
            "iteration": state.current_iteration, "max_iterations": state.max_iterations, "issues": issues,
            "failure_reason": state.failure_reason,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    fn failure_hint(_: &Definition, run: &RunId, document: &Document) -> String {
        match document.master_file.status {
            Status::Failed => format!("run `callboard retry {run}` to retry the failed phase"),
            Status::Created | Status::Running | Status::Paused | Status::Completed => {
                format!("run `callboard extend {run} \"MORE\" --max-iterations N` for another iteration")
            }
        }
    }

    fn step_table(definition: &Definition, state: &State, document: &Document) -> Option<StepTable<Step>> {
        let columns = Role::ALL.map(|role| role.to_string()).to_vec();
        let rows = document.master_file.iterations.iter().map(|iteration| {
            let is_current = iteration.number == state.iteration;
            let cells = Role::ALL.map(|role| is_current.then(|| step_of_cell(definition, state, role)));
            let results = (!is_current).then(|| phase_results(iteration));
            let issues = iteration.completed_at.as_ref().map(|_| match iteration.issues_found.len() {
                0 => "nothing open".to_owned(),
                1 => "1 open issue".to_owned(),
                count => format!("{count} open issues"),
            });
            let extension = iteration.extension.as_ref().map(|text| format!("extension: {text}"));
            let note: Vec<_> = results.into_iter().chain(issues).chain(extension).collect();
            let note = Some(note.join(", ")).filter(|note| !note.is_empty());
            StepTableRow { name: format!("iteration {}", iteration.number), cells: cells.to_vec(), note }
        });
        Some(StepTable { columns, rows: rows.collect() })
    }

    fn check_report(step: &StepId, report: &Report) -> Result<(), String> {
        match Step::parse(step) {
            Some(step) => report::check(&step, report),
            None => Ok(()),
        }
    }

    fn verdict_text(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Specified { .. } => "reported requirements",
            Verdict::Explored { .. } => "reported its exploration",
            Verdict::BaselineTested => "reported the test run before coding",
            Verdict::Planned { .. } => "reported a plan",
            Verdict::Coded { .. } => "reported code",
            Verdict::Blocked { .. } => "is blocked",
            Verdict::Merged => "merged the task",
            Verdict::Conflict => "reported a conflict",
            Verdict::Tested { problems: Problems::None } => "reported that the checks pass",
            Verdict::Tested { problems: Problems::Some } => "reported that checks fail",
            Verdict::Validated { problems: Problems::None, .. } => "reported that the code is valid",
            Verdict::Validated { problems: Problems::Some, .. } => "reported that tests fail",
            Verdict::Answered => "answered",
            Verdict::FastForwarded => "handled the base branch",
        }
    }

    fn change_line(change: &Change) -> Option<Line> {
        let plain = |text: String| Some(Line::plain(text));
        match change {
            Change::IterationOpened { number, .. } => {
                Some(Line::toned(Tone::Active, "↻").then(format!(" iteration {number} begins")))
            }
            Change::IterationClosed { resolved: true } => plain("the iteration is completed".to_owned()),
            Change::IterationClosed { resolved: false } => {
                Some(Line::toned(Tone::Attention, "!").then(" the iteration has open issues"))
            }
            Change::LimitRaised { to } => plain(format!("the iteration limit is {to}")),
            Change::Extended => plain("an extension is queued".to_owned()),
            Change::Raised { item, needed_by } => Some(
                Line::toned(Tone::Attention, "?").then(format!(" {} is needed by {needed_by}", item.id())),
            ),
            Change::Answered { item, by: AnsweredBy::Auto } => {
                plain(format!("{} was decided by the engine", item.id()))
            }
            Change::TaskMergeFailed { task } => {
                Some(Line::toned(Tone::Attention, "✗").then(format!(" {task} could not be merged")))
            }
            Change::Answered { by: AnsweredBy::Person, .. }
            | Change::Implemented { .. }
            | Change::PhaseDone { .. }
            | Change::OverlapStepEnded { .. }
            | Change::Repeated { .. }
            | Change::TasksPlanned { .. }
            | Change::TaskAsked { .. }
            | Change::TaskCoded { .. }
            | Change::TaskMerged { .. }
            | Change::Tested
            | Change::Found { .. }
            | Change::FastForwarding
            | Change::Completed
            | Change::Failed { .. }
            | Change::Stopped
            | Change::Retried => None,
        }
    }

    fn change_event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::IterationOpened { number, extension, .. } => {
                Some(("iteration_opened", json!({ "iteration": number, "extension": extension })))
            }
            Change::IterationClosed { resolved } => {
                Some(("iteration_closed", json!({ "resolved": resolved })))
            }
            Change::LimitRaised { to } => Some(("limit_raised", json!({ "max_iterations": to }))),
            Change::Raised { item, needed_by } => {
                let kind = match item {
                    RaisedItem::Decision(_) => "decision_raised",
                    RaisedItem::Blocker(_) => "blocker_raised",
                };
                Some((kind, json!({ "id": item.id(), "needed_by": needed_by })))
            }
            Change::Extended
            | Change::Answered { .. }
            | Change::Implemented { .. }
            | Change::PhaseDone { .. }
            | Change::OverlapStepEnded { .. }
            | Change::Repeated { .. }
            | Change::TasksPlanned { .. }
            | Change::TaskAsked { .. }
            | Change::TaskCoded { .. }
            | Change::TaskMerged { .. }
            | Change::TaskMergeFailed { .. }
            | Change::Tested
            | Change::Found { .. }
            | Change::FastForwarding
            | Change::Completed
            | Change::Failed { .. }
            | Change::Stopped
            | Change::Retried => None,
        }
    }

    fn request_text(Request::Extend { text, .. }: &Request) -> String {
        format!("extend: {}", text.lines().next().unwrap_or_default())
    }

    fn edit_summary(edit: &Never) -> String {
        match *edit {}
    }

    fn concerns(change: &Change, step: &StepId) -> bool {
        let Some(target) = Step::parse(step) else { return false };
        match change {
            Change::OverlapStepEnded { step } | Change::Repeated { step } | Change::Failed { step } => {
                *step == target
            }
            Change::Raised { item, .. } | Change::Answered { item, .. } | Change::Implemented { item } => {
                target == Step::Answer(*item)
            }
            Change::TaskAsked { task } | Change::TaskCoded { task, .. } => target == Step::Task(task.clone()),
            Change::TaskMerged { task } | Change::TaskMergeFailed { task } => {
                target == Step::Merge(task.clone())
            }
            // The stage is the next one, so the phase that is done is the one before it.
            Change::PhaseDone { stage } => match stage {
                Stage::Planning => target == Step::Phase(Role::Analyst),
                Stage::Coding => target == Step::Phase(Role::Planner),
                Stage::Test | Stage::Validation => target == Step::Phase(Role::Developer),
                Stage::Aggregation => target == Step::Phase(Role::Validator),
                Stage::Created | Stage::Requirements | Stage::FastForward | Stage::Complete => false,
            },
            Change::Tested => target == Step::Test,
            Change::IterationOpened { .. }
            | Change::LimitRaised { .. }
            | Change::Extended
            | Change::TasksPlanned { .. }
            | Change::Found { .. }
            | Change::IterationClosed { .. }
            | Change::FastForwarding
            | Change::Completed
            | Change::Stopped
            | Change::Retried => false,
        }
    }
}

/// Returns whether the document says that the phase of this iteration is completed.
fn has_completed(document: &Document, role: Role) -> bool {
    document.master_file.completed_phases.iter().any(|phase| phase == role.as_str())
}

fn is_answered(document: &Document, item: RaisedItem) -> bool {
    let coordination = &document.master_file.coordination;
    let id = item.id();
    match item {
        RaisedItem::Decision(_) => coordination
            .pending_decisions
            .iter()
            .any(|decision| decision.id == id && decision.status != DecisionStatus::Pending),
        RaisedItem::Blocker(_) => coordination
            .blockers
            .iter()
            .any(|blocker| blocker.id == id && blocker.status != BlockerStatus::Open),
    }
}

/// Returns how the phases of an earlier iteration ended: `✓ ra  ✓ ep  ! cd partial  ✓ vas`.
fn phase_results(iteration: &Iteration) -> String {
    let ended = Role::ALL.map(|role| {
        let status = iteration.agent_results.get(role.as_str()).map_or("pending", |result| &result.status);
        match status {
            "completed" => format!("✓ {role}"),
            "failed" => format!("✗ {role}"),
            other => format!("! {role} {other}"),
        }
    });
    ended.join("  ")
}

/// Returns the step that the table shows for a role in the current iteration: the step that the role works on, or else its phase.
fn step_of_cell(definition: &Definition, state: &State, role: Role) -> Step {
    let current = match role {
        Role::Planner if state.stage == Stage::Requirements => {
            state.steps(definition).into_iter().find(|step| *step == Step::Explore)
        }
        Role::Validator if state.stage < Stage::Coding => {
            state.steps(definition).into_iter().find(|step| *step == Step::Baseline)
        }
        Role::Validator if state.stage == Stage::Test => Some(Step::Test),
        Role::Developer => {
            let is_open = |step: &Step| state.status(definition, step) != StepStatus::Succeeded;
            let tasks =
                state.tasks.keys().flat_map(|task| [Step::Task(task.clone()), Step::Merge(task.clone())]);
            let mut tasks: Vec<_> = tasks.collect();
            let open = tasks.iter().position(is_open);
            open.map(|index| tasks.swap_remove(index)).or_else(|| tasks.pop())
        }
        Role::Analyst | Role::Planner | Role::Validator => None,
    };
    current.unwrap_or(Step::Phase(role))
}
