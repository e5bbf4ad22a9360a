//! A faulty store: a proxy in front of a real one that answers commits wrongly.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use protocol::entry::Entry;
use protocol::run::Request;
use protocol::{PROTOCOLS, Revision, RunId, StepId};
use runner::{Clock, Journal};
use store::{
    AnyStore, Commit, CommitError, Digest, EngineHolder, EngineLock, EngineLockError, LoadedRun, LockPurpose,
    NewEntries, Part, Position, ReadError, RunListing, Store, StoredDocument, StoredEntry, ViewMark, Watch,
    WriteError, WriteId,
};
use tokio::sync::Notify;

use super::test_author;

/// A wrong answer to a commit. Unless it says otherwise, the commit is not forwarded.
#[derive(Debug, Clone, Copy)]
pub enum CommitFault {
    /// No answer: the outcome is unknown.
    NoAnswer,
    /// No answer, though the commit was forwarded.
    NoAnswerAfterCommit,
    /// A conflict, though no other client has written.
    Conflict,
    /// The commit is too large, whatever its size.
    TooLarge,
    /// The engine is killed before the commit.
    KilledBefore,
    /// The engine is killed after the commit, and does not learn of it.
    KilledAfter,
}

/// Returns the fault with which the commit of an entry is answered, or `None` to forward it.
type Choose = Box<dyn FnMut(&Entry) -> Option<CommitFault> + Send>;

/// A store that can answer commits wrongly. All other calls are forwarded, except those for which the trait's default is used:
/// `conflict_timeout`, `quarantine_external_write`.
pub struct FaultyStore {
    pub store: AnyStore,
    /// The faults of the next commits; later commits are forwarded. Unused if there is a `choose`.
    answers: Mutex<VecDeque<CommitFault>>,
    choose: Mutex<Option<Choose>>,
    /// Notified when the engine is to be killed: the caller drops it.
    pub killed: Notify,
    /// Whether an entry is committed during every load.
    commits_during_loads: AtomicBool,
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("store", &self.store).finish_non_exhaustive()
    }
}

