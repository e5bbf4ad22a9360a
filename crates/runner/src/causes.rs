//! An error as one sentence: for entries, findings and reports, which have no place for a list of causes.

use std::error::Error;

/// An error and its causes. A cause that was quoted already is not told twice.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(error.source(), |&cause| cause.source()).map(ToString::to_string);
    causes.fold(
        error.to_string(),
        |text, cause| {
            if text.contains(&cause) { text } else { format!("{text}: {cause}") }
        },
    )
}
