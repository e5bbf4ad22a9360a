//! Imports a document: determines the state of a run that starts with it. The document is the master file,
//! `.workflow/.cycle/ID.json`, of another run or another program.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::check;
use super::decide::{AnsweredBy, Change, decide_imported};
use super::definition::Definition;
use super::document::{
    AgentStatus, BlockerStatus, DecisionStatus, Document, MasterFile, Status, TaskStatus, times,
};
use super::layout::{self, Heading};
use super::report::{TestCounts, planned_tasks};
use super::state::{Finding, Stage};
use super::step::{RaisedItem, Role, Step, needed_by};
use crate::check::artifact_path_problem;
use crate::protocol_trait::{ImportRefusal, Move};
use crate::{StepId, StepRecordStatus};

/// The key of a document to import that has the files under `.progress/`, by path. The master file never has it.
pub const PROGRESS_FILES_KEY: &str = "found_files";

/// The most iterations of an imported document. Each becomes a change, so an absurd number would exhaust the memory.
const MAX_ITERATIONS: u32 = 10_000;

pub(super) fn import(definition: &Definition, document: &Value) -> Result<Move<Change, Step>, ImportRefusal> {
    let violations = check(document);
    if !violations.is_empty() {
        return Err(ImportRefusal::Invalid(violations));
    }
    let master_file: MasterFile = serde_json::from_value(document.clone())
        .map_err(|error| ImportRefusal::Unusable(format!("it cannot be read: {error}")))?;
    if master_file.current_iteration > MAX_ITERATIONS || master_file.max_iterations > MAX_ITERATIONS {
        let count = master_file.current_iteration.max(master_file.max_iterations);
        return Err(ImportRefusal::Unusable(format!("it has an implausible number of iterations: {count}")));
    }
    Ok(decide_imported(definition, changes(definition, &master_file)))
}

/// Returns the changes that lead from a new cycle to the state that the document describes.
fn changes(definition: &Definition, master_file: &MasterFile) -> Vec<Change> {
    let mut changes = Vec::new();
    if master_file.max_iterations > 0 && master_file.max_iterations != definition.max_iterations {
        changes.push(Change::LimitRaised { to: master_file.max_iterations });
    }
    for number in 1..=master_file.current_iteration {
        changes.push(Change::IterationOpened { number, extension: false, has_bugs: false });
    }
    let is_done = |role: Role| master_file.completed_phases.iter().any(|phase| phase == role.as_str());
    for (number, decision) in (1..).zip(&master_file.coordination.pending_decisions) {
        let (item, needed_by) = (RaisedItem::Decision(number), needed_by(&decision.unknown));
        changes.push(Change::Raised { item, needed_by });
        let (is_answered, is_implemented) = match decision.status {
            DecisionStatus::Pending => (false, false),
            // The phase that needs it implements it. After that phase it counts as implemented, because it would cost
            // another iteration otherwise.
            DecisionStatus::Made => (true, is_done(needed_by)),
            DecisionStatus::Implemented => (true, true),
        };
        changes.extend(is_answered.then_some(Change::Answered { item, by: AnsweredBy::Person }));
        changes.extend(is_implemented.then_some(Change::Implemented { item }));
    }
    for (number, blocker) in (1..).zip(&master_file.coordination.blockers) {
        let item = RaisedItem::Blocker(number);
        changes.push(Change::Raised { item, needed_by: needed_by(&blocker.unknown) });
        if blocker.status != BlockerStatus::Open {
            changes.push(Change::Answered { item, by: AnsweredBy::Person });
            changes.push(Change::Implemented { item });
        }
    }
    let next_stages = [
        (Role::Analyst, Stage::Planning),
        (Role::Planner, Stage::Coding),
        (Role::Developer, Stage::after_code(definition)),
        (Role::Validator, Stage::Aggregation),
    ];
    for (role, stage) in next_stages.into_iter().take_while(|(role, _)| is_done(*role)) {
        if master_file.current_iteration == 0 {
            break;
        }
        if role == Role::Planner && definition.parallel > 1 && !is_done(Role::Developer) {
            let tasks = master_file.plan.as_ref().map(|plan| planned_tasks(&plan.tasks)).unwrap_or_default();
            if tasks.len() > 1 {
                changes.push(Change::TasksPlanned { tasks });
            }
        }
        changes.push(Change::PhaseDone { stage });
    }
    let tests_fail =
        master_file.test_results.as_ref().is_some_and(|results| !results.failed_tests.is_empty());
    if is_done(Role::Validator) && tests_fail {
        changes.push(Change::Found { finding: Finding::FailingTests });
    }
    let plan_is_open =
        master_file.plan.iter().flat_map(|plan| &plan.tasks).any(|task| task.status != TaskStatus::Completed);
    if is_done(Role::Developer) && plan_is_open {
        changes.push(Change::Found { finding: Finding::IncompletePlan });
    }
    match master_file.status {
        Status::Completed => changes.push(Change::Completed),
        Status::Failed => changes.push(Change::Stopped),
        Status::Created | Status::Running | Status::Paused => {}
    }
    changes
}

