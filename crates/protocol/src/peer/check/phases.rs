//! Rules F5 and F6: the phases are there, and each phase object is valid by itself. `docs/peer.md` lists the rules.

use serde_json::Value;

use super::fields::{Field, FieldType, Object, check_fields, check_times, optional, required};
use crate::check::{Location, Violation, ViolationCollector};
use crate::closest;
use crate::peer::document::{Phase, PhaseStatus};
use crate::peer::output;

const PHASE_FIELDS: [Field; 7] = [
    required("status", FieldType::PhaseStatus, "F6"),
    optional("started_at", FieldType::Time, "F6"),
    optional("completed_at", FieldType::Time, "F6"),
    optional("sequence_at_start", FieldType::Count, "F6"),
    optional("sequence_at_complete", FieldType::Count, "F6"),
    optional("errors", FieldType::List, "F6"),
    optional("reused_from", FieldType::PeerCycleId, "F6"),
];

const ERROR_FIELDS: [Field; 3] = [
    required("kind", FieldType::NonBlankText, "F6"),
    required("message", FieldType::Text, "F6"),
    required("timestamp", FieldType::Time, "F6"),
];

/// The fields of a phase that has started.
const START_FIELDS: [&str; 2] = ["started_at", "sequence_at_start"];
/// The fields of a phase that is completed.
const COMPLETION_FIELDS: [&str; 2] = ["completed_at", "sequence_at_complete"];

/// Checks F6, and F5 for the names and the type of the phases.
pub(super) fn check(at: &Location, document: &Object, findings: &mut ViolationCollector) {
    let Some(phases) = document.get("phases").and_then(Value::as_object) else { return };
    let at = at.field("phases");
    for phase in Phase::ALL {
        match phases.get(phase.as_str()) {
            None => report_missing_phase(&at, phases, phase, findings),
            Some(Value::Object(fields)) => {
                let at =
                    Location { pointer: at.field(phase.as_str()).pointer, name: format!("phase `{phase}`") };
                check_phase(&at, phase, fields, findings);
            }
            Some(value) => {
                findings.wrong_type_for_rule(
                    "F5",
                    &at.field(phase.as_str()),
                    value,
                    "an object",
                    "write `{\"status\": \"pending\"}`",
                );
            }
        }
    }
    for name in phases.keys().filter(|name| Phase::parse(name).is_none()) {
        let missing = Phase::ALL.map(Phase::as_str).into_iter().filter(|word| !phases.contains_key(*word));
        // A misspelt name was reported with the phase that is missing: the repair is to rename it.
        if closest(name, missing).is_none() {
            let at = at.field(name);
            let message =
                format!("{} is not a phase; the phases are plan, execute, express and review", at.name);
            findings.add("F5", &at, message, "remove it, or move it out of `phases`");
        }
    }
}

fn report_missing_phase(at: &Location, phases: &Object, phase: Phase, findings: &mut ViolationCollector) {
    let unknown = phases.keys().map(String::as_str).filter(|name| Phase::parse(name).is_none());
    let repair = match closest(phase.as_str(), unknown) {
        Some(typo) => format!("rename `{typo}` to `{phase}`"),
        None => format!("add `\"{phase}\": {{\"status\": \"pending\"}}`"),
    };
    findings.add("F5", at, format!("{} has no `{phase}`", at.name), repair);
}

fn check_phase(at: &Location, phase: Phase, fields: &Object, findings: &mut ViolationCollector) {
    check_fields(at, fields, &PHASE_FIELDS, findings);
    check_times(at, fields, "started_at", "completed_at", findings);
    check_errors(&at.field("errors"), fields, findings);
    let word = fields.get("status").and_then(Value::as_str).unwrap_or_default();
    let Some(status) = PhaseStatus::ALL.into_iter().find(|status| status.as_str() == word) else { return };
    match status {
        PhaseStatus::Pending => {
            forbid(at, fields, START_FIELDS, "is pending", findings);
            forbid(at, fields, COMPLETION_FIELDS, "is pending", findings);
        }
        PhaseStatus::InProgress => {
            require(at, fields, START_FIELDS, "is in_progress", findings);
            forbid(at, fields, COMPLETION_FIELDS, "is in_progress", findings);
        }
        PhaseStatus::Completed => {
            require(at, fields, START_FIELDS, "is completed", findings);
            require(at, fields, COMPLETION_FIELDS, "is completed", findings);
            check_output(at, phase, fields.get("output"), findings);
        }
        PhaseStatus::Failed => {
            // A phase that failed before it started has neither field.
            if START_FIELDS.iter().any(|name| fields.contains_key(*name)) {
                require(at, fields, START_FIELDS, "has started", findings);
            }
            forbid(at, fields, COMPLETION_FIELDS, "is failed", findings);
        }
    }
}

fn require(
    at: &Location,
    fields: &Object,
    names: [&str; 2],
    because: &str,
    findings: &mut ViolationCollector,
) {
    for name in names.into_iter().filter(|name| !fields.contains_key(*name)) {
        let message = format!("{} {because}, but has no `{name}`", at.name);
        findings.add("F6", at, message, format!("add `{name}` of the write that did it"));
    }
}

fn forbid(
    at: &Location,
    fields: &Object,
    names: [&str; 2],
    because: &str,
    findings: &mut ViolationCollector,
) {
    // `check_fields` has reported a null.
    for name in names.into_iter().filter(|name| fields.get(*name).is_some_and(|value| !value.is_null())) {
        let message = format!("{} {because}, but has `{name}`", at.name);
        findings.add("F6", &at.field(name), message, "remove it, or correct the `status`");
    }
}

fn check_errors(at: &Location, fields: &Object, findings: &mut ViolationCollector) {
    for (index, error) in fields.get("errors").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = at.entry(index);
        match error.as_object() {
            Some(fields) => check_fields(&at, fields, &ERROR_FIELDS, findings),
            None => {
                findings.wrong_type_for_rule(
                    "F6",
                    &at,
                    error,
                    "an object",
                    "write `kind`, `message` and `timestamp`",
                );
            }
        }
    }
}

/// Checks that a completed phase has a valid output.
fn check_output(at: &Location, phase: Phase, output: Option<&Value>, findings: &mut ViolationCollector) {
    let Some(output) = output else {
        let message = format!("{} is completed, but has no `output`", at.name);
        return findings.add("F6", at, message, "add its output, or correct the `status`");
    };
    let prefix = at.field("output").pointer;
    for violation in output::verify(phase, output).err().into_iter().flatten() {
        let pointer = format!("{prefix}{}", violation.pointer);
        findings.0.push(Violation { rule: "F6", pointer, ..violation });
    }
}
