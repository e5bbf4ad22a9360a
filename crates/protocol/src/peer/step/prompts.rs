//! The prompts of the four agents: a template each, with variables for the cycle.
//!
//! The templates describe the field `output` of the report. [`report::instructions`](crate::report::instructions), which
//! follows every prompt, says how to submit the report.

use std::fmt::Write as _;

use serde_json::Value;

use crate::peer::definition::Advice;
use crate::peer::document::{Document, Phase, PhaseStatus};
use crate::peer::names::Scope;

/// The template of a phase's prompt.
pub fn template(phase: Phase) -> &'static str {
    match phase {
        Phase::Plan => include_str!("prompts/planner.md"),
        Phase::Execute => include_str!("prompts/executor.md"),
        Phase::Express => include_str!("prompts/expresser.md"),
        Phase::Review => include_str!("prompts/reviewer.md"),
    }
}

/// Renders the prompt of a phase.
pub fn prompt(phase: Phase, document: &Document, advice: Option<&Advice>) -> String {
    let scope = match &document.cycle_id.scope {
        Scope::Spec(name) => format!("the spec `{name}`"),
        Scope::Global => "the repository as a whole".to_owned(),
    };
    fill(template(phase), |variable| match variable {
        "cycle_id" => Some(document.cycle_id.to_string()),
        "instruction" => Some(document.metadata.instruction.clone()),
        "scope" => Some(scope.clone()),
        "user_requirements" => Some(document.context.user_requirements.clone()),
        "earlier" => Some(earlier(phase, document, advice)),
        _ => None,
    })
}

/// Substitutes the variables of a template in one pass. A value is not scanned again, so that a user's text cannot contain a
/// variable.
fn fill(template: &str, variable: impl Fn(&str) -> Option<String>) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let filled = part.split_once("}}").and_then(|(name, after)| Some(variable(name)? + after));
        text.push_str(&filled.unwrap_or_else(|| panic!("BUG: unknown variable in a template at `{part}`")));
    }
    text
}

/// The recommendations of an earlier review, the outputs of earlier phases, and the output of this phase so far.
fn earlier(phase: Phase, document: &Document, advice: Option<&Advice>) -> String {
    let mut text = String::new();
    let mut show = |title: String, output: &Value| {
        let output = serde_json::to_string_pretty(output).expect("BUG: an output cannot be serialized");
        write!(text, "## {title}\n\n```json\n{output}\n```\n\n").expect("BUG: writing to a string fails");
    };
    if let Some(Advice { cycle, recommendations }) = advice {
        show(format!("What the review of `{cycle}` recommends"), recommendations);
    }
    for (before, phase_document) in document.phases.iter().filter(|(before, _)| *before <= phase) {
        match (&phase_document.output, phase_document.status) {
            (Some(output), PhaseStatus::Completed) if before < phase => {
                show(format!("Output of `{before}`"), output);
            }
            (Some(Value::Object(work)), PhaseStatus::InProgress) if before == phase && !work.is_empty() => {
                show("Your own work so far".to_owned(), &Value::Object(work.clone()));
            }
            (Some(_) | None, _) => {}
        }
    }
    if text.is_empty() {
        text.push_str("Nothing has been done in this cycle before you.");
    }
    text.trim_end().to_owned()
}
