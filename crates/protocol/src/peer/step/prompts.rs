//! The prompts of the four agents: a template each, with placeholders for the cycle.
//!
//! The templates describe the field `output` of the report. [`report::instructions`](crate::report::instructions), which
//! follows every prompt, says how to submit the report.

use std::fmt::Write as _;

use serde_json::Value;

use crate::peer::definition::EarlierReview;
use crate::peer::document::{Document, Phase, PhaseStatus};
use crate::peer::names::Scope;
use crate::prompt::{PromptTemplate, UNTRUSTED, code_block, fill};

/// The placeholders of all four templates.
const PLACEHOLDERS: &[&str] = &["cycle_id", "instruction", "scope", "user_requirements", "earlier"];

/// The built-in templates, in the order of the phases.
pub const TEMPLATES: [PromptTemplate; 4] = [
    PromptTemplate { role: "planner", text: include_str!("prompts/planner.md"), placeholders: PLACEHOLDERS },
    PromptTemplate {
        role: "executor",
        text: include_str!("prompts/executor.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "expresser",
        text: include_str!("prompts/expresser.md"),
        placeholders: PLACEHOLDERS,
    },
    PromptTemplate {
        role: "reviewer",
        text: include_str!("prompts/reviewer.md"),
        placeholders: PLACEHOLDERS,
    },
];

/// The built-in template of a phase's prompt.
pub fn template(phase: Phase) -> &'static str {
    TEMPLATES[phase as usize].text
}

/// Renders the built-in prompt of a phase.
pub fn prompt(phase: Phase, document: &Document, review: Option<&EarlierReview>) -> String {
    render(template(phase), phase, document, review)
}

/// Renders the prompt of a phase from a checked template.
pub fn render(template: &str, phase: Phase, document: &Document, review: Option<&EarlierReview>) -> String {
    let scope = match &document.cycle_id.scope {
        Scope::Spec(name) => format!("the spec `{name}`"),
        Scope::Global => "the repository as a whole".to_owned(),
    };
    fill(template, |variable| match variable {
        "cycle_id" => Some(document.cycle_id.to_string()),
        "instruction" => Some(document.metadata.instruction.clone()),
        "scope" => Some(scope.clone()),
        "user_requirements" => Some(document.context.user_requirements.clone()),
        "earlier" => Some(earlier(phase, document, review)),
        _ => None,
    })
}

/// The recommendations of an earlier review, the outputs of earlier phases, and the output of this phase so far.
fn earlier(phase: Phase, document: &Document, review: Option<&EarlierReview>) -> String {
    let mut text = String::new();
    let mut show = |title: String, output: &Value| {
        let output = serde_json::to_string_pretty(output).expect("BUG: an output cannot be serialized");
        let output = code_block("json", &output);
        write!(text, "## {title}\n\n{output}\n").expect("BUG: writing to a string fails");
    };
    if let Some(EarlierReview { cycle, recommendations }) = review {
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
    } else {
        text.insert_str(0, &format!("{UNTRUSTED}\n\n"));
    }
    text.trim_end().to_owned()
}
