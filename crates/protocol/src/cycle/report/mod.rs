//! The reports of the four agents: their fields, their forms, and how each is read as a verdict.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

mod fields;
mod form;
mod phase_result;
mod plan;
mod test_counts;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub(super) use fields::{
    AnalystFields, CommonFields, DeveloperFields, PhaseStatus, PlannerFields, ReportedDecision,
    ValidatorFields, percent,
};
pub(super) use form::form;
pub use phase_result::{PhaseResult, phase_result};
pub(super) use plan::{planned_tasks, tasks_with_known_status};
pub(super) use test_counts::{TestCounts, count_tests, coverage};

use super::document::{Document, TaskStatus};
use super::layout;
use super::step::{Completeness, Problems, Raised, RaisedKind, Role, Step, Verdict};
use crate::check::artifact_path_problem;
use crate::checks;
use crate::protocol_trait::ParsedReport;
use crate::report::{CopyEdit, Report, Status};

/// The report of an agent, typed by its step.
pub(super) enum AgentReport {
    Analyst(AnalystFields),
    /// Of `ep` and `ep.explore`.
    Planner(PlannerFields),
    Developer(DeveloperFields),
    /// Of `vas` and an agent's `vas.baseline`.
    Validator(ValidatorFields),
}

impl AgentReport {
    pub(super) fn common(&self) -> &CommonFields {
        match self {
            Self::Analyst(fields) => &fields.common,
            Self::Planner(fields) => &fields.common,
            Self::Developer(fields) => &fields.common,
            Self::Validator(fields) => &fields.common,
        }
    }
}

/// Reads the report of an agent's step. A field that the report leaves out is taken from the edited private copy that shows
/// it. Fails if the step has no agent, or a field is malformed.
pub(super) fn read(document: &Document, step: &Step, report: &Report) -> Result<AgentReport, String> {
    let mut agent_report = fields(step, report)?.ok_or_else(|| format!("`{step}` has no agent"))?;
    let text = |file| match copy_edit(document, report, file) {
        Some(CopyEdit::Text(text)) => Some(text.as_str()),
        Some(CopyEdit::Patch(_) | CopyEdit::Deleted | CopyEdit::Unreadable(_)) | None => None,
    };
    match &mut agent_report {
        AgentReport::Analyst(fields) => {
            if let Some(parsed) = text(layout::REQUIREMENTS).map(layout::parse_requirements) {
                fields.specification.get_or_insert(parsed.specification);
                fields.edge_cases.get_or_insert(parsed.edge_cases);
            }
        }
        AgentReport::Planner(fields) => {
            if let Some(parsed) = text(layout::EXPLORATION).map(layout::parse_exploration) {
                fields.architecture_summary.get_or_insert(parsed.architecture_summary);
                fields.integration_points.get_or_insert(parsed.integration_points);
                fields.identified_risks.get_or_insert(parsed.identified_risks);
            }
            if let Some(text) = text(layout::ARCHITECTURE) {
                fields.architecture.get_or_insert(layout::body_of(text).to_owned());
            }
            if let (None, Some(CopyEdit::Patch(patch))) =
                (&fields.tasks, copy_edit(document, report, layout::PLAN))
            {
                let current = document.file_or_blank(layout::PLAN);
                let mut plan: Value = serde_json::from_str(current).unwrap_or_default();
                json_patch::patch(&mut plan, patch)
                    .map_err(|error| format!("`plan.json` is unusable: {error}"))?;
                let tasks = plan.get("tasks").cloned().unwrap_or_default();
                fields.tasks = serde_json::from_value(tasks)
                    .map_err(|error| format!("the tasks of `plan.json` are malformed: {error}"))?;
            }
        }
        AgentReport::Developer(_) | AgentReport::Validator(_) => {}
    }
    Ok(agent_report)
}

/// Reads the fields of a report, without private copies; `None` if the step has no agent.
pub(super) fn fields(step: &Step, report: &Report) -> Result<Option<AgentReport>, String> {
    Ok(Some(match step {
        Step::Phase(Role::Analyst) => AgentReport::Analyst(parse_fields(report)?),
        Step::Phase(Role::Planner) | Step::Explore => AgentReport::Planner(parse_fields(report)?),
        Step::Phase(Role::Developer) | Step::Task(_) => AgentReport::Developer(parse_fields(report)?),
        Step::Phase(Role::Validator) | Step::Baseline => AgentReport::Validator(parse_fields(report)?),
        Step::Test | Step::Merge(_) | Step::Answer(_) | Step::FastForward => return Ok(None),
    }))
}

fn copy_edit<'a>(document: &Document, report: &'a Report, file: &str) -> Option<&'a CopyEdit> {
    report.copy_edits.get(&layout::progress_path(&document.master_file.cycle_id, file))
}

fn parse_fields<T: DeserializeOwned>(report: &Report) -> Result<T, String> {
    let fields = Value::Object(report.extra_fields.clone());
    serde_json::from_value(fields).map_err(|error| format!("Agent reported a malformed field: {error}"))
}

/// Reads a report as the verdict of its step.
pub(super) fn parse(document: &Document, step: &Step, report: &Report) -> ParsedReport<Verdict> {
    if report.status == Status::Failed
        && let Ok(Some(verdict)) = blocked(step, report)
    {
        return ParsedReport::Verdict(verdict);
    }
    ParsedReport::of(report, || verdict(document, step, report))
}

