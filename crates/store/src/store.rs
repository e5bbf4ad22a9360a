//! The contract of every backend.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};

use crate::commit::{Commit, OutboxItem, Part, Position, ViewMark, WriteId};
use crate::error::{CommitError, EngineLockError, ReadError, WriteError};
use crate::{Digest, EngineHolder, EngineLock, ExternalWrite, LockPurpose, Watch};

/// The body of a journal entry or a snapshot, with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    pub revision: Revision,
    pub body: String,
}

/// Everything that an engine needs to continue a run, from one consistent read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedRun {
    pub protocol: String,
    pub position: Position,
    pub epoch: Epoch,
    /// A few fields for `ls`, from the newest commit.
    pub summary: String,
    /// The newest snapshot.
    pub snapshot: Option<StoredEntry>,
    /// Every entry after the snapshot, or all of them.
    pub tail: Vec<StoredEntry>,
    /// The actions that were not acknowledged, in the order of their commits.
    pub outbox: Vec<OutboxItem>,
    pub views: Vec<ViewMark>,
    /// A write of another program to the document, made after our last commit. The fields above are as if it had not
    /// happened, except the token of the position: a commit with that token replaces this write.
    pub external_write: Option<ExternalWrite>,
}

/// The entries of a run since a position, from one consistent read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntries {
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
pub struct RunListing {
    pub run: RunId,
    pub protocol: String,
    pub revision: Revision,
    pub created: Timestamp,
    pub summary: String,
}

/// The default of [`Store::conflict_timeout`].
pub(crate) const DEFAULT_CONFLICT_TIMEOUT: Duration = Duration::from_millis(1300);

/// Durable storage of runs. Callers share it as `Arc<dyn Store>`.
///
/// An acknowledged write is on disk. Dropping the future of a write does not undo it: the write may still land.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Whether engines on other machines can use it. If not, every attempt of a run is on this machine, whatever its
    /// host name was when the attempt started.
    fn is_shared(&self) -> bool;

    /// How long a client retries a commit that keeps losing against other writers of the run.
    fn conflict_timeout(&self) -> Duration {
        DEFAULT_CONFLICT_TIMEOUT
    }

    /// Commits one change. Returns the position it created.
    async fn commit(&self, commit: Commit) -> Result<Position, CommitError>;

    /// Tells whether a write landed, and at which position. Resolves a [`CommitError::OutcomeUnknown`].
    ///
    /// For a write of this store or a clone of it, `None` is final: it did not land and never will, so it may be
    /// repeated. For a write of another client, `None` means that it has not landed yet.
    async fn resolve_unknown_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError>;

    /// Reads a run, or returns `None` if it does not exist.
    async fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, ReadError>;

    /// Returns the entries after `position`, for a client that has read the run up to there. Returns `None` if entries
    /// alone do not describe what has changed: the client must load the run.
    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<NewEntries>, ReadError>;

    /// Returns the protocol of a run, or `None` if it does not exist.
    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError>;

    /// Returns the newest revision of a run, or `None` if it does not exist.
    async fn newest_revision(&self, run: &RunId) -> Result<Option<Revision>, ReadError>;

    /// Returns the document of a run, or `None` if it does not exist.
    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError>;

    /// Returns one entry of the journal.
    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError>;

    /// Returns the entries after a revision, oldest first.
    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError>;

    /// Returns the entries after `after` up to and including `last`, to read a long journal in pages.
    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError>;

    /// Returns the last revision up to which the journal is complete and unchanged since it was written.
    async fn last_intact_revision(&self, run: &RunId) -> Result<Revision, ReadError>;

    /// Returns the newest snapshot that is not newer than a revision.
    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError>;

    /// Returns the document at a revision: of each path the newest part that is not newer, sorted by path.
    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError>;

    /// Returns all runs, oldest first.
    async fn runs(&self) -> Result<Vec<RunListing>, ReadError>;

    /// Returns the sorted names of at most `at_most` runs that begin with `beginning`.
    async fn runs_with_prefix(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError>;

    /// Stores blobs under their digests. Existing ones are not written again.
    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError>;

    /// Returns the bytes of a digest, after verifying them.
    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError>;

    /// Whether documents are stored where other programs can read and write them.
    fn has_public_documents(&self) -> bool {
        false
    }

    /// Keeps a copy of an external write, and of the external writes before it, back to our last commit. Returns where
    /// the copy is, or `None` if there was nothing to copy. By default only this write is copied, to a blob.
    async fn quarantine_external_write(
        &self,
        _run: &RunId,
        write: &ExternalWrite,
    ) -> Result<Option<String>, WriteError> {
        let bodies: Vec<_> = write.body.iter().cloned().collect();
        Ok(self.put_blobs(bodies).await?.first().map(|digest| format!("blob {digest}")))
    }

    /// Records the view marks (path, revision, digest) of the view files that were written after the last commit. The
    /// engine does so when it stops.
    async fn record_view_marks(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError>;

    /// Makes this process the run's engine until the [`EngineLock`] is dropped or the process ends in any way.
    ///
    /// Never waits for another engine. The run need not exist yet, so that its creator can hold the lock from the first
    /// commit on. Each lock has a higher epoch than the one before.
    async fn lock_engine(&self, run: &RunId) -> Result<EngineLock, EngineLockError> {
        self.lock_engine_for(run, LockPurpose::Engine).await
    }

    /// Takes the engine lock for a [`LockPurpose`]. Waits a short while if a command holds it for one request
    /// ([`LockPurpose::OneShot`]).
    async fn lock_engine_for(&self, run: &RunId, purpose: LockPurpose)
    -> Result<EngineLock, EngineLockError>;

    /// Returns the holder of the engine lock, or `None` if it is free.
    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError>;

    /// Returns the holder of the engine lock without waiting for writers, if the backend can see it without a lock;
    /// otherwise like [`engine_holder`](Self::engine_holder).
    async fn peek_engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        self.engine_holder(run).await
    }

    /// Removes the run of the lock if it is still at `position`: journal, document, snapshots and outbox. Blobs stay,
    /// because runs share them. The epoch stays, so that an old engine is fenced if the name is used again.
    async fn remove_run(&self, lock: &EngineLock, position: Position) -> Result<(), CommitError>;

    /// Follows the journal after a revision, across processes.
    async fn watch(&self, run: &RunId, after: Revision) -> Result<Watch, ReadError>;
}
