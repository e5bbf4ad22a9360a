//! The step statuses that are the same in every protocol, and how they are shown.

use protocol::present::{StatusKind, StepSummary};

/// Returns the symbol in front of a step.
pub(crate) const fn symbol(kind: StatusKind) -> char {
    match kind {
        StatusKind::Pending => '·',
        StatusKind::Running => '▸',
        StatusKind::Waiting => '?',
        StatusKind::Succeeded => '✓',
        StatusKind::Failed => '✗',
        StatusKind::Skipped => '»',
    }
}

/// Returns the label, followed by the status in the document if that is another word.
pub(super) fn with_document_status(label: &str, step: &StepSummary) -> String {
    if label.eq_ignore_ascii_case(step.status) {
        label.to_owned()
    } else {
        format!("{label} ({})", step.status)
    }
}
