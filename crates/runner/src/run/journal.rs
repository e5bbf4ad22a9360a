//! A run in memory, and the only way to change it: decide, then commit.

use std::sync::Arc;
use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input, RunState, Timer};
use protocol::run::{Action, Change, Decision, Exit, Run};
use protocol::{Epoch, Protocol, Revision, RunId, Stamp};
use store::{
    CaughtUp, Commit, CommitError, ExternalWrite, OutboxItem, Part, Position, ReadError, SNAPSHOT_EVERY,
    Store, Unavailable, ViewMark, WriteId,
};

use super::load::{LoadError, assemble, decode, document_at, load_spec};
use crate::clock::Clock;
use crate::run::ResolvedWrite;
use crate::run::RunSpec;
use crate::run::Summary;

/// A run as this process knows it. `state.run` is ahead of the store only between a decision and its commit.
#[derive(Debug)]
pub struct Journal<P: Protocol> {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub run: RunId,
    pub spec: RunSpec<P>,
    pub state: RunState<P>,
    pub document: P::Document,
    pub position: Position,
    /// The newest epoch when the run was loaded.
    pub(crate) epoch: Epoch,
    /// Actions that were committed and are not acknowledged yet.
    pub outbox: Vec<OutboxItem>,
    /// The marks of the view files.
    pub views: Vec<ViewMark>,
    /// A write of another client to the document. Nothing can be committed until it is resolved.
    pub external_write: Option<ExternalWrite>,
    /// How the last external write was resolved by this journal.
    pub(crate) resolved_write: Option<ResolvedWrite>,
}

/// What a commit contains besides the decision.
#[derive(Debug, Default)]
pub(crate) struct CommitContext {
    pub(crate) epoch: Option<Epoch>,
    /// Actions that have been performed.
    pub(crate) acknowledged: Vec<String>,
    pub(crate) views: Vec<ViewMark>,
    /// The first back-off; later ones double.
    pub(crate) backoff: Duration,
}

/// The state before a decision, to return to after a conflict.
pub(crate) struct SavedState<P: Protocol> {
    state: RunState<P>,
    document: P::Document,
}

/// Why a decision cannot be retried after a conflict.
pub(crate) enum ReloadError {
    Load(LoadError),
    NotMoved(Unavailable),
}

impl From<LoadError> for ReloadError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl<P: Protocol> Journal<P> {
    /// Loads a run. Returns `None` if there is no such run.
    pub async fn load(store: &Arc<dyn Store>, clock: &Clock, run: &RunId) -> Result<Option<Self>, LoadError> {
        Self::load_with(store, clock, run, None).await
    }

    /// Loads a run with the given document instead of the stored one.
    pub(crate) async fn load_with(
        store: &Arc<dyn Store>,
        clock: &Clock,
        run: &RunId,
        document: Option<P::Document>,
    ) -> Result<Option<Self>, LoadError> {
        let Some(loaded) = store.load(run).await? else { return Ok(None) };
        if loaded.protocol != P::NAME {
            return Err(LoadError::OtherProtocol { run: run.clone(), found: loaded.protocol });
        }
        let damaged = |what: &str| LoadError::Damaged { run: run.clone(), what: what.to_owned() };
        let spec = load_spec::<P>(store.as_ref(), run).await?;
        let mut state = match loaded.snapshot {
            Some(snapshot) => {
                serde_json::from_str(&snapshot.body).map_err(|_| damaged("its snapshot cannot be parsed"))?
            }
            None => RunState::blank(&spec.definition, Stamp::from_micros(0)),
        };
        for entry in &loaded.tail {
            state.fold(&decode(run, entry)?);
        }
        let document = match document {
            Some(document) => document,
            None => document_at::<P>(store.as_ref(), run, &spec.definition, loaded.position.revision).await?,
        };
        Ok(Some(Self {
            store: Arc::clone(store),
            clock: clock.clone(),
            run: run.clone(),
            spec,
            state,
            document,
            position: loaded.position,
            epoch: loaded.epoch,
            outbox: loaded.outbox,
            views: loaded.views,
            external_write: loaded.external_write,
            resolved_write: None,
        }))
    }

    /// Returns an entry of the run.
    pub async fn entry(&self, revision: Revision) -> Result<Option<Entry<P>>, LoadError> {
        let stored = self.store.entry(&self.run, revision).await?;
        stored.map(|stored| self.decode(&stored)).transpose()
    }

    /// Returns the document as it was at a revision.
    pub async fn document_at(&self, revision: Revision) -> Result<Option<P::Document>, ReadError> {
        assemble::<P>(self.store.as_ref(), &self.run, &self.spec.definition, revision).await
    }

    pub(crate) fn decode(&self, stored: &store::StoredEntry) -> Result<Entry<P>, LoadError> {
        decode(&self.run, stored)
    }

    /// Drops decisions that were not committed and loads the run again. Resolves an external write.
    pub async fn reload(&mut self) -> Result<(), LoadError> {
        *self = self.load_again().await?;
        Box::pin(self.resolve_external_write()).await
    }