/// Returns the verdict of an agent that has reported a blocker for its own phase, even if other fields are missing; `None` if
/// there is no such blocker.
fn blocked(step: &Step, report: &Report) -> Result<Option<Verdict>, String> {
    let (Some(agent_report), Some(role)) = (fields(step, report)?, step.role()) else { return Ok(None) };
    check_fields(&agent_report)?;
    let raised = raised(step, role, agent_report.common());
    let is_own_blocker = |raised: &Raised| raised.kind == RaisedKind::Blocker && raised.needed_by == role;
    Ok(match step {
        _ if !raised.iter().any(is_own_blocker) => None,
        Step::Phase(_) | Step::Task(_) => Some(Verdict::Blocked { raised }),
        Step::Explore => Some(Verdict::Explored { raised }),
        Step::Baseline | Step::Test | Step::Merge(_) | Step::Answer(_) | Step::FastForward => None,
    })
}

fn verdict(document: &Document, step: &Step, report: &Report) -> Result<Verdict, String> {
    match step {
        Step::Test => {
            let results = checks::results(report)?;
            return Ok(Verdict::Tested {
                problems: Problems::some_if(results.iter().any(|result| !result.passed())),
            });
        }
        Step::Baseline => return Ok(Verdict::BaselineTested),
        Step::Merge(_) => return Ok(if report.gate_failure { Verdict::Conflict } else { Verdict::Merged }),
        Step::FastForward => return Ok(Verdict::FastForwarded),
        Step::Phase(_) | Step::Explore | Step::Task(_) | Step::Answer(_) => {}
    }
    let blocked = blocked(step, report)?;
    let report = read(document, step, report)?;
    check_fields(&report)?;
    let role = step.role().unwrap_or(Role::Analyst);
    let raised = raised(step, role, report.common());
    let is_partial = report.common().phase_status == PhaseStatus::Partial;
    let completeness = |is_complete: bool| match is_complete && !is_partial {
        true => Completeness::Complete,
        false => Completeness::Incomplete,
    };
    Ok(match report {
        AgentReport::Analyst(fields) => {
            let has_text = fields.specification.as_ref().is_some_and(|text| !text.trim().is_empty());
            let has_requirements = document.master_file.requirements.is_some();
            let is_confirmed = fields.unchanged && has_requirements;
            match blocked {
                _ if has_text || is_confirmed => Verdict::Specified { raised },
                Some(blocked) => blocked,
                None => return Err("Agent reported completion without the field `specification`".to_owned()),
            }
        }
        AgentReport::Planner(_) if *step == Step::Explore => Verdict::Explored { raised },
        AgentReport::Planner(fields) => {
            let tasks = match (&fields.tasks, &document.master_file.plan) {
                (Some(tasks), plan) => tasks_with_known_status(tasks, plan.as_ref())?,
                (None, Some(plan)) if fields.unchanged => plan.tasks.clone(),
                (None, _) => {
                    let missing = "Agent reported completion without the field `tasks`";
                    return blocked.ok_or_else(|| missing.to_owned());
                }
            };
            Verdict::Planned { tasks: planned_tasks(&tasks), completeness: completeness(true), raised }
        }
        AgentReport::Developer(fields) => {
            if let Some(blocked) = blocked.filter(|_| fields.is_empty()) {
                return Ok(blocked);
            }
            let known = document.master_file.plan.iter().flat_map(|plan| &plan.tasks);
            let is_done = |id: &String| fields.tasks_completed.contains(id);
            let is_complete = match step.task() {
                Some(task) => is_done(&task.to_string()),
                None => known.clone().all(|task| task.status == TaskStatus::Completed || is_done(&task.id)),
            };
            let problems = Problems::some_if(!fields.issues.is_empty());
            Verdict::Coded { completeness: completeness(is_complete), problems, raised }
        }
        AgentReport::Validator(fields) => {
            if let Some(blocked) = blocked.filter(|_| fields.is_empty()) {
                return Ok(blocked);
            }
            let has_problems =
                !fields.failed_tests.is_empty() || !fields.critical_issues.is_empty() || is_partial;
            Verdict::Validated { problems: Problems::some_if(has_problems), raised }
        }
    })
}

/// Returns the decisions and blockers of a report, each with the phase that waits for it. By default a decision holds up the
/// next phase, and a blocker the phase that reports it.
fn raised(step: &Step, role: Role, common: &CommonFields) -> Vec<Raised> {
    // `ep.explore` is over when the answer comes: `ep` itself needs it.
    let next = if *step == Step::Explore { role } else { role.next() };
    let decisions = common
        .decisions
        .iter()
        .map(|decision| Raised { kind: RaisedKind::Decision, needed_by: decision.needed_by.unwrap_or(next) });
    let blockers = common
        .blockers
        .iter()
        .map(|blocker| Raised { kind: RaisedKind::Blocker, needed_by: blocker.needed_by().unwrap_or(role) });
    decisions.chain(blockers).collect()
}

/// Checks what the types of the fields do not say.
fn check_fields(report: &AgentReport) -> Result<(), String> {
    for ReportedDecision { description, options, recommended, .. } in &report.common().decisions {
        if options.is_empty() {
            return Err(format!("the decision `{description}` has no options"));
        }
        if let Some(recommended) = recommended
            && !options.contains(recommended)
        {
            return Err(format!("`{recommended}` is not an option of the decision `{description}`"));
        }
    }
    let AgentReport::Developer(fields) = report else { return Ok(()) };
    for file in fields.changes.iter().map(|change| &change.file).chain(&fields.files_modified) {
        if let Some(problem) = artifact_path_problem(file) {
            return Err(format!("the changed file `{file}` {problem}"));
        }
    }
    Ok(())
}

/// Checks the fields of a report without its run, so that `callboard report` can refuse it at once.
pub(super) fn check(step: &Step, report: &Report) -> Result<(), String> {
    if report.status == Status::Failed {
        return Ok(());
    }
    match fields(step, report)? {
        Some(agent_report) => check_fields(&agent_report),
        None => Ok(()),
    }
}
