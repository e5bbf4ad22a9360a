//! The four steps: the brief of each, and what its report must have.

pub mod prompts;

use serde_json::Value;

use super::decide::Verdict;
use super::definition::Definition;
use super::document::{Document, Phase};
use super::output;
use crate::brief::{Brief, StateLocation};
use crate::check::Violation;
use crate::protocol_trait::ParsedReport;
use crate::report::{Report, ReportForm, Status};

/// The NATS bucket that has the documents of peer cycles.
pub const BUCKET: &str = "agent-os-peer-state";

/// Returns what an attempt is given. `counted_attempt` is its number among those that count towards the limit.
pub(super) fn brief(
    definition: &Definition,
    document: &Document,
    phase: Phase,
    counted_attempt: u32,
) -> Brief {
    let phase_document = &document.phases[phase];
    let prompt =
        prompts::render(definition.template(phase), phase, document, definition.earlier_review.as_ref());
    Brief {
        workflow: definition.instruction.clone(),
        timeout: definition.timeout,
        counted_attempt,
        last_error: phase_document.errors().last().map(|error| error.message.clone()),
        form: ReportForm::WithOutput,
        state: Some(StateLocation {
            bucket: BUCKET.to_owned(),
            key: definition.cycle.key(),
            document: definition.cycle.to_string(),
        }),
        ..Brief::new(phase.agent(), prompt, definition.max_attempts)
    }
}

pub(super) fn parse_report(document: &Document, phase: Phase, report: &Report) -> ParsedReport<Verdict> {
    ParsedReport::of(report, || read_completed(document, phase, report))
}

/// Reads a report of completion. Fails if its output is missing or invalid.
fn read_completed(document: &Document, phase: Phase, report: &Report) -> Result<Verdict, String> {
    check_report(phase, report)?;
    if phase != Phase::Review {
        return Ok(Verdict::Completed);
    }
    let produced = field(report, output::OUTPUT).cloned().unwrap_or_default();
    let executed = document.phases.execute.output.clone().unwrap_or_default();
    let success = output::succeeded(&executed, &produced, field(report, output::CYCLE_SUMMARY));
    Ok(Verdict::Reviewed { success })
}

/// Checks that a report has what its phase must produce. Needs no document, so that `callboard report` can refuse it at once.
pub(super) fn check_report(phase: Phase, report: &Report) -> Result<(), String> {
    if report.status == Status::Failed {
        return Ok(());
    }
    let invalid = |violations: Vec<Violation>| {
        let first = violations.first().map(|first| format!("{} ({})", first.message, first.repair));
        format!("Agent reported completion with an error in {}", first.unwrap_or_default())
    };
    let Some(produced) = field(report, output::OUTPUT) else {
        return Err("Agent reported completion without the field `output`".to_owned());
    };
    output::verify(phase, produced).map_err(invalid)?;
    if phase != Phase::Review {
        return Ok(());
    }
    if let Some(summary) = field(report, output::CYCLE_SUMMARY) {
        output::verify_summary(summary).map_err(invalid)?;
    }
    if let Some(insights) = field(report, output::INSIGHTS) {
        output::verify_insights(insights).map_err(invalid)?;
    }
    Ok(())
}

/// Returns a field of the report, unless it is missing or null.
fn field<'a>(report: &'a Report, field: &str) -> Option<&'a Value> {
    report.extra_fields.get(field).filter(|value| !value.is_null())
}