    pub(crate) async fn load_again(&self) -> Result<Self, LoadError> {
        let loaded = Self::load(&self.store, &self.clock, &self.run).await?;
        loaded.ok_or_else(|| LoadError::Damaged { run: self.run.clone(), what: "it is gone".to_owned() })
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
    pub(crate) async fn catch_up(&mut self, before: SavedState<P>) -> Result<(), ReloadError> {
        let caught_up = self.store.catch_up(&self.run, self.position).await.map_err(LoadError::from)?;
        let Some(CaughtUp { position, entries }) = caught_up else {
            return self.reload_after_conflict().await;
        };
        if position == self.position {
            return Err(self.not_moved());
        }
        (self.state, self.document) = (before.state, before.document);
        for stored in entries {
            let entry = self.decode(&stored)?;
            self.state.fold(&entry);
            if P::record(&self.spec.definition, &mut self.document, &entry).is_err() {
                return self.reload_after_conflict().await;
            }
        }
        self.position = position;
        Ok(())
    }

    /// Saves the state before a decision.
    pub(crate) fn save_state(&self) -> SavedState<P> {
        SavedState { state: self.state.clone(), document: self.document.clone() }
    }

    fn not_moved(&self) -> ReloadError {
        let (run, revision) = (self.run.clone(), self.position.revision);
        ReloadError::NotMoved(Unavailable::Unmoved { run, revision })
    }

    /// Returns the run's time, which never goes backwards.
    pub(crate) fn now(&self) -> Stamp {
        self.clock.now().max(self.state.at)
    }

    /// Commits a decision that `state.run` already contains. After an error the run must be [reloaded](Self::reload).
    pub(crate) async fn commit(
        &mut self,
        by: Author,
        input: Input<P>,
        decision: Decision<P>,
        context: CommitContext,
    ) -> Result<Entry<P>, CommitError> {
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
            timers: timers::<P>(&decision, at, context.backoff),
            changes: decision.changes,
            actions: decision.actions,
        };
        self.state.fold_context(&entry);
        let changed = self.record(&entry);
        let revision = self.position.revision.next();
        let snapshot = revision
            .0
            .is_multiple_of(SNAPSHOT_EVERY)
            .then(|| serde_json::to_string(&self.state).expect("BUG: the state of a run is plain data"));
        let outbox: Vec<_> = entry.actions.iter().map(outbox_item).collect();
        let commit = Commit {
            run: self.run.clone(),
            protocol: P::NAME.to_owned(),
            expected: self.position,
            epoch: context.epoch,
            write_id: WriteId::new(),
            entry: entry.encode(),
            parts: changed
                .iter()
                .map(|path| Part { path: path.clone(), body: P::part(&self.document, path) })
                .collect(),
            document: self.whole_document(),
            outbox: outbox.clone(),
            acknowledged: context.acknowledged.clone(),
            views: context.views.clone(),
            snapshot,
            summary: self.summary().encode(),
        };
        self.position = self.write(commit).await?;
        self.outbox.retain(|item| !context.acknowledged.contains(&item.id));
        self.outbox.extend(outbox);
        crate::views::merge_marks(&mut self.views, context.views);
        Ok(entry)
    }

    /// Applies the entry to the document. Panics before anything is written if the result breaks the seed's rules.
    fn record(&mut self, entry: &Entry<P>) -> Vec<String> {
        let is_new = self.position.revision == Revision(0);
        let before = (P::CHECKS_WRITES && !is_new).then(|| self.document.clone());
        let recorded = P::record(&self.spec.definition, &mut self.document, entry).and_then(|changed| {
            if P::CHECKS_WRITES && !changed.is_empty() {
                P::check_write(before.as_ref(), &self.document)?;
            }
            Ok(changed)
        });
        let (run, revision) = (&self.run, self.position.revision);
        recorded.unwrap_or_else(|error| panic!("BUG: run `{run}` after revision {revision}: {error}"))
    }

    /// Returns the whole document, for a store that keeps it where other clients can read it.
    fn whole_document(&self) -> Option<String> {
        let keeps = P::SHOWS_DOCUMENT && self.store.keeps_documents();
        keeps.then(|| serde_json::to_string(&self.document).expect("BUG: a document is plain data"))
    }

    /// Commits, and finds out about an unknown outcome. A write that is known to be lost is retried once, because the
    /// store is reachable again.
    async fn write(&self, commit: Commit) -> Result<Position, CommitError> {
        let mut retried = false;
        loop {
            let (write_id, source) = match self.store.commit(commit.clone()).await {
                Err(CommitError::Unknown { write_id, source }) => (write_id, source),
                result => return result,
            };
            match self.store.settle(&self.run, write_id).await {
                Ok(Some(position)) => return Ok(position),
                Ok(None) if retried => return Err(Unavailable::Lost { source }.into()),
                Ok(None) => retried = true,
                Err(_) => return Err(CommitError::Unknown { write_id, source }),
            }
        }
    }

    pub fn summary(&self) -> Summary {
        Summary::of(&self.spec, &self.state)
    }
}

pub(crate) fn outbox_item<Step: std::fmt::Display + serde::Serialize>(action: &Action<Step>) -> OutboxItem {
    let body = serde_json::to_string(action).expect("BUG: an action is plain data");
    OutboxItem { id: action.id(), body }
}

/// The longest back-off between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// Returns a timer for each attempt that will be retried. The delay doubles with each failure and is cut by up to
/// half at random, so that steps that failed together do not retry together.
fn timers<P: Protocol>(decision: &Decision<P>, at: Stamp, first: Duration) -> Vec<Timer> {
    let repeated = decision.changes.iter().filter_map(|change| match change {
        Change::Ended { attempt, exit: Exit::WillRetry { failures, .. } } => Some((attempt, *failures)),
        _ => None,
    });
    repeated
        .map(|(attempt, failures)| {
            let doubled = first.saturating_mul(1 << failures.saturating_sub(1).min(16));
            let length = doubled.min(LONGEST_BACKOFF).mul_f64(0.5 + fastrand::f64() / 2.0);
            Timer {
                attempt: Run::<P>::id(attempt),
                fires_at: at.plus(length),
                length_ms: u64::try_from(length.as_millis()).unwrap_or(u64::MAX),
            }
        })
        .collect()
}
