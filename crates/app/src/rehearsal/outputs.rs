//! What the built-in scripted agent hands in for the phases of a cycle when no script says otherwise: little, and true.

use protocol::peer::Phase;
use protocol::peer::output::{CYCLE_SUMMARY, INSIGHTS, OUTPUT, succeeded};
use serde_json::{Value, json};
use supervisor::adapter::rehearsal::Fields;

/// A script's word for the ordinary review with another score.
pub(super) const SCORE: &str = "score";

/// What a script may make the report of a phase say beyond what every report says.
pub(super) fn words_of(phase: Phase) -> &'static [&'static str] {
    match phase {
        Phase::Plan | Phase::Execute | Phase::Express => &[OUTPUT],
        Phase::Review => &[OUTPUT, SCORE, CYCLE_SUMMARY, INSIGHTS],
    }
}

/// What it says unless the script does.
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
            "phases": [{ "phase": "rehearsal", "steps": ["Play every phase once, without an agent"] }],
            "success_criteria": {
                "overall": "The cycle is played through",
                "measurable": ["All four phases are completed"],
            },
            "risks": [],
        }),
        Phase::Execute => json!({
            "execution_status": "success",
            "notes": "Rehearsed by the built-in scripted agent: the artifacts named in its report are all there is",
        }),
        Phase::Express => json!({
            "summary": "A rehearsal: the phases were played without an agent, and no work was done.",
            "key_points": ["The cycle can be played from end to end"],
            "has_issues": false,
            "success": true,
            "next_action": "Play it with agents",
        }),
        Phase::Review => json!({
            "quality_score": 100,
            "strengths": ["The cycle went through all its phases"],
            "recommendations": ["Play it with agents"],
        }),
    }
}

fn summary(success: bool) -> Value {
    json!({
        "success": success,
        "summary": "The cycle was rehearsed by the built-in scripted agent.",
        "next_action": "Play it with agents",
    })
}

/// The ordinary review with another score, a number or a word; its summary says the same.
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
    fn what_is_said_by_default_is_fit_and_a_success() {
        for phase in Phase::ALL {
            let fields = of(phase);
            assert_eq!(verify(phase, &fields[OUTPUT]), Ok(()), "{phase}");
            assert!(fields.keys().all(|field| words_of(phase).contains(&field.as_str())), "{phase}");
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
