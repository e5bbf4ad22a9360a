//! What the four steps are told: a template each, with blanks for what differs from cycle to cycle.
//!
//! How to hand in a report is told behind it, as for every step ([`report::instructions`](crate::report::instructions));
//! the templates say what its field `output` must be.

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

/// The prompt of a phase of this cycle.
pub fn prompt(phase: Phase, document: &Document, advice: Option<&Advice>) -> String {
    let scope = match &document.cycle_id.scope {
        Scope::Spec(name) => format!("the spec `{name}`"),
        Scope::Global => "the repository as a whole".to_owned(),
    };
    fill(template(phase), |blank| match blank {
        "cycle_id" => Some(document.cycle_id.to_string()),
        "instruction" => Some(document.metadata.instruction.clone()),
        "scope" => Some(scope.clone()),
        "user_requirements" => Some(document.context.user_requirements.clone()),
        "earlier" => Some(earlier(phase, document, advice)),
        _ => None,
    })
}

/// Fills the blanks of a template in one pass: what is filled in is not looked at again, so nobody's text can pose as a
/// blank.
fn fill(template: &str, blank: impl Fn(&str) -> Option<String>) -> String {
    let mut parts = template.split("{{");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let filled = part.split_once("}}").and_then(|(name, after)| Some(blank(name)? + after));
        text.push_str(&filled.unwrap_or_else(|| panic!("BUG: a template has an unknown blank at `{part}`")));
    }
    text
}

/// What an earlier review recommends, what the phases before have produced, and what this one has already done.
fn earlier(phase: Phase, document: &Document, advice: Option<&Advice>) -> String {
    let mut text = String::new();
    let mut show = |title: String, output: &Value| {
        let output = serde_json::to_string_pretty(output).expect("BUG: an output is plain data");
        write!(text, "## {title}\n\n```json\n{output}\n```\n\n").expect("BUG: a string grows");
    };
    if let Some(Advice { cycle, recommendations }) = advice {
        show(format!("What the review of `{cycle}` recommends"), recommendations);
    }
    for (before, shown) in document.phases.iter().filter(|(before, _)| *before <= phase) {
        match (&shown.output, shown.status) {
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
