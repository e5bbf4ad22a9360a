//! What each phase must produce: `phases.<phase>.output`, and the review's two fields at the document's root.
//!
//! The shapes in the original's documentation and those that the original itself writes are both accepted. The tables
//! define them once: [`verify`] checks an output against them, and [`schema`] exports them as JSON Schema. Other fields
//! are allowed.

mod review;
mod shape;
mod tables;

use serde_json::{Value, json};

use super::document::Phase;
use crate::check::{Location, Violation, ViolationCollector};
pub use review::{Band, Judgement, Score, judge, questions_for_user, succeeded};
use shape::Shape;

/// The field of a report that holds the output of the phase.
pub const OUTPUT: &str = "output";
/// The field of the review's report, and of the document, that holds the summary of the cycle.
pub const CYCLE_SUMMARY: &str = "cycle_summary";
/// The field of the review's report, and of the document, that holds what was learnt.
pub const INSIGHTS: &str = "insights";

/// The rule that an invalid output breaks.
pub const RULE: &str = "output";

/// Checks the output of a phase. Pointers start at the output.
pub fn verify(phase: Phase, output: &Value) -> Result<(), Vec<Violation>> {
    verify_as(&format!("the output of `{phase}`"), &tables::of(phase), output)
}

/// Checks the review's `cycle_summary`.
pub fn verify_summary(summary: &Value) -> Result<(), Vec<Violation>> {
    verify_as("`cycle_summary`", &tables::SUMMARY, summary)
}

/// Checks the review's `insights`.
pub fn verify_insights(insights: &Value) -> Result<(), Vec<Violation>> {
    verify_as("`insights`", &tables::INSIGHTS, insights)
}

fn verify_as(name: &str, shape: &Shape, value: &Value) -> Result<(), Vec<Violation>> {
    let mut findings = ViolationCollector::default();
    shape.verify(&Location { pointer: String::new(), name: name.to_owned() }, value, &mut findings);
    if findings.0.is_empty() { Ok(()) } else { Err(findings.0) }
}

/// The JSON Schema (draft 2020-12) of a phase's output.
pub fn schema(phase: Phase) -> Value {
    titled(&format!("Output of the {} phase", phase), &tables::of(phase))
}

/// The JSON Schema of the review's `cycle_summary`.
pub fn summary_schema() -> Value {
    titled("cycle_summary of the review", &tables::SUMMARY)
}

/// The JSON Schema of the review's `insights`.
pub fn insights_schema() -> Value {
    titled("insights of the review", &tables::INSIGHTS)
}

fn titled(title: &str, shape: &Shape) -> Value {
    let mut schema = json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "title": title });
    if let (Some(head), Value::Object(rest)) = (schema.as_object_mut(), shape.schema()) {
        head.extend(rest);
    }
    schema
}
