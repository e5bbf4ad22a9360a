//! The brief of a step, and the verdict of its report.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::definition::Definition;
use super::document::Document;
use super::phases::Phase;
use super::phases::items;
use super::phases::loops::{are_paired, item_id};
use super::phases::when;
use super::workflow::{ENGINE, StepEffect, StepSpec};
use crate::StepId;
use crate::brief::{Brief, Upstream, Worktree};
use crate::checks::{self, CheckResult};
use crate::protocol_trait::{Effect, ParsedReport};
use crate::report::Report;

/// The possible verdicts of a report or an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Done,
    /// The gate failed: the run loops back.
    GateFailed,
    /// A person rejected what was done, and the step is not a gate.
    Rejected,
    /// A check failed, and the step is not a gate.
    ChecksFailed,
    /// The number of items of the data loop.
    Items(u32),
    /// A condition of `when` does not hold: the step is skipped.
    Skip,
}

pub(super) fn parse_report(
    definition: &Definition,
    document: &Document,
    step: &StepId,
    report: &Report,
) -> ParsedReport<Verdict> {
    match document.phase(definition, step) {
        Phase::Checks => parse_checks(definition, step, report),
        Phase::When => when::parse(document, definition.step(step), report),
        Phase::ReadItems => items::parse(definition.step(step), report),
        Phase::Conditions | Phase::WorkOnItems | Phase::Work | Phase::Approval | Phase::Approved => {
            parse_work(definition, step, report)
        }
    }
}

fn parse_checks(definition: &Definition, step: &StepId, report: &Report) -> ParsedReport<Verdict> {
    match checks::results(report) {
        Err(error) => ParsedReport::Invalid(error),
        Ok(results) if results.iter().all(CheckResult::passed) => ParsedReport::Verdict(Verdict::Done),
        Ok(_) if definition.step(step).loop_back_to.is_some() => ParsedReport::Verdict(Verdict::GateFailed),
        Ok(_) => ParsedReport::Verdict(Verdict::ChecksFailed),
    }
}

fn parse_work(definition: &Definition, step: &StepId, report: &Report) -> ParsedReport<Verdict> {
    // A step without `loop_back_to` is not a gate, and its `gate_failure` is ignored.
    let is_gate = definition.step(step).loop_back_to.is_some();
    let has_failed = is_gate && report.gate_failure;
    ParsedReport::of(report, || Ok(if has_failed { Verdict::GateFailed } else { Verdict::Done }))
}

/// Returns the steps that a step needs. A merge is replaced by the step whose branch it merges, which has the results.
pub(super) fn needed_steps<'d>(
    definition: &'d Definition,
    step: &'d StepSpec,
) -> impl Iterator<Item = &'d StepId> {
    step.needs.iter().map(|need| match &definition.step(need).effect {
        Some(StepEffect::Merge(merged)) => merged,
        Some(StepEffect::FastForward) | None => need,
    })
}

/// Returns what an attempt is given. `counted_attempt` is its number among those that count towards `max_attempts`.
pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    id: &StepId,
    counted_attempt: u32,
) -> Brief {
    let step = definition.step(id);
    let step_document = document.step(id.as_str());
    let number = definition.item_of(id).map(|(_, number)| number);
    let needs = || {
        needed_steps(definition, step).map(|need| match number {
            // An item builds on the same item of a step that its loop is paired with.
            Some(number) if are_paired(definition, step, definition.step(need)) => item_id(need, number),
            Some(_) | None => need.clone(),
        })
    };
    let phase = document.phase(definition, id);
    let shown: Vec<_> = match phase {
        // The person judges what the step itself has done.
        Phase::Approval => vec![id.clone()],
        Phase::When
        | Phase::Conditions
        | Phase::ReadItems
        | Phase::WorkOnItems
        | Phase::Work
        | Phase::Checks
        | Phase::Approved => needs().collect(),
    };
    let upstream = shown.into_iter().filter_map(|need| {
        let needed = document.step(need.as_str())?;
        Some(Upstream {
            step: need.to_string(),
            artifacts: needed.artifacts.clone(),
            logs: needed.logs.clone(),
        })
    });
    let worktree = step.worktree.then(|| Worktree { name: id.clone(), branch: None });
    if phase == Phase::Checks {
        return Brief {
            workflow: definition.workflow().name.clone(),
            counted_attempt,
            worktree,
            checks: step.check_specs(),
            ..Brief::new(ENGINE, "", definition.max_attempts(id))
        };
    }
    // A turn whose checks failed counts as a failed attempt.
    let failed_check_turns = document.failed_check_turns(id);
    Brief {
        workflow: definition.workflow().name.clone(),
        model: step.model.clone(),
        timeout: step.timeout,
        counted_attempt: counted_attempt + failed_check_turns,
        last_error: step_document.and_then(|document| document.last_error.clone()),
        upstream: upstream.collect(),
        answers: needs().filter_map(|need| document.answer(&need).cloned()).collect(),
        variables: items::variables(definition, document, id),
        iteration: step_document.map_or(0, |document| document.iteration_count) + 1,
        gate: step.loop_back_to.is_some(),
        findings: document.findings.get(id.as_str()).cloned().unwrap_or_default(),
        worktree,
        memory_policy: definition.memory_policy(),
        form: definition.report_form(),
        ..Brief::new(&step.agent, items::prompt(definition, document, id), definition.max_attempts(id))
    }
}

/// Returns the effect of a step that the engine performs.
pub(super) fn effect(definition: &Definition, document: &Document, id: &StepId) -> Option<Effect> {
    let step = definition.step(id);
    match document.phase(definition, id) {
        Phase::When => return Some(when::effect(step)),
        Phase::ReadItems => return items::effect(document, step),
        Phase::Conditions
        | Phase::WorkOnItems
        | Phase::Work
        | Phase::Checks
        | Phase::Approval
        | Phase::Approved => {}
    }
    Some(match step.effect.as_ref()? {
        StepEffect::Merge(step) => Effect { name: "merge", arguments: json!({ "worktree": step }) },
        StepEffect::FastForward => Effect { name: "fast-forward", arguments: json!({}) },
    })
}
