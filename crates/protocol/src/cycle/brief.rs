//! What each attempt is given: its prompt, the form of its report, its worktree and its checks.
//!
//! Findings, answers and decisions reach a prompt only as entries of `feedback_log`.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use std::fmt::Write as _;

use super::definition::{Definition, MergeMode};
use super::document::{Document, TaskStatus};
use super::layout;
use super::report::form;
use super::step::{Role, Step};
use crate::brief::{Brief, PrivateCopy, Worktree};
use crate::prompt::{PromptTemplate, UNTRUSTED, code_block, fill};
use crate::protocol_trait::StepKind;

const PLACEHOLDERS: &[&str] =
    &["cycle_id", "iteration", "max_iterations", "task", "assignment", "feedback", "context"];

/// The built-in prompts, in the order of the phases.
pub(super) const TEMPLATES: &[PromptTemplate] = &[
    PromptTemplate { role: "ra", text: include_str!("prompts/ra.md"), placeholders: PLACEHOLDERS },
    PromptTemplate { role: "ep", text: include_str!("prompts/ep.md"), placeholders: PLACEHOLDERS },
    PromptTemplate { role: "cd", text: include_str!("prompts/cd.md"), placeholders: PLACEHOLDERS },
    PromptTemplate { role: "vas", text: include_str!("prompts/vas.md"), placeholders: PLACEHOLDERS },
];

pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    step: &Step,
    counted_attempt: u32,
) -> Brief {
    let agent = super::present::agent(step);
    let prompt = step.role().map(|role| prompt(definition, document, step, role)).unwrap_or_default();
    let is_check = step.kind(definition) == StepKind::Command;
    Brief {
        workflow: document.master_file.title.clone(),
        timeout: definition.timeout,
        counted_attempt,
        last_error: document.step(step).and_then(|step| step.error.clone()),
        form: form(document, step),
        iteration: document.master_file.current_iteration.max(1),
        worktree: worktree(definition, step),
        checks: if is_check { definition.checks.clone() } else { Vec::new() },
        copies: copies(definition, document, step),
        ..Brief::new(agent, prompt, definition.max_attempts)
    }
}

/// Returns the worktree of a task; `None` for other steps, which work in the directory of the run.
fn worktree(definition: &Definition, step: &Step) -> Option<Worktree> {
    let task = step.task().filter(|_| definition.merge_mode != MergeMode::InPlace)?;
    Some(Worktree { name: worktree_name(task.as_str()), branch: None })
}

/// Returns the name of a task's worktree.
pub(super) fn worktree_name(task: &str) -> crate::StepId {
    crate::StepId::new(format!("cd.{task}")).expect("BUG: the id of a task fits into the id of a step")
}

/// Returns the private copies that the agent may edit instead of reporting fields; none in the user's checkout.
fn copies(definition: &Definition, document: &Document, step: &Step) -> Vec<PrivateCopy> {
    let uses_worktree = definition.merge_mode != MergeMode::InPlace;
    let files: &[&str] = if uses_worktree && *step == Step::Phase(Role::Analyst) {
        &[layout::REQUIREMENTS]
    } else if uses_worktree && *step == Step::Phase(Role::Planner) {
        &[layout::EXPLORATION, layout::ARCHITECTURE, layout::PLAN]
    } else {
        &[]
    };
    let copy = |file: &&str| PrivateCopy {
        path: layout::progress_path(&document.master_file.cycle_id, file),
        body: document.file_or_blank(file).to_owned(),
    };
    files.iter().map(copy).collect()
}

fn prompt(definition: &Definition, document: &Document, step: &Step, role: Role) -> String {
    let built_in = TEMPLATES.iter().find(|template| template.role == role.as_str());
    let built_in = built_in.map_or("", |template| template.text);
    let template = definition.templates.get(&role).map_or(built_in, String::as_str);
    let file = &document.master_file;
    let filled = fill(template, |name| match name {
        "cycle_id" => Some(file.cycle_id.clone()),
        "iteration" => Some(file.current_iteration.to_string()),
        "max_iterations" => Some(file.max_iterations.to_string()),
        "task" => Some(file.description.clone()),
        "assignment" => Some(assignment(document, step)),
        "feedback" => Some(feedback(document, role)),
        "context" => Some(context(document, step, role)),
        _ => None,
    });
    filled.trim_end().to_owned() + "\n"
}

