//! An error with its causes in one sentence, for entries and reports.

use std::error::Error;

/// Formats an error and its causes. Omits a cause that the text already contains.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    causes.fold(
        error.to_string(),
        |text, cause| {
            if text.contains(&cause) { text } else { format!("{text}: {cause}") }
        },
    )
}
