//! Who is asked: every step is a seat. What it is told, and what its report says.

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::document::Document;
use crate::SeatName;
use crate::brief::{Brief, Upstream};
use crate::report::{self, Report};
use crate::rules::Reading;

/// What a step's report can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Done,
    /// The work before this step must be done again.
    GateFailed,
}

pub(super) fn read_report(definition: &Definition, seat: &SeatName, report: &Report) -> Reading<Verdict> {
    // Without a way back there is no gate: the word changes nothing.
    let is_gate = definition.step(seat).loop_back_to.is_some();
    match report.status {
        report::Status::Completed if is_gate && report.gate_failure => Reading::Verdict(Verdict::GateFailed),
        report::Status::Completed => Reading::Verdict(Verdict::Done),
        report::Status::Failed => Reading::Failed(match report.logs.last() {
            Some(last) => format!("Agent reported failure: {last}"),
            None => "Agent reported failure".to_owned(),
        }),
    }
}

pub(super) fn brief(definition: &Definition, document: &Document, seat: &SeatName, counted: u32) -> Brief {
    let step = definition.step(seat);
    let shown = document.steps.get(seat.as_str());
    let upstream = step.needs.iter().filter_map(|need| {
        let needed = document.steps.get(need.as_str())?;
        Some(Upstream {
            seat: need.to_string(),
            artifacts: needed.artifacts.clone(),
            logs: needed.logs.clone(),
        })
    });
    Brief {
        workflow: definition.workflow().name.clone(),
        agent: step.agent.clone(),
        prompt: definition.prompt(seat).to_owned(),
        model: step.model.clone(),
        timeout: step.timeout,
        counted,
        of: definition.tries(seat),
        last_error: shown.and_then(|shown| shown.last_error.clone()),
        form: report::Form::Plain,
        state: None,
        upstream: upstream.collect(),
        iteration: shown.map_or(0, |shown| shown.iteration_count),
        findings: document.findings.get(seat.as_str()).cloned().unwrap_or_default(),
    }
}
