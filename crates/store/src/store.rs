//! The contract of every backend.

use std::time::Duration;

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};

use crate::commit::{Commit, OutboxItem, Part, Position, ViewMark, WriteId};
use crate::error::{CommitError, EngineLockError, ReadError, WriteError};
use crate::{Digest, EngineHolder, EngineLock, ExternalWrite, Tenure, Watch};

/// The body of a journal entry or a snapshot, with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    pub revision: Revision,
    pub body: String,
}

/// Everything that an engine needs to continue a run, from one consistent read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    pub protocol: String,
    pub position: Position,
    pub epoch: Epoch,
    pub summary: String,
    /// The newest snapshot.
    pub snapshot: Option<StoredEntry>,
    /// Every entry after the snapshot, or all of them.
    pub tail: Vec<StoredEntry>,
    /// The actions that were not acknowledged, in the order of their commits.
    pub outbox: Vec<OutboxItem>,
    pub views: Vec<ViewMark>,
    /// What another program wrote in place of the document. The fields above ignore it, except the token of the
    /// position: a commit with that token replaces this write.
    pub external_write: Option<ExternalWrite>,
}

/// The entries of a run since a position, from one consistent read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaughtUp {
    pub position: Position,
    /// Every entry after that position.
    pub entries: Vec<StoredEntry>,
}

/// The document of a run, from one consistent read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    pub protocol: String,
    pub revision: Revision,
    /// The newest part of each path, sorted by path.
    pub parts: Vec<Part>,
}

/// One line of `ls`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub run: RunId,
    pub protocol: String,
    pub revision: Revision,
    pub created: Timestamp,
    pub summary: String,
}

/// The default of [`Store::race_timeout`].
pub(crate) const RACE_TIMEOUT: Duration = Duration::from_millis(1300);

