//! The failures of `import`, `recover` and `run --accept-changes` when a document cannot become a run.

use std::path::Path;

use protocol::{ImportRefusal, RunId};
use runner::DocumentImportError;

use super::{Exit, Failure};
use crate::output::shell_word;

impl Failure {
    /// Lists every violated rule of the document. The caller says with [`Self::context`] what failed.
    pub(crate) fn from_document_import(error: &DocumentImportError, run: &RunId, file: &Path) -> Self {
        match error {
            DocumentImportError::Exists(_) => Self::from_error(Exit::Refused, error)
                .hint(format_args!("run `callboard show {run}`: the store has the run")),
            DocumentImportError::Refused(ImportRefusal::Invalid(violations)) => {
                let mut failure = Self::from_error(Exit::Usage, error);
                let lines = violations.iter().map(|violation| {
                    format!("{}: {} ({})", violation.rule, violation.message, violation.pointer)
                });
                failure.causes.extend(lines);
                failure.hint(format_args!("run `callboard check {}` to see what to change", shell_word(file)))
            }
            DocumentImportError::Refused(ImportRefusal::StepsDiffer(_)) => {
                Self::from_error(Exit::Usage, error).hint("name the workflow that the run was started with")
            }
            DocumentImportError::Refused(
                ImportRefusal::Unusable(_) | ImportRefusal::SequenceExhausted(_),
            ) => Self::from_error(Exit::Usage, error),
            DocumentImportError::Store(_) => Self::from_error(Exit::Store, error),
        }
    }
}
