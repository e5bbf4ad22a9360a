//! The four seats: what each is told, and what its report says.

use super::decide::Verdict;
use super::definition::Definition;
use super::document::{Document, Phase};
use super::{output, prompts};
use crate::brief::{Brief, Whereabouts};
use crate::check::Violation;
use crate::report::{Report, Status};
use crate::rules::Reading;

/// The bucket in which the seed keeps its documents.
pub const BUCKET: &str = "agent-os-peer-state";

pub(super) fn brief(definition: &Definition, document: &Document, phase: Phase, counted: u32) -> Brief {
    let shown = &document.phases[phase];
    Brief {
        workflow: definition.instruction.clone(),
        agent: phase.seat().to_owned(),
        prompt: prompts::prompt(phase, document, definition.advice.as_ref()),
        model: None,
        timeout: definition.timeout,
        counted,
        of: definition.tries,
        last_error: shown.errors().last().map(|error| error.message.clone()),
        state: Some(Whereabouts {
            bucket: BUCKET.to_owned(),
            key: definition.cycle.key(),
            document: definition.cycle.to_string(),
        }),
        upstream: Vec::new(),
        iteration: 0,
        findings: Vec::new(),
    }
}

pub(super) fn read_report(document: &Document, phase: Phase, report: &Report) -> Reading<Verdict> {
    match report.status {
        Status::Completed => match completed(document, phase, report) {
            Ok(verdict) => Reading::Verdict(verdict),
            Err(unfit) => Reading::Unfit(unfit),
        },
        Status::Failed => Reading::Failed(match report.logs.last() {
            Some(last) => format!("Agent reported failure: {last}"),
            None => "Agent reported failure".to_owned(),
        }),
    }
}

/// A phase is completed by its output, not by the word.
fn completed(document: &Document, phase: Phase, report: &Report) -> Result<Verdict, String> {
    let given = |field| report.others.get(field).filter(|value| !value.is_null());
    let unfit = |field: &str, violations: Vec<Violation>| {
        let first = violations.first();
        let (at, message) = first.map_or(("", ""), |first| (&first.pointer, &first.message));
        format!("Agent reported completion with an unfit `{field}`: {message} (at `/{field}{at}`)")
    };
    let Some(produced) = given(output::OUTPUT) else {
        return Err("Agent reported completion without the field `output`".to_owned());
    };
    output::verify(phase, produced).map_err(|violations| unfit(output::OUTPUT, violations))?;
    if phase != Phase::Review {
        return Ok(Verdict::Completed);
    }
    let (summary, insights) = (given(output::CYCLE_SUMMARY), given(output::INSIGHTS));
    if let Some(summary) = summary {
        output::verify_summary(summary).map_err(|violations| unfit(output::CYCLE_SUMMARY, violations))?;
    }
    if let Some(insights) = insights {
        output::verify_insights(insights).map_err(|violations| unfit(output::INSIGHTS, violations))?;
    }
    let executed = document.phases.execute.output.clone().unwrap_or_default();
    Ok(Verdict::Reviewed { success: output::succeeded(&executed, produced, summary) })
}
