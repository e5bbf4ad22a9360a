//! A run in memory, and the only way to change it: decide, then commit.

mod early_answers;

use std::sync::Arc;
use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input, Timer};
use protocol::run::{Action, AttemptConsequence, Change, Decision, RunState};
use protocol::{Document, Epoch, Machine, ProtocolKind, Protocols, Revision, RunId, Timestamp};
use store::{
    Commit, CommitError, ExternalWrite, LoadedRun, NewEntries, OutboxItem, Part, Position, ReadError,
    SNAPSHOT_EVERY, Store, Unavailable, ViewMark, WriteId,
};

pub use early_answers::EarlyAnswer;
pub(crate) use early_answers::taken_path;

use super::load::{LoadError, decode, find_kind, fold, load_machine, load_spec, open_machine, parts_at};
use crate::clock::Clock;
use crate::run::JudgedExternalWrite;
use crate::run::RunSpec;
use crate::run::Summary;

/// A run as this process knows it. `state` is ahead of the store only between a decision and its commit.
#[derive(Debug)]
pub struct Journal {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub run: RunId,
    pub spec: RunSpec,
    pub state: RunState,
    pub position: Position,
    /// The newest epoch when the run was loaded.
    pub(crate) epoch: Epoch,
    /// Actions that were committed and are not acknowledged yet.
    pub outbox: Vec<OutboxItem>,
    /// The view marks: digests of what was last written to the view files.
    pub views: Vec<ViewMark>,
    /// A write of another client to the document. Nothing can be committed until it is judged: accepted or rejected.
    pub external_write: Option<ExternalWrite>,
    /// How this journal has judged the last external write, until the engine takes it to tell the user.
    pub(crate) judged_external_write: Option<JudgedExternalWrite>,
    /// The answer files that commits have moved aside, until they are taken to tell the user.
    pub early_answers: Vec<EarlyAnswer>,
}

/// What a commit contains besides the decision.
#[derive(Debug, Default)]
pub(crate) struct CommitContext {
    pub(crate) epoch: Option<Epoch>,
    /// Actions that have been performed.
    pub(crate) acknowledged: Vec<String>,
    /// The view marks of the files that were written since the last commit.
    pub(crate) views: Vec<ViewMark>,
    /// The back-off after the first failure; each later one doubles it.
    pub(crate) backoff: Duration,
}

/// Why a decision that met a conflict cannot be made again on the newest state.
pub(crate) enum ReloadError {
    Load(LoadError),
    /// The store reported a conflict, but no other client has committed.
    NotMoved(Unavailable),
}

impl From<LoadError> for ReloadError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl Journal {
    /// Loads a run. Returns `None` if there is no such run.
    pub async fn load(
        store: &Arc<dyn Store>,
        clock: &Clock,
        protocols: Protocols,
        run: &RunId,
    ) -> Result<Option<Self>, LoadError> {
        let Some(loaded) = store.load(run).await? else { return Ok(None) };
        let kind = find_kind(protocols, run, &loaded.protocol)?;
        Self::load_from(store, clock, kind, run, loaded, None).await.map(Some)
    }

    /// Loads a run that exists. A given document takes the place of the stored one.
    pub(crate) async fn load_with_document(
        store: &Arc<dyn Store>,
        clock: &Clock,
        kind: &'static dyn ProtocolKind,
        run: &RunId,
        document: Option<Document>,
    ) -> Result<Self, LoadError> {
        let gone = || LoadError::Damaged { run: run.clone(), what: "it is gone".to_owned() };
        let loaded = store.load(run).await?.ok_or_else(gone)?;
        Self::load_from(store, clock, kind, run, loaded, document).await
    }

    async fn load_from(
        store: &Arc<dyn Store>,
        clock: &Clock,
        kind: &'static dyn ProtocolKind,
        run: &RunId,
        loaded: LoadedRun,
        document: Option<Document>,
    ) -> Result<Self, LoadError> {
        let spec = load_spec(store.as_ref(), run).await?;
        let machine = match document {
            Some(document) => {
                let mut machine = open_machine(kind, run, &spec)?;
                machine.set_document(document);
                machine
            }
            None => load_machine(store.as_ref(), kind, run, &spec, loaded.position.revision).await?,
        };
        Ok(Self {
            store: store.clone(),
            clock: clock.clone(),
            run: run.clone(),
            spec,
            state: fold(machine, run, loaded.snapshot.as_ref(), &loaded.tail)?,
            position: loaded.position,
            epoch: loaded.epoch,
            outbox: loaded.outbox,
            views: loaded.views,
            external_write: loaded.external_write,
            judged_external_write: None,
            early_answers: Vec::new(),
        })
    }

