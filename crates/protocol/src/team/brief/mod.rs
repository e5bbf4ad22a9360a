//! What each step is given: its prompt, the form of its report, its worktree and its private copies.

mod form;
mod questions;
mod tasks;

use std::time::Duration;

use form::form;
pub(super) use questions::question;
use serde_json::json;
use tasks::{messages, state, task};

use super::definition::{Definition, GroupId};
use super::document::Document;
use super::report::{command, copies, plan};
use super::step::{PmStep, Role, Step};
use crate::StepId;
use crate::brief::{Brief, TreeUse, Worktree};
use crate::checks::CheckSpec;
use crate::prompt::{PromptTemplate, code_block, fill};
use crate::protocol_trait::Effect;

const PLACEHOLDERS: &[&str] = &["request", "task", "state", "messages"];

/// The built-in prompts.
pub(super) const TEMPLATES: [PromptTemplate; 4] = [
    PromptTemplate {
        role: "project_manager",
        text: include_str!("../prompts/project_manager.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "developer",
        text: include_str!("../prompts/developer.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "qa_expert",
        text: include_str!("../prompts/qa_expert.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "tech_lead",
        text: include_str!("../prompts/tech_lead.md"),
        placeholders: PLACEHOLDERS,
    },
];

/// How long the command of a success criterion may take.
const CRITERION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Returns the brief of an attempt. `counted_attempt` is its number among those that count towards `max_attempts`.
pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    step: &Step,
    counted_attempt: u32,
) -> Brief {
    let step_record = document.step(step);
    let agent = step.agent();
    let template = TEMPLATES.iter().find(|template| template.role == agent);
    let prompt = template.map(|template| {
        let text = definition.prompts.get(agent).map_or(template.text, String::as_str);
        fill(text, |name| match name {
            "request" => Some(code_block("text", &definition.request)),
            "task" => Some(task(definition, document, step)),
            "state" => Some(state(document, step)),
            "messages" => Some(messages(document, step)),
            _ => None,
        })
    });
    let worktree = match step {
        // `Decision` included, because the person decides about the changes on the branch.
        Step::Group(id, Role::Developer | Role::Qa | Role::TechLead | Role::Decision) => {
            Some(worktree(document, id))
        }
        // Not the integration branch's, because other groups are merged into it while the project manager splits a group.
        Step::Pm(PmStep::Plan | PmStep::Check) => Some(Worktree { name: pm_worktree_name(), branch: None }),
        Step::Group(_, Role::Merge) | Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge) => None,
    };
    let tree_use = match step {
        Step::Group(_, Role::Developer) => TreeUse::Changes,
        Step::Group(_, Role::Qa | Role::TechLead) | Step::Pm(PmStep::Plan | PmStep::Check) => TreeUse::Reads,
        // No agent works on these: they are effects, questions, and the commands of the success criteria.
        Step::Group(_, Role::Merge | Role::Decision)
        | Step::Pm(PmStep::Criteria | PmStep::Decision | PmStep::Merge) => TreeUse::Changes,
    };
    Brief {
        workflow: "team".to_owned(),
        timeout: definition.timeout,
        counted_attempt,
        last_error: step_record.error.clone(),
        form: form(definition, document, step),
        iteration: step_record.turn.0.max(1),
        worktree,
        tree_use,
        list_branches_below: (agent == "project_manager").then_some(plan::BRANCH_PREFIX),
        checks: if *step == Step::Pm(PmStep::Criteria) { criteria_checks(document) } else { Vec::new() },
        copies: copies::private_copies(document, step),
        ..Brief::new(agent, prompt.unwrap_or_default(), definition.limits.attempts)
    }
}

/// Returns the name of the project manager's worktree. No group can have it.
fn pm_worktree_name() -> StepId {
    StepId::new("pm").expect("BUG: it is a step id")
}

fn worktree(document: &Document, id: &GroupId) -> Worktree {
    Worktree {
        name: id.step_id().clone(),
        branch: document.planned(id).map(|group| group.branch_name.clone()),
    }
}

/// Returns the commands of the success criteria as checks.
fn criteria_checks(document: &Document) -> Vec<CheckSpec> {
    let specs = document.plan.criteria.iter().filter_map(|record| {
        let command = command::argv(record.criterion.command.as_ref()?)?;
        Some(CheckSpec { name: record.criterion.id.clone(), command, timeout: CRITERION_TIMEOUT })
    });
    specs.collect()
}

/// Returns the git operation of a merge step.
pub(super) fn effect(document: &Document, step: &Step) -> Option<Effect> {
    match step {
        Step::Group(id, Role::Merge) => {
            let Worktree { name, branch } = worktree(document, id);
            // If the imported files claim that the group is complete, the base branch may have its work already.
            let is_claimed = document.groups.get(id).is_some_and(|group| group.claimed_complete);
            let arguments = json!({ "worktree": name, "branch": branch, "needs_commits": !is_claimed });
            Some(Effect { name: "merge", arguments })
        }
        Step::Pm(PmStep::Merge) => Some(Effect { name: "fast-forward", arguments: json!({}) }),
        Step::Pm(_) | Step::Group(..) => None,
    }
}
