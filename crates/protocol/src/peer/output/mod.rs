//! What each phase must produce: `phases.<phase>.output`, and the review's two fields at the document's root.
//!
//! The schemas in `docs/schema/peer` accept the shapes in the original's documentation and those that the original itself
//! writes. Other fields are allowed.

mod review;

use std::sync::LazyLock;

use serde_json::Value;

use super::document::Phase;
use crate::check::{Violation, schema};
pub use review::{Band, Judgement, Score, judge, questions_for_user, succeeded};

/// The field of a report that holds the output of the phase.
pub const OUTPUT: &str = "output";
/// The field of the review's report, and of the document, that holds the summary of the cycle.
pub const CYCLE_SUMMARY: &str = "cycle_summary";
/// The field of the review's report, and of the document, that holds what was learnt.
pub const INSIGHTS: &str = "insights";

/// The rule that an invalid output breaks.
pub const RULE: &str = "output";

/// The schemas of the outputs, in the order of the phases.
static OUTPUT_SCHEMAS: LazyLock<[Value; 4]> = LazyLock::new(|| {
    [
        include_str!("../../../../../docs/schema/peer/plan.schema.json"),
        include_str!("../../../../../docs/schema/peer/execute.schema.json"),
        include_str!("../../../../../docs/schema/peer/express.schema.json"),
        include_str!("../../../../../docs/schema/peer/review.schema.json"),
    ]
    .map(parse)
});
static SUMMARY_SCHEMA: LazyLock<Value> =
    LazyLock::new(|| parse(include_str!("../../../../../docs/schema/peer/cycle-summary.schema.json")));
static INSIGHTS_SCHEMA: LazyLock<Value> =
    LazyLock::new(|| parse(include_str!("../../../../../docs/schema/peer/insights.schema.json")));

fn parse(schema: &str) -> Value {
    serde_json::from_str(schema).expect("BUG: the schema is JSON")
}

/// Checks the output of a phase. Pointers start at the output.
pub fn verify(phase: Phase, output: &Value) -> Result<(), Vec<Violation>> {
    verify_as(&format!("the output of `{phase}`"), &OUTPUT_SCHEMAS[phase as usize], output)
}

/// Checks the review's `cycle_summary`.
pub fn verify_summary(summary: &Value) -> Result<(), Vec<Violation>> {
    verify_as("`cycle_summary`", &SUMMARY_SCHEMA, summary)
}

/// Checks the review's `insights`.
pub fn verify_insights(insights: &Value) -> Result<(), Vec<Violation>> {
    verify_as("`insights`", &INSIGHTS_SCHEMA, insights)
}

/// Checks a value. Each message names the place, because many are shown without their pointer.
fn verify_as(name: &str, schema: &Value, value: &Value) -> Result<(), Vec<Violation>> {
    let mut violations = schema::violations(schema, value);
    for Violation { rule, pointer, message, .. } in &mut violations {
        let place = if pointer.is_empty() { name.to_owned() } else { format!("`{pointer}` of {name}") };
        *rule = RULE;
        *message = format!("{place}: {message}");
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}