    /// Returns definition, state and document of the run.
    pub fn machine(&self) -> &dyn Machine {
        &*self.state.run.machine
    }

    pub fn kind(&self) -> &'static dyn ProtocolKind {
        self.machine().kind()
    }

    /// Returns the document.
    pub fn document(&self) -> Document {
        self.machine().document()
    }

    /// Returns an entry of the run.
    pub async fn entry(&self, revision: Revision) -> Result<Option<Entry>, LoadError> {
        let stored = self.store.entry(&self.run, revision).await?;
        stored.map(|stored| self.decode(&stored)).transpose()
    }

    /// Returns the document as it was at a revision.
    pub async fn document_at(&self, revision: Revision) -> Result<Option<Document>, ReadError> {
        let parts = parts_at(self.store.as_ref(), &self.run, revision).await?;
        Ok(self.machine().assemble(&parts))
    }

    pub(crate) fn decode(&self, stored: &store::StoredEntry) -> Result<Entry, LoadError> {
        decode(&self.run, stored)
    }

    /// Drops decisions that were not committed and loads the run again. Judges an external write.
    pub async fn reload(&mut self) -> Result<(), LoadError> {
        *self = self.load_again().await?;
        Box::pin(self.judge_external_write()).await
    }

    pub(crate) async fn load_again(&self) -> Result<Self, LoadError> {
        Self::load_with_document(&self.store, &self.clock, self.kind(), &self.run, None).await
    }

    /// Reloads the run after a conflict. Fails if the run has not moved: then no other client was faster, and the
    /// store reported a conflict in error.
    pub(crate) async fn reload_after_conflict(&mut self) -> Result<(), ReloadError> {
        let before = self.position;
        self.reload().await?;
        if self.position == before { Err(self.not_moved()) } else { Ok(()) }
    }

    /// Returns to the state before a decision that met a conflict, and folds the entries committed since. Loading a
    /// large run again could take longer than its engine needs for the next commit.
    ///
    /// Not for the engine: outbox and view marks are not read again.
    pub(crate) async fn catch_up(&mut self, before: RunState) -> Result<(), ReloadError> {
        let caught_up = self.store.catch_up(&self.run, self.position).await.map_err(LoadError::from)?;
        let Some(NewEntries { position, entries }) = caught_up else {
            return self.reload_after_conflict().await;
        };
        if position == self.position {
            return Err(self.not_moved());
        }
        self.state = before;
        for stored in entries {
            let entry = self.decode(&stored)?;
            if self.state.fold(&entry).is_err() || self.state.run.machine.record(&entry).is_err() {
                return self.reload_after_conflict().await;
            }
        }
        self.position = position;
        Ok(())
    }

    fn not_moved(&self) -> ReloadError {
        let (run, revision) = (self.run.clone(), self.position.revision);
        ReloadError::NotMoved(Unavailable::FalseConflict { run, revision })
    }

    /// Returns the run's time, which never goes backwards.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now().max(self.state.at)
    }

    /// Commits a decision that `state.run` already contains. After an error the run must be [reloaded](Self::reload).
    pub(crate) async fn commit(
        &mut self,
        by: Author,
        input: Input,
        decision: Decision,
        context: CommitContext,
    ) -> Result<Entry, CommitError> {
        // Reported as a conflict, because the caller then reloads the run, which judges the write.
        if self.external_write.is_some() {
            let (run, revision) = (self.run.clone(), self.position.revision);
            return Err(CommitError::Conflict { run, expected: revision, found: revision });
        }
        let at = self.now();
        let entry = Entry {
            v: ENTRY_VERSION,
            at,
            by,
            input,
            timers: timers(&decision, at, context.backoff),
            changes: decision.changes,
            actions: decision.actions,
        };
        self.state.fold_timers_and_hosts(&entry);
        let changed = self.record(&entry);
        let revision = self.position.revision.next();
        let snapshot = revision.0.is_multiple_of(SNAPSHOT_EVERY).then(|| self.state.encode_snapshot());
        let outbox: Vec<_> = entry.actions.iter().map(outbox_item).collect();
        let commit = Commit {
            run: self.run.clone(),
            protocol: self.kind().info().name.to_owned(),
            expected: self.position,
            epoch: context.epoch,
            write_id: WriteId::new(),
            entry: entry.encode(),
            parts: changed
                .iter()
                .map(|path| Part { path: path.clone(), body: self.machine().part(path) })
                .collect(),
            document: self.whole_document(),
            outbox: outbox.clone(),
            acknowledged: context.acknowledged.clone(),
            views: context.views.clone(),
            snapshot,
            summary: self.summary().encode(),
        };
        let early_answers = self.move_files_before_commit(&entry.changes);
        self.position = self.write(commit).await.inspect_err(|error| {
            if !matches!(error, CommitError::OutcomeUnknown { .. }) {
                early_answers::put_back(&early_answers);
            }
        })?;
        self.early_answers.extend(early_answers);
        self.outbox.retain(|item| !context.acknowledged.contains(&item.id));
        self.outbox.extend(outbox);
        crate::views::merge_view_marks(&mut self.views, context.views);
        Ok(entry)
    }

    /// Applies the entry to the document. Panics before anything is written if the result breaks the format's rules.
    fn record(&mut self, entry: &Entry) -> Vec<String> {
        let is_new = self.position.revision == Revision(0);
        let checks = self.kind().info().checks_writes;
        let before = (checks && !is_new).then(|| self.document());
        let machine = &mut self.state.run.machine;
        let recorded = machine.record(entry).and_then(|changed| {
            if checks && !changed.is_empty() {
                machine.check_write(before.as_ref())?;
            }
            Ok(changed)
        });
        let (run, revision) = (&self.run, self.position.revision);
        recorded.unwrap_or_else(|error| panic!("BUG: run `{run}` after revision {revision}: {error}"))
    }

    /// Returns the whole document, for a store that keeps it where other clients can read it.
    fn whole_document(&self) -> Option<String> {
        let keeps = self.kind().info().publishes_document && self.store.has_public_documents();
        keeps.then(|| self.document().to_json())
    }

    /// Commits. If the outcome is unknown, asks the store whether the write is there. A write that is known to be lost is
    /// retried once, because the store is reachable again.
    async fn write(&self, commit: Commit) -> Result<Position, CommitError> {
        let mut retried = false;
        loop {
            let (write_id, source) = match self.store.commit(commit.clone()).await {
                Err(CommitError::OutcomeUnknown { write_id, source }) => (write_id, source),
                result => return result,
            };
            match self.store.resolve_unknown_write(&self.run, write_id).await {
                Ok(Some(position)) => return Ok(position),
                Ok(None) if retried => return Err(Unavailable::WriteLost { source }.into()),
                Ok(None) => retried = true,
                Err(_) => return Err(CommitError::OutcomeUnknown { write_id, source }),
            }
        }
    }

    pub fn summary(&self) -> Summary {
        Summary::of(&self.spec, &self.state)
    }
}

pub(crate) fn outbox_item(action: &Action) -> OutboxItem {
    let body = serde_json::to_string(action).expect("BUG: an action is plain data");
    OutboxItem { id: action.id(), body }
}

/// The longest back-off between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// Returns a timer for each attempt that will be retried. The delay doubles with each failure and is cut by up to
/// half at random, so that steps that failed together do not retry together.
fn timers(decision: &Decision, at: Timestamp, first: Duration) -> Vec<Timer> {
    let retried = decision.changes.iter().filter_map(|change| match change {
        Change::Ended { attempt, consequence: AttemptConsequence::WillRetry { failures, .. }, .. } => {
            Some((attempt, *failures))
        }
        _ => None,
    });
    retried
        .map(|(attempt, failures)| {
            let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
            let length = doubled.min(LONGEST_BACKOFF).mul_f64(0.5 + fastrand::f64() / 2.0);
            Timer {
                attempt: attempt.clone(),
                fires_at: at.plus(length),
                length_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
            }
        })
        .collect()
}