impl FaultyStore {
    pub fn new(store: AnyStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            answers: Mutex::default(),
            choose: Mutex::default(),
            killed: Notify::new(),
            commits_during_loads: AtomicBool::default(),
        })
    }

    /// Returns a store that chooses its answer by the entry of each commit.
    pub fn with_fault_for_entry(
        store: AnyStore,
        choose: impl FnMut(&Entry) -> Option<CommitFault> + Send + 'static,
    ) -> Arc<Self> {
        let faulty = Self::new(store);
        *faulty.choose.lock().expect("no thread has panicked") = Some(Box::new(choose));
        faulty
    }

    fn answer(&self, commit: &Commit) -> Option<CommitFault> {
        let mut choose = self.choose.lock().expect("no thread has panicked");
        match choose.as_mut() {
            Some(choose) => choose(&Entry::decode(&commit.entry).expect("an entry of ours")),
            None => self.answers.lock().expect("no thread has panicked").pop_front(),
        }
    }

    async fn kill(&self) -> ! {
        self.killed.notify_one();
        std::future::pending().await
    }

    /// Loads a run whose journal commits here.
    pub async fn journal(self: &Arc<Self>, run: &RunId) -> Journal {
        let store: Arc<dyn Store> = Arc::<Self>::clone(self);
        Journal::load(&store, &Clock::system(), PROTOCOLS, run)
            .await
            .expect("the store answers")
            .expect("the run exists")
    }

    /// From now on, every load of a run with a step `b` is stale when it returns: an entry is committed meanwhile.
    pub fn commit_during_loads(&self) {
        self.commits_during_loads.store(true, Ordering::Relaxed);
    }

    async fn commit_something(&self, run: &RunId) {
        let journal = Journal::load(&self.store, &Clock::system(), PROTOCOLS, run).await;
        let mut journal = journal.expect("the store answers").expect("the run exists");
        let skip = Request::Skip { step: StepId::new("b").expect("a name") };
        let revision = journal.position.revision;
        runner::request(&mut journal, test_author(), skip.clone(), None)
            .await
            .expect("it is granted or refused");
        if journal.position.revision == revision {
            // The step was skipped the last time.
            runner::record_refusal(&mut journal, test_author(), skip, "a#1.1".to_owned())
                .await
                .expect("the store answers");
        }
    }

    /// Answers the next `times` commits with `answer`.
    pub fn set_faults(&self, answer: CommitFault, times: usize) {
        *self.answers.lock().expect("no thread has panicked") = std::iter::repeat_n(answer, times).collect();
    }

    /// Whether faults of [`set_faults`](Self::set_faults) are left.
    pub fn has_faults(&self) -> bool {
        !self.answers.lock().expect("no thread has panicked").is_empty()
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        let unknown = |write_id| {
            let source = std::io::Error::other("no answer").into();
            Err(CommitError::OutcomeUnknown { write_id, source })
        };
        match self.answer(&commit) {
            None => self.store.commit(commit).await,
            Some(CommitFault::Conflict) => {
                let (run, expected) = (commit.run, commit.expected.revision);
                Err(CommitError::Conflict { run, expected, found: expected })
            }
            Some(CommitFault::TooLarge) => Err(CommitError::TooLarge { size: commit.size(), limit: 0 }),
            Some(CommitFault::NoAnswer) => unknown(commit.write_id),
            Some(CommitFault::NoAnswerAfterCommit) => {
                let write_id = commit.write_id;
                self.store.commit(commit).await?;
                unknown(write_id)
            }
            Some(CommitFault::KilledBefore) => self.kill().await,
            Some(CommitFault::KilledAfter) => {
                self.store.commit(commit).await?;
                self.kill().await
            }
        }
    }

    async fn resolve_unknown_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        self.store.resolve_unknown_write(run, write_id).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, ReadError> {
        let loaded = self.store.load(run).await?;
        if self.commits_during_loads.load(Ordering::Relaxed) {
            Box::pin(self.commit_something(run)).await;
        }
        Ok(loaded)
    }

    async fn remove_run(&self, lock: &EngineLock, position: Position) -> Result<(), CommitError> {
        self.store.remove_run(lock, position).await
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<NewEntries>, ReadError> {
        self.store.catch_up(run, position).await
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        self.store.protocol(run).await
    }

    async fn newest_revision(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        self.store.newest_revision(run).await
    }

    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError> {
        self.store.document(run).await
    }

    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.store.entry(run, revision).await
    }

    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError> {
        self.store.entries(run, after).await
    }

    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        self.store.entries_between(run, after, last).await
    }

    async fn last_intact_revision(&self, run: &RunId) -> Result<Revision, ReadError> {
        self.store.last_intact_revision(run).await
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.store.snapshot_at(run, revision).await
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        self.store.parts_at(run, revision).await
    }

    async fn runs(&self) -> Result<Vec<RunListing>, ReadError> {
        self.store.runs().await
    }

    async fn runs_with_prefix(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        self.store.runs_with_prefix(beginning, at_most).await
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        self.store.put_blobs(blobs).await
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.store.blob(digest).await
    }

    fn has_public_documents(&self) -> bool {
        self.store.has_public_documents()
    }

    async fn record_view_marks(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        self.store.record_view_marks(run, views).await
    }

    async fn lock_engine_for(
        &self,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<EngineLock, EngineLockError> {
        self.store.lock_engine_for(run, purpose).await
    }

    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        self.store.engine_holder(run).await
    }

    async fn peek_engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        self.store.peek_engine_holder(run).await
    }

    async fn watch(&self, run: &RunId, after: Revision) -> Result<Watch, ReadError> {
        self.store.watch(run, after).await
    }
}
