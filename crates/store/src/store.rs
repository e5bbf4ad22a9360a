//! The contract every backend keeps.

use std::time::Duration;

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};

use crate::commit::{Commit, OutboxItem, Part, Position, ViewMark, WriteId};
use crate::error::{CommitError, EngineLockError, ReadError, WriteError};
use crate::{Digest, EngineHolder, EngineLock, ExternalWrite, Tenure, Watch};

/// A body of the journal, or a snapshot, and the revision it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    pub revision: Revision,
    pub body: String,
}

/// All that is needed to go on with a run, as it was at one instant.
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
    /// What was not acknowledged, in the order it was committed.
    pub outbox: Vec<OutboxItem>,
    pub views: Vec<ViewMark>,
    /// What somebody else has put in the place of the document; all above is as if it were not there, but for the token
    /// of the position: whoever commits with it has seen this.
    pub foreign: Option<ExternalWrite>,
}

/// What became of a run since a position, as it was at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaughtUp {
    pub position: Position,
    /// Every entry after the one at which it stood.
    pub entries: Vec<StoredEntry>,
}

/// The document of a run and nothing else of it, as it was at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    pub protocol: String,
    pub revision: Revision,
    /// The newest of each path, sorted by path.
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

/// How long whoever loses races for one run tries again, unless set.
pub(crate) const RACES: Duration = Duration::from_millis(1300);

/// A place where runs are kept. Clones share it.
///
/// What is acknowledged is on disk. Dropping the future of a write does not undo it: the write may still land.
pub trait Store: Clone + Send + Sync + 'static {
    /// Whether engines on other machines may have it, too. Where they cannot, every attempt of a run is here, whatever
    /// this machine was called when it began.
    fn is_shared(&self) -> bool;

    /// How long whoever loses races with others for one run tries again.
    fn races(&self) -> Duration {
        RACES
    }

    /// Makes one change true, and answers with the position it created.
    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Position, CommitError>> + Send;

    /// Tells whether that write landed, and where; settles a [`CommitError::Unknown`].
    ///
    /// Of a write that this store, or a clone of it, could not answer, `None` is final: it did not land and never will,
    /// so it may be made again. Of anybody else's it means that it has not landed yet.
    fn settle(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> impl Future<Output = Result<Option<Position>, ReadError>> + Send;

    /// Reads a run in one consistent look; `None` when there is no such run.
    fn load(&self, run: &RunId) -> impl Future<Output = Result<Option<Loaded>, ReadError>> + Send;

    /// What became of a run since it stood there, for whoever has read it then; `None` where its entries alone do not tell,
    /// and it has to be loaded.
    fn catch_up(
        &self,
        run: &RunId,
        position: Position,
    ) -> impl Future<Output = Result<Option<CaughtUp>, ReadError>> + Send;

    /// The protocol of a run; `None` when there is no such run.
    fn protocol(&self, run: &RunId) -> impl Future<Output = Result<Option<String>, ReadError>> + Send;

    /// The newest revision of a run; `None` when there is no such run.
    fn newest(&self, run: &RunId) -> impl Future<Output = Result<Option<Revision>, ReadError>> + Send;

    /// The document of a run in one look; `None` when there is no such run.
    fn document(&self, run: &RunId)
    -> impl Future<Output = Result<Option<StoredDocument>, ReadError>> + Send;

    /// One entry of the journal.
    fn entry(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> impl Future<Output = Result<Option<StoredEntry>, ReadError>> + Send;

    /// The journal after a revision, oldest first.
    fn entries(
        &self,
        run: &RunId,
        after: Revision,
    ) -> impl Future<Output = Result<Vec<StoredEntry>, ReadError>> + Send;

    /// The journal after one revision up to another one, which is included: a page of it, for whoever reads a long one.
    fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> impl Future<Output = Result<Vec<StoredEntry>, ReadError>> + Send;

    /// Up to which revision the journal is known to be as it was written, without a gap from the first one on.
    fn intact(&self, run: &RunId) -> impl Future<Output = Result<Revision, ReadError>> + Send;

    /// The newest snapshot that is not newer than a revision.
    fn snapshot_at(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> impl Future<Output = Result<Option<StoredEntry>, ReadError>> + Send;

    /// The document as it was at a revision: of each path the newest part that is not newer, sorted by path.
    fn parts_at(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> impl Future<Output = Result<Vec<Part>, ReadError>> + Send;

    /// All runs, oldest first.
    fn runs(&self) -> impl Future<Output = Result<Vec<RunRow>, ReadError>> + Send;

    /// The names of runs that begin so, in their order, at most that many.
    fn runs_beginning(
        &self,
        beginning: &str,
        at_most: usize,
    ) -> impl Future<Output = Result<Vec<RunId>, ReadError>> + Send;

    /// Keeps these bytes under their digests. What is already there is not written again.
    fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> impl Future<Output = Result<Vec<Digest>, WriteError>> + Send;

    /// The bytes of that digest, checked against it.
    fn blob(&self, digest: &Digest) -> impl Future<Output = Result<Option<Vec<u8>>, ReadError>> + Send;

    /// Whether whole documents are kept where others can read and write them.
    fn keeps_documents(&self) -> bool {
        false
    }

    /// Keeps what somebody else has put in the place of a document, and what that has overwritten unseen; answers where,
    /// if there is anything to keep. Where there is no better place for it, as a blob.
    fn set_aside(
        &self,
        _run: &RunId,
        foreign: &ExternalWrite,
    ) -> impl Future<Output = Result<Option<String>, WriteError>> + Send {
        let bodies: Vec<_> = foreign.body.iter().cloned().collect();
        async { Ok(self.put_blobs(bodies).await?.first().map(|digest| format!("blob {digest}"))) }
    }

    /// Remembers what was written to view files outside a commit, when the run rests.
    fn mark_views(
        &self,
        run: &RunId,
        views: Vec<ViewMark>,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Makes this process the run's engine until the [`EngineLock`] is dropped or the process ends, however it ends.
    ///
    /// Never waits for another engine. The run need not exist yet, so that its creator can hold it from the first
    /// commit on. Each lead has a higher epoch than the one before.
    fn lock_engine(&self, run: &RunId) -> impl Future<Output = Result<EngineLock, EngineLockError>> + Send {
        self.lock_engine_for(run, Tenure::Engine)
    }

    /// The same, saying for how long. Whoever leads for an errand only is waited for, a run_at.
    fn lock_engine_for(
        &self,
        run: &RunId,
        tenure: Tenure,
    ) -> impl Future<Output = Result<EngineLock, EngineLockError>> + Send;

    /// Who leads the run now, if anybody does.
    fn holder(&self, run: &RunId) -> impl Future<Output = Result<Option<EngineHolder>, ReadError>> + Send;

    /// The same for whoever only looks: a leader that can be seen without a turn among the writers is told without one.
    fn peek_engine_holder(
        &self,
        run: &RunId,
    ) -> impl Future<Output = Result<Option<EngineHolder>, ReadError>> + Send {
        self.holder(run)
    }

    /// Follows the journal from a revision on, across processes.
    fn watch(&self, run: &RunId, after: Revision) -> impl Future<Output = Result<Watch, ReadError>> + Send;
}