fn assignment(document: &Document, step: &Step) -> String {
    let is_first = document.master_file.current_iteration <= 1;
    match step {
        Step::Phase(Role::Analyst) if is_first => "Write the requirements of the task.".to_owned(),
        Step::Phase(Role::Analyst) => {
            "Revise the requirements: take up the extension of the task and the feedback below, or confirm that nothing changes."
                .to_owned()
        }
        Step::Explore => {
            "Explore the repository while the requirements are being written. Do not plan yet.".to_owned()
        }
        Step::Phase(Role::Planner) => {
            "Complete the exploration and plan the work for the requirements below, as tasks.".to_owned()
        }
        Step::Phase(Role::Developer) => {
            "Carry out the open tasks of the plan, and fix the bugs that the feedback below names.".to_owned()
        }
        Step::Task(task) => format!(
            "Carry out the task `{task}` of the plan and nothing else. Other tasks are carried out at the same time in other worktrees."
        ),
        Step::Baseline => "Run the tests as they are now, before anything is changed, and report the figures.".to_owned(),
        Step::Phase(Role::Validator) => "Validate the code of this iteration against the requirements.".to_owned(),
        Step::Test | Step::Merge(_) | Step::Answer(_) | Step::FastForward => String::new(),
    }
}

/// Returns what `feedback_log` has for an agent in this iteration.
fn feedback(document: &Document, role: Role) -> String {
    let log = document.master_file.coordination.feedback_log.iter();
    let mut entries = log
        .filter(|entry| entry.target == role.as_str())
        .filter(|entry| entry.iteration == Some(document.master_file.current_iteration))
        .peekable();
    if entries.peek().is_none() {
        return "## Feedback\n\nThere is none.".to_owned();
    }
    let mut text = format!("## Feedback\n\n{UNTRUSTED}\n");
    for entry in entries {
        let (kind, body) = (entry.kind.as_str(), code_block("text", &entry.content));
        write!(text, "\nFrom {} ({kind}):\n\n{body}", entry.source).expect("BUG: a string takes all");
    }
    text.trim_end().to_owned()
}

/// Returns the sections of the document that the agent works from.
fn context(document: &Document, step: &Step, role: Role) -> String {
    let file = &document.master_file;
    let mut text = format!("## What there is so far\n\n{UNTRUSTED}\n");
    let mut show = |title: &str, body: String| {
        write!(text, "\n### {title}\n\n{body}").expect("BUG: a string takes all");
    };
    if let Some(requirements) = &file.requirements {
        let edge_cases: String = requirements.edge_cases.iter().map(|case| format!("- {case}\n")).collect();
        let body = format!("{}\n\n{edge_cases}", requirements.specification.trim_end());
        show(&format!("Requirements {}", requirements.version), code_block("markdown", &body));
    }
    if let (Role::Planner | Role::Developer, Some(exploration)) = (role, &file.exploration) {
        let body = serde_json::to_string_pretty(exploration).unwrap_or_default();
        show(&format!("Exploration {}", exploration.version), code_block("json", &body));
    }
    if let (Role::Planner | Role::Developer | Role::Validator, Some(plan)) = (role, &file.plan) {
        let mut shown = plan.clone();
        if role == Role::Developer {
            shown.tasks.retain(|task| match step.task() {
                Some(own_task) => task.id == own_task.as_str(),
                None => task.status != TaskStatus::Completed,
            });
        }
        let body = serde_json::to_string_pretty(&shown).unwrap_or_default();
        show(&format!("Plan {}", plan.version), code_block("json", &body));
    }
    if let (Role::Validator, Some(changes)) = (role, &file.changes) {
        let recent = changes.changes.iter().filter(|change| change.iteration == file.current_iteration);
        let body: String = recent.map(layout::change_line).collect();
        show("Changes of this iteration", code_block("json", &body));
    }
    text.trim_end().to_owned()
}
