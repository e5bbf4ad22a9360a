//! What can go wrong once a store is open: one enum per operation, and [`Unavailable`], which all of them share.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use protocol::{Epoch, Revision, RunId};

use crate::{Digest, Holder, WriteId};

/// The store itself cannot be used now. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    #[error("`{}` was removed or replaced while it was in use", path.display())]
    Gone { path: PathBuf },
    #[error("`{}` was brought to format {found} by a newer callboard; this one knows {known}", path.display())]
    Upgraded { path: PathBuf, found: i64, known: i64 },
    #[error("`{}` is damaged", path.display())]
    Damaged { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// Nothing more fits on the disk.
    #[error("the disk that holds `{}` is full", path.display())]
    Full { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// It can be looked at, no more.
    #[error("`{}` cannot be written", path.display())]
    NotWritable { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// Somebody is writing and does not come to an end.
    #[error("`{}` is held by {}", path.display(), holder.as_ref().map_or("a process we cannot see".to_owned(), Holder::to_string))]
    Held { path: PathBuf, holder: Option<Holder> },
    #[error("the database `{}` does not answer", path.display())]
    Database { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// Taken without an answer, and found out not to have landed.
    #[error("the store did not keep a change that it had taken")]
    Lost { source: Box<dyn Error + Send + Sync> },
    /// A conflict with nobody.
    #[error(
        "the store refuses a change of run `{run}` as if somebody had written since revision {revision}, and nobody has"
    )]
    Unmoved { run: RunId, revision: Revision },
    #[error("could not {doing} the NATS server `{server}`")]
    Server { server: String, doing: &'static str, source: Box<dyn Error + Send + Sync> },
    /// Nothing is put in its place: an empty journal would look as if there had never been a run.
    #[error("the stream `{stream}` at the NATS server `{server}` is gone")]
    NoStream { server: String, stream: String },
    /// What was at this address is not there any more, and something like it is. Nothing is written to it.
    #[error("the NATS server `{server}` has another store now than when we came")]
    OtherStore { server: String },
    /// Somebody else has written where only we do, or something is missing there.
    #[error("what the NATS server `{server}` has of run `{run}` cannot be understood")]
    NotUnderstood { server: String, run: RunId, source: Box<dyn Error + Send + Sync> },
    #[error("a newer callboard has written to run `{run}` at the NATS server `{server}`")]
    NewerWriter { server: String, run: RunId, source: Box<dyn Error + Send + Sync> },
}

impl Unavailable {
    /// What an error of the system means for us.
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
    /// Somebody else was first. A request re-reads and re-decides; a fact is tried again until it lands.
    #[error("run `{run}` is at revision {found}, the change was made for revision {expected}")]
    Conflict { run: RunId, expected: Revision, found: Revision },
    /// The write may or may not have landed. [`Store::settle`](crate::Store::settle) tells.
    #[error("whether write `{write_id}` landed is not known")]
    Unknown { write_id: WriteId, source: Box<dyn Error + Send + Sync> },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// Nothing was written.
    #[error("{size} bytes would have to be written at once, and the store takes {limit}")]
    TooLarge { size: usize, limit: usize },
    /// A later engine holds the run. The one that sees this stops; it does not decide again.
    #[error("this engine (epoch {held}) was replaced by a later one (epoch {by})")]
    Fenced { held: Epoch, by: Epoch },
}

/// Why a read gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("blob `{digest}` does not have the content its name promises")]
    DamagedBlob { digest: Digest },
}

/// Why something outside a commit was not written. Such writes may be repeated: a second one changes nothing.
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
    Held { run: RunId, pid: u32, host: String, stopped: bool },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
