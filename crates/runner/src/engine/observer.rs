//! Notices of an engine to its observer, for display only.

use std::path::PathBuf;
use std::time::Duration;

use crate::recovery::Restored;
use crate::run::{JudgedExternalWrite, RunSpec};
use protocol::entry::Entry;
use protocol::{AttemptId, Machine, Revision, StepId, Turn};

/// Something to show to the user.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The engine has started. The `adopted` attempts have a live shim. The attempts `without_shim`
    /// have no end in the journal and no live shim: their exit record is read, or they are started again.
    Started { adopted: &'a [AttemptId], without_shim: &'a [AttemptId] },
    /// These attempts are on other hosts and may be alive there. This engine does not touch them.
    Remote { attempts: &'a [(AttemptId, String)] },
    /// An entry was committed, by this engine or by another client. The machine has applied it.
    Committed { machine: &'a dyn Machine, revision: Revision, entry: &'a Entry },
    /// A step waits for a person. Sent once by each engine.
    Question { spec: &'a RunSpec, machine: &'a dyn Machine, step: &'a StepId, turn: Turn },
    /// The answer file of a question exists and is invalid.
    InvalidAnswerFile { step: &'a StepId, turn: Turn, path: PathBuf, reason: &'a str },
    /// The process of an attempt is about to be started or adopted; its output goes to this file.
    StartingOrAdopting { attempt: &'a AttemptId, stdout: PathBuf },
    /// A view's path held a file that this program had not written. It was moved to quarantine.
    ViewQuarantined { view: PathBuf, moved_to: PathBuf },
    /// A view could not be written. The engine retries.
    ViewFailed { view: PathBuf, error: &'a std::io::Error },
    /// The document was corrupted and has been restored.
    Restored(&'a Restored),
    /// Another client has written to the document. The write was accepted as an edit, or rejected.
    ExternalWrite(&'a JudgedExternalWrite),
    /// An attempt has reported and does not exit. It is stopped after this time.
    Lingering { attempt: &'a AttemptId, linger_timeout: Duration },
}

/// Receives the notices of an engine.
pub trait Observer {
    fn notice(&mut self, notice: Notice<'_>);
}

/// Ignores all notices.
impl Observer for () {
    fn notice(&mut self, _: Notice<'_>) {}
}
