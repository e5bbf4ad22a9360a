//! A store in trouble: in front of a real one, it answers as one that was not reached.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use protocol::run::Request;
use protocol::steps::Steps;
use protocol::{Revision, RunId, StepId};
use runner::{Clock, Journal};
use store::{
    AnyStore, CaughtUp, Commit, CommitError, Digest, EngineHolder, EngineLock, EngineLockError, Loaded, Part,
    Position, ReadError, RunRow, Store, StoredDocument, StoredEntry, Tenure, ViewMark, Watch, WriteError,
    WriteId,
};

use crate::harness::person;

/// What it says to a commit that it does not hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    /// Nothing: whether it landed is not known.
    Nothing,
    /// That somebody else was first, though nobody was.
    Conflict,
}

#[derive(Debug, Clone)]
pub(crate) struct Troubled {
    pub(crate) store: AnyStore,
    /// For the next commits; those after them are handed on.
    answers: Arc<Mutex<VecDeque<Answer>>>,
    /// Whether something is entered in a run while somebody reads all of it.
    busy: Arc<AtomicBool>,
}

impl Troubled {
    pub(crate) fn new(store: AnyStore) -> Self {
        Self { store, answers: Arc::default(), busy: Arc::default() }
    }

    /// From now on nobody who reads all of a run with a step `b` has read the newest of it: it goes on meanwhile.
    pub(crate) fn is_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    async fn go_on(&self, run: &RunId) {
        let journal = Journal::<Steps, _>::load(&self.store, &Clock::system(), run).await;
        let mut journal = journal.unwrap().unwrap();
        let skip = Request::Skip { step: StepId::new("b").unwrap() };
        let revision = journal.position.revision;
        runner::request(&mut journal, person(), skip.clone(), None).await.unwrap();
        if journal.position.revision == revision {
            // It was skipped the last time.
            runner::note_refusal(&mut journal, person(), skip, "a.1".to_owned()).await.unwrap();
        }
    }

    /// Answers so to that many commits from now on.
    pub(crate) fn answers(&self, answer: Answer, times: usize) {
        *self.answers.lock().unwrap() = std::iter::repeat_n(answer, times).collect();
    }
}

impl Store for Troubled {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        match self.answers.lock().unwrap().pop_front() {
            None => {}
            Some(Answer::Conflict) => {
                let (run, expected) = (commit.run, commit.expected.revision);
                return Err(CommitError::Conflict { run, expected, found: expected });
            }
            Some(Answer::Nothing) => {
                let source = std::io::Error::other("no answer").into();
                return Err(CommitError::Unknown { write_id: commit.write_id, source });
            }
        }
        self.store.commit(commit).await
    }

    async fn settle(&self, run: &RunId, write_id: WriteId) -> Result<Option<Position>, ReadError> {
        self.store.settle(run, write_id).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, ReadError> {
        let loaded = self.store.load(run).await?;
        if self.busy.load(Ordering::Relaxed) {
            Box::pin(self.go_on(run)).await;
        }
        Ok(loaded)
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<CaughtUp>, ReadError> {
        self.store.catch_up(run, position).await
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        self.store.protocol(run).await
    }

    async fn newest(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        self.store.newest(run).await
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

    async fn intact(&self, run: &RunId) -> Result<Revision, ReadError> {
        self.store.intact(run).await
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.store.snapshot_at(run, revision).await
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        self.store.parts_at(run, revision).await
    }

    async fn runs(&self) -> Result<Vec<RunRow>, ReadError> {
        self.store.runs().await
    }

    async fn runs_beginning(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        self.store.runs_beginning(beginning, at_most).await
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        self.store.put_blobs(blobs).await
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.store.blob(digest).await
    }

    async fn mark_views(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        self.store.mark_views(run, views).await
    }

    async fn lock_engine_for(&self, run: &RunId, tenure: Tenure) -> Result<EngineLock, EngineLockError> {
        self.store.lock_engine_for(run, tenure).await
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