/// Replaces the document's master file by an imported one. Agents that it shows as running become waiting if their step is
/// queued, else idle. Decisions and blockers get the ids of the engine. Missing files are written from the sections.
pub(super) fn replace_master_file(document: &mut Document, imported: &Value) {
    let Ok(mut state) = serde_json::from_value::<MasterFile>(imported.clone()) else { return };
    state.cycle_id.clone_from(&document.master_file.cycle_id);
    state.updated_at.clone_from(&document.master_file.updated_at);
    if state.max_iterations == 0 {
        state.max_iterations = document.master_file.max_iterations;
    }
    // Whether the run is paused follows from its own entry, not from the imported document.
    let is_paused = document.master_file.status == Status::Paused;
    if state.status == Status::Created && state.current_iteration > 0
        || state.status == Status::Paused && !is_paused
    {
        state.status = Status::Running;
    }
    let rename = |id: &mut String, item: RaisedItem, unknown: &mut serde_json::Map<String, Value>| {
        if *id != item.id() {
            unknown.entry("original_id").or_insert_with(|| id.clone().into());
            *id = item.id();
        }
    };
    for (number, decision) in (1..).zip(&mut state.coordination.pending_decisions) {
        rename(&mut decision.id, RaisedItem::Decision(number), &mut decision.unknown);
    }
    for (number, blocker) in (1..).zip(&mut state.coordination.blockers) {
        rename(&mut blocker.id, RaisedItem::Blocker(number), &mut blocker.unknown);
    }
    for role in Role::ALL {
        let is_queued = document.engine.steps.iter().any(|(id, step)| {
            step.record.status == StepRecordStatus::Pending
                && *id == StepId::new(role.as_str()).expect("BUG: a safe name")
        });
        let agent = state.agents.of_mut(role);
        match agent.status {
            AgentStatus::Running | AgentStatus::Waiting | AgentStatus::Idle | AgentStatus::Failed
                if is_queued =>
            {
                agent.status = AgentStatus::Waiting;
            }
            AgentStatus::Running => agent.status = AgentStatus::Idle,
            AgentStatus::Waiting | AgentStatus::Idle | AgentStatus::Completed | AgentStatus::Failed => {}
        }
    }
    if let Some(created) = times::parse(&state.created_at) {
        document.engine.created_at = created;
    }
    // Recording the changes of the import has written files, which are not those of the imported cycle.
    document.files.clear();
    document.logs.clear();
    if let Some(Value::Object(files)) = state.unknown.shift_remove(PROGRESS_FILES_KEY) {
        copy_files(document, files);
    }
    document.master_file = state;
    write_missing_files(document);
}

/// Copies the files that were found under `.progress/` unchanged.
fn copy_files(document: &mut Document, files: serde_json::Map<String, Value>) {
    for (path, text) in files {
        let Value::String(text) = text else { continue };
        // `feedback.md` is written from `feedback_log`.
        if artifact_path_problem(&path).is_some() || path == layout::FEEDBACK {
            continue;
        }
        if path.ends_with(".log") || path.ends_with(".ndjson") || path == layout::TIMELINE {
            document.logs.entry(path).or_default().insert(0, text);
        } else {
            document.files.insert(path, text);
        }
    }
}

/// Writes the files that are missing for the sections of the master file.
fn write_missing_files(document: &mut Document) {
    let state = &document.master_file;
    let iteration = state.current_iteration;
    let page = |title, version, updated, body: &str| {
        let heading = Heading { title, version, previous: None, iteration, updated, summary: "imported" };
        layout::page(&heading, body)
    };
    let mut files = Vec::new();
    if let Some(section) = &state.requirements {
        let body = layout::requirements(section, "");
        let page = page("Requirements Specification", &section.version, &section.last_updated, &body);
        files.push((layout::REQUIREMENTS, page));
    }
    if let Some(section) = &state.exploration {
        let body = layout::exploration(section);
        let page = page("Exploration", &section.version, &section.last_updated, &body);
        files.push((layout::EXPLORATION, page));
    }
    if let Some(section) = &state.plan {
        files.push((layout::PLAN, layout::plan(section)));
    }
    if let Some(section) = &state.test_results {
        let failed = section.failed_tests.len() as u64;
        let counts = TestCounts { passed: section.total_tests.saturating_sub(failed), failed, skipped: 0 };
        let body = layout::test_results(section, iteration, counts, &[], &Value::Null);
        files.push((layout::TEST_RESULTS, body));
    }
    let mut log: BTreeMap<u32, String> = BTreeMap::new();
    if let Some(changes) = &state.changes {
        for change in &changes.changes {
            log.entry(change.iteration).or_default().push_str(&layout::change_line(change));
        }
        for (iteration, time) in &changes.iteration_markers {
            let Ok(iteration) = iteration.parse() else { continue };
            log.entry(iteration).or_default().push_str(&layout::marker_line(iteration, time));
        }
    }
    if !log.is_empty() {
        document.logs.entry(layout::CHANGES.to_owned()).or_insert(log);
    }
    for (path, body) in files {
        document.files.entry(path.to_owned()).or_insert(body);
    }
}
