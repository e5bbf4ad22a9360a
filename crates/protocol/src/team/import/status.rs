//! The status of a group in the imported files, and what the group needs next.

use serde_json::{Map, Value};

use super::super::state::{Blocked, DevelopReason, Stage};

/// What the imported files in `coordination/` say about a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImportedStatus {
    /// Not complete: the group needs this next. `begun` if a role has worked on it.
    Open {
        stage: Stage,
        begun: bool,
    },
    /// Claimed to be complete. The tech lead verifies it before it is merged.
    Complete,
    Skipped,
    /// A word that is not known.
    Unknown(String),
}

impl ImportedStatus {
    /// Reads a status word of `group_status.json` or of the plan, in any letter case. `record` has the last feedback.
    pub(super) fn parse(word: &str, record: Option<&Map<String, Value>>) -> Self {
        let folded = word.trim().to_lowercase().replace([' ', '-'], "_");
        let open = |stage| Self::Open { stage, begun: true };
        match folded.as_str() {
            "" | "pending" | "assigned" => {
                Self::Open { stage: Stage::Develop(DevelopReason::New), begun: false }
            }
            "dev_working" => open(Stage::Develop(last_reason(record))),
            "dev_blocked" => open(Stage::Unblock(Blocked::Developer)),
            "waiting_qa" | "qa_testing" => open(Stage::Test),
            "qa_failed" => open(Stage::Develop(DevelopReason::QaFailed)),
            "waiting_review" | "tech_review" => open(Stage::Review),
            "changes_requested" => open(Stage::Develop(DevelopReason::ChangesRequested)),
            "complete" | "completed" | "done" | "success" => Self::Complete,
            other if other.starts_with("skip") => Self::Skipped,
            other if other.starts_with("in_progress") => open(Stage::Develop(last_reason(record))),
            _ => Self::Unknown(word.to_owned()),
        }
    }

    /// Returns the stage from which the run continues.
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::Open { stage, .. } => *stage,
            Self::Complete => Stage::Review,
            Self::Skipped | Self::Unknown(_) => Stage::Develop(DevelopReason::New),
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::Open { begun, .. } => *begun,
            Self::Complete => true,
            Self::Skipped | Self::Unknown(_) => false,
        }
    }

    /// Returns whether both statuses put the group into the same list of the plan, such as `pending_groups`.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Open { begun: one, .. }, Self::Open { begun: other, .. }) => one == other,
            (Self::Complete, Self::Complete) | (Self::Skipped, Self::Skipped) => true,
            (Self::Unknown(one), Self::Unknown(other)) => one == other,
            (Self::Open { .. } | Self::Complete | Self::Skipped | Self::Unknown(_), _) => false,
        }
    }

    /// Describes what becomes of the group, for the preview and the notes of an import.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Open { begun: false, .. } => "pending".to_owned(),
            Self::Open { stage, .. } => match stage {
                Stage::Develop(_) => "the developer continues".to_owned(),
                Stage::Test => "QA tests it again".to_owned(),
                Stage::Review => "the tech lead reviews it".to_owned(),
                Stage::Unblock(_) => "blocked, the tech lead helps".to_owned(),
                Stage::Merge | Stage::Complete => "merged".to_owned(),
            },
            Self::Complete => "claimed complete, the tech lead verifies it".to_owned(),
            Self::Skipped => "claimed skipped, a person decides".to_owned(),
            Self::Unknown(word) => format!("unknown status `{word}`, a person decides"),
        }
    }
}

/// Returns why a developer works, as far as the last feedback says it.
fn last_reason(record: Option<&Map<String, Value>>) -> DevelopReason {
    let feedback = record.and_then(|record| record.get("tech_lead_feedback")?.as_array()?.last());
    match feedback.and_then(|feedback| feedback.get("decision")?.as_str()) {
        Some("changes_requested") => DevelopReason::ChangesRequested,
        Some("unblocked") => DevelopReason::Unblocked,
        _ => DevelopReason::New,
    }
}
