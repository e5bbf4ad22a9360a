//! The step statuses that are the same in every protocol, and how they are shown.

use protocol::present::{StatusKind, StepSummary};

/// The word for a step's status.
pub(super) const fn word(kind: StatusKind) -> &'static str {
    match kind {
        StatusKind::Pending => "pending",
        StatusKind::Running => "running",
        StatusKind::Waiting => "waiting",
        StatusKind::Succeeded => "succeeded",
        StatusKind::Failed => "failed",
        StatusKind::Skipped => "skipped",
    }
}

pub(super) const fn sign(kind: StatusKind) -> char {
    match kind {
        StatusKind::Pending => '·',
        StatusKind::Running => '▸',
        StatusKind::Waiting => '?',
        StatusKind::Succeeded => '✓',
        StatusKind::Failed => '✗',
        StatusKind::Skipped => '»',
    }
}

/// Returns `word`, followed by the document's own word for the status if that is another one.
pub(super) fn with_document_word(word: &str, shown: &StepSummary) -> String {
    if word.eq_ignore_ascii_case(shown.status) {
        word.to_owned()
    } else {
        format!("{word} ({})", shown.status)
    }
}
