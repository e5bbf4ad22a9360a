//! The brief of a step, and the verdict of its report.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::definition::Definition;
use super::document::Document;
use super::workflow::{StepEffect, StepSpec};
use crate::StepId;
use crate::brief::{Brief, Upstream, Worktree};
use crate::people::{Answer, Question};
use crate::report::{self, Report};
use crate::rules::{Effect, ParsedReport};

/// The possible verdicts of a report or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Done,
    /// The gate failed: the run loops back.
    GateFailed,
    /// A person rejected what was done, and the step is not a gate.
    Rejected,
}

pub(super) fn parse_report(definition: &Definition, step: &StepId, report: &Report) -> ParsedReport<Verdict> {
    // A step without `loop_back_to` is not a gate, and its `gate_failure` is ignored.
    let is_gate = definition.step(step).loop_back_to.is_some();
    match report.status {
        report::Status::Completed if is_gate && report.gate_failure => {
            ParsedReport::Verdict(Verdict::GateFailed)
        }
        report::Status::Completed => ParsedReport::Verdict(Verdict::Done),
        report::Status::Failed => ParsedReport::Failed(match report.logs.last() {
            Some(last) => format!("Agent reported failure: {last}"),
            None => "Agent reported failure".to_owned(),
        }),
    }
}

/// Returns what a person is asked: the prompt, if the step has one.
/// Returns the steps whose results a step needs. Those of a merged step are its own, not those of the merge.
fn worked_on<'d>(definition: &'d Definition, step: &'d StepSpec) -> impl Iterator<Item = &'d StepId> {
    step.needs.iter().map(|need| match &definition.step(need).effect {
        Some(StepEffect::Merge(merged)) => merged,
        Some(StepEffect::FastForward) | None => need,
    })
}

pub(super) fn question(definition: &Definition, id: &StepId) -> Option<Question> {
    let step = definition.step(id);
    if !step.is_for_person() {
        return None;
    }
    let prompt = definition.prompt(id).trim();
    let needs: Vec<_> = worked_on(definition, step).map(|need| format!("`{need}`")).collect();
    Some(Question::approval(match (prompt, needs.as_slice()) {
        ("", []) => format!("May the run go on after `{id}`?"),
        ("", needs) => format!("Do you approve what {} did?", needs.join(" and ")),
        (prompt, _) => prompt.to_owned(),
    }))
}

pub(super) fn parse_answer(definition: &Definition, id: &StepId, answer: &Answer) -> Result<Verdict, String> {
    let step = definition.step(id);
    match answer {
        _ if !step.is_for_person() => Err(format!("`{id}` asks no person")),
        Answer::Approve => Ok(Verdict::Done),
        Answer::Reject { .. } if step.loop_back_to.is_some() => Ok(Verdict::GateFailed),
        Answer::Reject { .. } => Ok(Verdict::Rejected),
        Answer::Choose { .. } | Answer::Resolve { .. } | Answer::Workaround { .. } | Answer::Text { .. } => {
            Err(format!("`{id}` asks for an approval: answer `approve` or `reject --reason WHY`"))
        }
    }
}

pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    id: &StepId,
    counted_attempt: u32,
) -> Brief {
    let step = definition.step(id);
    let step_document = document.steps.get(id.as_str());
    let upstream = worked_on(definition, step).filter_map(|need| {
        let needed = document.steps.get(need.as_str())?;
        Some(Upstream {
            step: need.to_string(),
            artifacts: needed.artifacts.clone(),
            logs: needed.logs.clone(),
        })
    });
    Brief {
        workflow: definition.workflow().name.clone(),
        model: step.model.clone(),
        timeout: step.timeout,
        counted_attempt,
        last_error: step_document.and_then(|document| document.last_error.clone()),
        upstream: upstream.collect(),
        iteration: step_document.map_or(0, |document| document.iteration_count) + 1,
        gate: step.loop_back_to.is_some(),
        findings: document.findings.get(id.as_str()).cloned().unwrap_or_default(),
        worktree: step.worktree.then(|| Worktree { name: id.clone(), branch: None }),
        ..Brief::new(&step.agent, definition.prompt(id), definition.max_attempts(id))
    }
}

/// Returns the effect of a step that the engine performs.
pub(super) fn effect(effect: &StepEffect) -> Effect {
    match effect {
        StepEffect::Merge(step) => Effect { name: "merge", arguments: json!({ "worktree": step }) },
        StepEffect::FastForward => Effect { name: "fast-forward", arguments: json!({}) },
    }
}
