//! The errors of an open store: one enum per operation, and [`Unavailable`], which all of them include.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use linux::ProcessInfo;
use protocol::{Epoch, Revision, RunId};

use crate::{Digest, WriteId};

/// The store cannot be used now. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("`{}` was removed or replaced while it was in use", path.display())]
    Gone { path: PathBuf },
    #[error("`{}` was migrated to format {found} by a newer callboard; this one knows {known}", path.display())]
    Upgraded { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is damaged", path.display())]
    Damaged { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The disk has no space left.
    #[error("the disk that holds `{}` is full", path.display())]
    Full { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// The store can be read, but not written.
    #[error("`{}` cannot be written", path.display())]
    NotWritable { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// Another writer does not release the writer lock.
    #[error("`{}` is held by {}", path.display(), holder.as_ref().map_or("a process we cannot see".to_owned(), ProcessInfo::to_string))]
    Held { path: PathBuf, holder: Option<ProcessInfo> },
    #[error("the database `{}` does not answer", path.display())]
    Database { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// The write got no answer twice, and each time it was found not to have landed.
    #[error("the store did not answer a write, and did not keep it")]
    WriteLost { source: Box<dyn Error + Send + Sync> },
    /// The store reports a conflict, but the run has not changed.
    #[error(
        "the store reports a conflicting write to run `{run}` since revision {revision}, but there is none"
    )]
    FalseConflict { run: RunId, revision: Revision },
    #[error("could not {doing} the NATS server `{server}`")]
    Server { server: String, doing: &'static str, source: Box<dyn Error + Send + Sync> },
    /// A deleted stream is not created again: an empty journal would look as if there had never been a run.
    #[error("the stream `{stream}` at the NATS server `{server}` is gone")]
    StreamDeleted { server: String, stream: String },
    /// The store at this address was replaced by another one. Nothing is written to it.
    #[error("the NATS server `{server}` has another store now than when this process connected")]
    StoreReplaced { server: String },
    /// Another program has written to the run's subject, or messages are missing.
    #[error("the journal of run `{run}` at the NATS server `{server}` cannot be parsed")]
    BadJournal { server: String, run: RunId, source: Box<dyn Error + Send + Sync> },
    #[error("a newer callboard has written to run `{run}` at the NATS server `{server}`")]
    NewerWriter { server: String, run: RunId, source: Box<dyn Error + Send + Sync> },
}

impl Unavailable {
    /// Classifies an error of the operating system.
    pub(crate) fn io(action: &'static str, path: PathBuf, source: io::Error) -> Self {
        use io::ErrorKind;
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path, source: source.into() },
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                Self::NotWritable { path, source: source.into() }
            }
            _ => Self::Io { action, path, source },
        }
    }
}

/// Why a commit was not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another client committed first. The caller reloads the run and tries again: a request may then be refused, a fact is
    /// repeated until it is committed.
    #[error("run `{run}` is at revision {found}, the change was made for revision {expected}")]
    Conflict { run: RunId, expected: Revision, found: Revision },
    /// The write may or may not have landed. [`Store::resolve_unknown_write`](crate::Store::resolve_unknown_write)
    /// finds out.
    #[error("whether write `{write_id}` landed is not known")]
    OutcomeUnknown { write_id: WriteId, source: Box<dyn Error + Send + Sync> },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Nothing was written.
    #[error("the change has {size} bytes, more than the {limit} that the store accepts at once")]
    TooLarge { size: usize, limit: usize },
    /// A later engine holds the run. The engine that gets this error stops; it does not retry.
    #[error("this engine (epoch {held}) was replaced by a later one (epoch {by})")]
    Fenced { held: Epoch, by: Epoch },
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("the content of blob `{digest}` does not match its digest")]
    DamagedBlob { digest: Digest },
}

/// Why a write outside a commit failed: of blobs, view marks or a quarantined copy. Such writes are idempotent and may be repeated.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("there is no run `{run}`")]
    NoSuchRun { run: RunId },
}

/// Why this process did not become the run's engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineLockError {
    #[error("run `{run}` already has an engine: process {pid} on `{host}`{}", if *stopped { ", which is stopped" } else { "" })]
    Held {
        run: RunId,
        pid: u32,
        host: String,
        /// Whether the process is stopped by Ctrl-Z or SIGSTOP. `callboard stop` does not do that.
        stopped: bool,
    },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
