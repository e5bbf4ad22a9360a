//! What a step is told, and what its report says.

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::document::Document;
use crate::StepId;
use crate::brief::{Brief, Upstream};
use crate::report::{self, Report};
use crate::rules::ParsedReport;

/// What a step's report can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Done,
    /// The work before this step must be done again.
    GateFailed,
}

pub(super) fn parse_report(definition: &Definition, step: &StepId, report: &Report) -> ParsedReport<Verdict> {
    // Without a way back there is no gate: the word changes nothing.
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

pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    id: &StepId,
    counted_attempt: u32,
) -> Brief {
    let step = definition.step(id);
    let shown = document.steps.get(id.as_str());
    let upstream = step.needs.iter().filter_map(|need| {
        let needed = document.steps.get(need.as_str())?;
        Some(Upstream {
            step: need.to_string(),
            artifacts: needed.artifacts.clone(),
            logs: needed.logs.clone(),
        })
    });
    Brief {
        workflow: definition.workflow().name.clone(),
        agent: step.agent.clone(),
        prompt: definition.prompt(id).to_owned(),
        model: step.model.clone(),
        timeout: step.timeout,
        counted_attempt,
        max_attempts: definition.max_attempts(id),
        last_error: shown.and_then(|shown| shown.last_error.clone()),
        form: report::Form::Plain,
        state: None,
        upstream: upstream.collect(),
        iteration: shown.map_or(0, |shown| shown.iteration_count),
        findings: document.findings.get(id.as_str()).cloned().unwrap_or_default(),
    }
}
