//! The default outputs of the scripted agent for the phases of a peer cycle.

use protocol::peer::Phase;
use protocol::peer::output::{CYCLE_SUMMARY, INSIGHTS, OUTPUT, succeeded};
use serde_json::{Value, json};
use supervisor::adapter::rehearsal::Fields;

/// The key of a rehearsal script for the default review with another score.
pub(super) const SCORE: &str = "score";

/// Returns the keys that the entry `ok` of a script may have for a phase. They set fields of its report.
pub(super) fn ok_keys(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Plan | Phase::Execute | Phase::Express => &[OUTPUT],
        Phase::Review => &[OUTPUT, SCORE, CYCLE_SUMMARY, INSIGHTS],
    }
}

/// Returns the default values of a phase's report fields, for those that the script does not set.
pub(super) fn of(phase: Phase) -> Fields {
    let mut fields = Fields::new();
    fields.insert(OUTPUT.to_owned(), output(phase));
    match phase {
        Phase::Plan | Phase::Execute | Phase::Express => {}
        Phase::Review => {
            fields.insert(CYCLE_SUMMARY.to_owned(), summary(true));
        }
    }
    fields
}

fn output(phase: Phase) -> Value {
    match phase {
        Phase::Plan => json!({
            "phases": [{ "phase": "rehearsal", "steps": ["Run every phase once with the scripted agent"] }],
            "success_criteria": {
                "overall": "The cycle runs to its end",
                "measurable": ["All four phases are completed"],
            },
            "risks": [],
        }),
        Phase::Execute => json!({
            "execution_status": "success",
            "notes": "Rehearsed by the built-in scripted agent: the artifacts named in its report are all there is",
        }),
        Phase::Express => json!({
            "summary": "A rehearsal: the scripted agent ran every phase, and no work was done.",
            "key_points": ["The cycle runs from start to end"],
            "has_issues": false,
            "success": true,
            "next_action": "Run it with real agents",
        }),
        Phase::Review => json!({
            "quality_score": 100,
            "strengths": ["The cycle went through all its phases"],
            "recommendations": ["Run it with real agents"],
        }),
    }
}

fn summary(success: bool) -> Value {
    json!({
        "success": success,
        "summary": "The cycle was rehearsed by the built-in scripted agent.",
        "next_action": "Run it with real agents",
    })
}

/// Returns the default review and summary with another score, a number or a word.
pub(super) fn scored(score: Value) -> Fields {
    let mut review = output(Phase::Review);
    review["quality_score"] = score;
    let success = succeeded(&output(Phase::Execute), &review, None);
    let mut fields = Fields::new();
    fields.insert(OUTPUT.to_owned(), review);
    fields.insert(CYCLE_SUMMARY.to_owned(), summary(success));
    fields
}

#[cfg(test)]
mod tests {
    use protocol::peer::output::{verify, verify_summary};

    use super::*;

    #[test]
    fn the_default_outputs_are_valid_and_successful() {
        for phase in Phase::ALL {
            let fields = of(phase);
            assert_eq!(verify(phase, &fields[OUTPUT]), Ok(()), "{phase}");
            assert!(fields.keys().all(|field| ok_keys(phase).contains(&field.as_str())), "{phase}");
        }
        for (score, success) in [(json!(100), true), (json!(69), false), (json!("medium"), true)] {
            let review = scored(score.clone());
            assert_eq!(verify(Phase::Review, &review[OUTPUT]), Ok(()), "{score}");
            assert_eq!(verify_summary(&review[CYCLE_SUMMARY]), Ok(()), "{score}");
            assert_eq!(review[CYCLE_SUMMARY]["success"], success, "{score}");
        }
        assert_eq!(of(Phase::Review), scored(json!(100)));
    }
}
