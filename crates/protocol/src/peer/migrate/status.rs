//! The words for phases and statuses in earlier formats.

use serde_json::Value;

use crate::peer::document::Phase;

/// The status of a cycle or of a phase in an earlier format. Some of its words name a phase, too: `EXECUTING`,
/// `planning_complete`, `PLANNING_FAILED`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ParsedStatus {
    pub(super) status: OldStatus,
    pub(super) phase: Option<Phase>,
}

/// The status itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OldStatus {
    Pending,
    InProgress,
    Completed,
    Failed,
    Cancelled,
}

impl OldStatus {
    pub(super) fn is_failure(self) -> bool {
        match self {
            Self::Failed | Self::Cancelled => true,
            Self::Pending | Self::InProgress | Self::Completed => false,
        }
    }
}

/// Parses the status of a cycle, or of a phase.
pub(super) fn parse_status(value: &Value) -> Option<ParsedStatus> {
    let word = value.as_str()?.trim().to_lowercase();
    if let Some(status) = parse_status_name(&word) {
        return Some(ParsedStatus { status, phase: None });
    }
    if let Some(phase) = parse_phase_name(&word) {
        return Some(ParsedStatus { status: OldStatus::InProgress, phase: Some(phase) });
    }
    let (phase, status) = word.rsplit_once('_')?;
    Some(ParsedStatus { status: parse_status_name(status)?, phase: Some(parse_phase_name(phase)?) })
}

/// Parses the name of a phase, in any letter case.
pub(super) fn parse_phase(value: &Value) -> Option<Phase> {
    parse_phase_name(&value.as_str()?.trim().to_lowercase())
}

pub(super) fn parse_phase_name(word: &str) -> Option<Phase> {
    match word {
        "plan" | "planning" => Some(Phase::Plan),
        "execute" | "executing" | "execution" => Some(Phase::Execute),
        "express" | "expressing" => Some(Phase::Express),
        "review" | "reviewing" => Some(Phase::Review),
        _ => None,
    }
}

fn parse_status_name(word: &str) -> Option<OldStatus> {
    match word {
        "pending" | "initialized" => Some(OldStatus::Pending),
        "running" | "in_progress" => Some(OldStatus::InProgress),
        "complete" | "completed" => Some(OldStatus::Completed),
        "error" | "failed" => Some(OldStatus::Failed),
        "cancelled" => Some(OldStatus::Cancelled),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_old_status_is_parsed() {
        use OldStatus::{Cancelled, Completed, Failed, InProgress, Pending};
        for (word, status, phase) in [
            ("complete", Completed, None),
            ("COMPLETE", Completed, None),
            ("COMPLETED\n", Completed, None),
            ("running", InProgress, None),
            ("PLANNING", InProgress, Some(Phase::Plan)),
            ("EXECUTING", InProgress, Some(Phase::Execute)),
            ("EXPRESSING", InProgress, Some(Phase::Express)),
            ("REVIEWING", InProgress, Some(Phase::Review)),
            ("INITIALIZED", Pending, None),
            ("error", Failed, None),
            ("FAILED", Failed, None),
            ("PLANNING_FAILED", Failed, Some(Phase::Plan)),
            ("EXECUTION_FAILED", Failed, Some(Phase::Execute)),
            ("planning_complete", Completed, Some(Phase::Plan)),
            ("cancelled", Cancelled, None),
        ] {
            assert_eq!(parse_status(&json!(word)), Some(ParsedStatus { status, phase }), "{word}");
        }
        for word in [json!("late"), json!("late_failed"), json!(3), json!(null)] {
            assert_eq!(parse_status(&word), None, "{word}");
        }
    }
}