/// Durable storage of runs. Clones share it.
///
/// An acknowledged write is on disk. Dropping the future of a write does not undo it: the write may still land.
pub trait Store: Clone + Send + Sync + 'static {
    /// Whether engines on other machines can use it. If not, every attempt of a run is on this machine, whatever its
    /// host name was when the attempt started.
    fn is_shared(&self) -> bool;

    /// How long a client retries a commit that keeps losing against other writers of the run.
    fn race_timeout(&self) -> Duration {
        RACE_TIMEOUT
    }

    /// Commits one change. Returns the position it created.
    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Position, CommitError>> + Send;

    /// Tells whether a write landed, and at which position. Resolves a [`CommitError::Unknown`].
    ///
    /// For a write of this store or a clone of it, `None` is final: it did not land and never will, so it may be
    /// repeated. For a write of another client, `None` means that it has not landed yet.
    fn settle(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> impl Future<Output = Result<Option<Position>, ReadError>> + Send;

    /// Reads a run, or returns `None` if it does not exist.
    fn load(&self, run: &RunId) -> impl Future<Output = Result<Option<Loaded>, ReadError>> + Send;

    /// Returns the entries since `position`, for a client that has read the run there. Returns `None` if entries alone
    /// do not describe the change, so that the run must be loaded.
    fn catch_up(
        &self,
        run: &RunId,
        position: Position,
    ) -> impl Future<Output = Result<Option<CaughtUp>, ReadError>> + Send;

    /// Returns the protocol of a run, or `None` if it does not exist.
    fn protocol(&self, run: &RunId) -> impl Future<Output = Result<Option<String>, ReadError>> + Send;

    /// Returns the newest revision of a run, or `None` if it does not exist.
    fn newest(&self, run: &RunId) -> impl Future<Output = Result<Option<Revision>, ReadError>> + Send;

    /// Returns the document of a run, or `None` if it does not exist.
    fn document(&self, run: &RunId)
    -> impl Future<Output = Result<Option<StoredDocument>, ReadError>> + Send;

    /// Returns one entry of the journal.
    fn entry(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> impl Future<Output = Result<Option<StoredEntry>, ReadError>> + Send;

    /// Returns the entries after a revision, oldest first.
    fn entries(
        &self,
        run: &RunId,
        after: Revision,
    ) -> impl Future<Output = Result<Vec<StoredEntry>, ReadError>> + Send;

    /// Returns the entries after `after` up to and including `last`, to read a long journal in pages.
    fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> impl Future<Output = Result<Vec<StoredEntry>, ReadError>> + Send;

    /// Returns the last revision up to which the journal is complete and unchanged since it was written.
    fn intact(&self, run: &RunId) -> impl Future<Output = Result<Revision, ReadError>> + Send;

    /// Returns the newest snapshot that is not newer than a revision.
    fn snapshot_at(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> impl Future<Output = Result<Option<StoredEntry>, ReadError>> + Send;

    /// Returns the document at a revision: of each path the newest part that is not newer, sorted by path.
    fn parts_at(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> impl Future<Output = Result<Vec<Part>, ReadError>> + Send;

    /// Returns all runs, oldest first.
    fn runs(&self) -> impl Future<Output = Result<Vec<RunRow>, ReadError>> + Send;

    /// Returns the sorted names of at most `at_most` runs that begin with `beginning`.
    fn runs_beginning(
        &self,
        beginning: &str,
        at_most: usize,
    ) -> impl Future<Output = Result<Vec<RunId>, ReadError>> + Send;

    /// Stores blobs under their digests. Existing ones are not written again.
    fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> impl Future<Output = Result<Vec<Digest>, WriteError>> + Send;

    /// Returns the bytes of a digest, after verifying them.
    fn blob(&self, digest: &Digest) -> impl Future<Output = Result<Option<Vec<u8>>, ReadError>> + Send;

    /// Whether documents are stored where other programs can read and write them.
    fn keeps_documents(&self) -> bool {
        false
    }

    /// Keeps a copy of an external write, and of what it overwrote unseen. Returns where the copy is, or `None` if
    /// there was nothing to copy. By default the copy is a blob.
    fn set_aside(
        &self,
        _run: &RunId,
        write: &ExternalWrite,
    ) -> impl Future<Output = Result<Option<String>, WriteError>> + Send {
        let bodies: Vec<_> = write.body.iter().cloned().collect();
        async { Ok(self.put_blobs(bodies).await?.first().map(|digest| format!("blob {digest}"))) }
    }

    /// Records what was written to view files after the last commit, when the engine stops.
    fn mark_views(
        &self,
        run: &RunId,
        views: Vec<ViewMark>,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Makes this process the run's engine until the [`EngineLock`] is dropped or the process ends in any way.
    ///
    /// Never waits for another engine. The run need not exist yet, so that its creator can hold the lock from the first
    /// commit on. Each lock has a higher epoch than the one before.
    fn lock_engine(&self, run: &RunId) -> impl Future<Output = Result<EngineLock, EngineLockError>> + Send {
        self.lock_engine_for(run, Tenure::Engine)
    }

    /// Takes the engine lock for a [`Tenure`]. Waits a short while if a one-shot holds it.
    fn lock_engine_for(
        &self,
        run: &RunId,
        tenure: Tenure,
    ) -> impl Future<Output = Result<EngineLock, EngineLockError>> + Send;

    /// Returns the holder of the engine lock, or `None` if it is free.
    fn engine_holder(
        &self,
        run: &RunId,
    ) -> impl Future<Output = Result<Option<EngineHolder>, ReadError>> + Send;

    /// Returns the holder of the engine lock without waiting for writers, if the backend can see it without a lock;
    /// otherwise like [`engine_holder`](Self::engine_holder).
    fn peek_engine_holder(
        &self,
        run: &RunId,
    ) -> impl Future<Output = Result<Option<EngineHolder>, ReadError>> + Send {
        self.engine_holder(run)
    }

    /// Follows the journal after a revision, across processes.
    fn watch(&self, run: &RunId, after: Revision) -> impl Future<Output = Result<Watch, ReadError>> + Send;
}
