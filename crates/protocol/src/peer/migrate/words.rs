//! The words of older formats: for phases, for how far something is, for times. There were many for each.

use serde_json::Value;

use crate::Stamp;
use crate::peer::document::{Phase, Second};

/// What a status word says, of a cycle or of a phase.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    pub(super) standing: Standing,
    /// Which phase a cycle's word names: `EXECUTING`, `planning_complete`, `PLANNING_FAILED`.
    pub(super) phase: Option<Phase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Pending,
    Working,
    Done,
    Failed,
    Cancelled,
}

impl PartialEq for Said {
    /// Who names no phase does not contradict who does.
    fn eq(&self, other: &Self) -> bool {
        let phases = self.phase.zip(other.phase);
        self.standing == other.standing && phases.is_none_or(|(one, other)| one == other)
    }
}

/// Reads a status word in any of its spellings.
pub(super) fn said(value: &Value) -> Option<Said> {
    let word = normal(value.as_str()?);
    let whole = |standing| Said { standing, phase: None };
    if let Some(standing) = standing(&word) {
        return Some(whole(standing));
    }
    if let Some(phase) = phase_word(&word) {
        return Some(Said { standing: Standing::Working, phase: Some(phase) });
    }
    let (first, second) = word.rsplit_once('_')?;
    Some(Said { standing: standing(second)?, phase: Some(phase_word(first)?) })
}

/// Reads the name of a phase in any of its spellings.
pub(super) fn phase(value: &Value) -> Option<Phase> {
    phase_word(&normal(value.as_str()?))
}

pub(super) fn phase_word(word: &str) -> Option<Phase> {
    match word {
        "plan" | "planning" | "planner" => Some(Phase::Plan),
        "execute" | "executing" | "execution" | "executor" => Some(Phase::Execute),
        "express" | "expressing" | "expression" | "expresser" => Some(Phase::Express),
        "review" | "reviewing" | "reviewer" => Some(Phase::Review),
        _ => None,
    }
}

fn standing(word: &str) -> Option<Standing> {
    match word {
        "pending" | "initialized" | "initialised" | "created" | "not_started" => Some(Standing::Pending),
        "running" | "in_progress" | "started" | "active" => Some(Standing::Working),
        "complete" | "completed" | "done" | "success" => Some(Standing::Done),
        "error" | "failed" | "failure" => Some(Standing::Failed),
        "cancelled" | "canceled" => Some(Standing::Cancelled),
        _ => None,
    }
}

fn normal(word: &str) -> String {
    word.trim().to_lowercase().replace(['-', ' '], "_")
}

/// Reads a time, cut to the second. One without a zone is taken as UTC, a number as seconds since 1970.
pub(super) fn time(value: &Value) -> Option<Second> {
    let timestamp = match value {
        Value::Number(number) => jiff::Timestamp::from_second(number.as_i64()?).ok()?,
        Value::String(text) => {
            let text = text.trim();
            let utc = || {
                let civil: jiff::civil::DateTime = text.parse().ok()?;
                civil.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
            };
            text.parse().ok().or_else(utc)?
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    Some(Second::from(Stamp::from_timestamp(timestamp)))
}

/// A text that says something.
pub(super) fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !is_blank(text)).map(str::to_owned)
}

/// How programs of old wrote nothing.
pub(super) fn is_blank(text: &str) -> bool {
    matches!(text.trim(), "" | "null" | "none" | "None")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_status_word_that_ever_was_is_read() {
        use Standing::{Cancelled, Done, Failed, Pending, Working};
        for (word, standing, phase) in [
            ("complete", Done, None),
            ("COMPLETE", Done, None),
            ("COMPLETED", Done, None),
            ("running", Working, None),
            ("PLANNING", Working, Some(Phase::Plan)),
            ("EXECUTING", Working, Some(Phase::Execute)),
            ("EXPRESSING", Working, Some(Phase::Express)),
            ("REVIEWING", Working, Some(Phase::Review)),
            ("INITIALIZED", Pending, None),
            ("error", Failed, None),
            ("ERROR", Failed, None),
            ("FAILED", Failed, None),
            ("PLANNING_FAILED", Failed, Some(Phase::Plan)),
            ("EXECUTION_FAILED", Failed, Some(Phase::Execute)),
            ("planning_complete", Done, Some(Phase::Plan)),
            ("execution_complete", Done, Some(Phase::Execute)),
            ("cancelled", Cancelled, None),
            (" in-progress\n", Working, None),
        ] {
            let said = said(&json!(word)).map(|said| (said.standing, said.phase));
            assert_eq!(said, Some((standing, phase)), "{word}");
        }
        for word in [json!("late"), json!("late_failed"), json!(3), json!(null)] {
            assert_eq!(said(&word), None, "{word}");
        }
    }

    #[test]
    fn times_are_read_with_and_without_zone_and_cut_to_the_second() {
        for text in [
            "2025-08-05T10:00:00Z",
            "2025-08-05T10:00:00.999Z",
            "2025-08-05T12:00:00+02:00",
            "2025-08-05T10:00:00",
            "2025-08-05 10:00:00",
        ] {
            assert_eq!(time(&json!(text)).unwrap().to_string(), "2025-08-05T10:00:00Z", "{text}");
        }
        assert_eq!(time(&json!(1_754_388_000)).unwrap().to_string(), "2025-08-05T10:00:00Z");
        for value in [json!("yesterday"), json!(null), json!({}), json!(1.5)] {
            assert_eq!(time(&value), None, "{value}");
        }
    }
}
