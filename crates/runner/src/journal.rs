//! A run in memory, and the only way to change it: decide, then commit.

use std::time::Duration;

use protocol::entry::{Author, BadEntry, ENTRY_VERSION, Entry, Input, RunState, Timer};
use protocol::run::{Action, Change, Decision, Exit, Run};
use protocol::{Epoch, Protocol, Revision, RunId, Stamp};
use store::{
    CaughtUp, Commit, CommitError, Digest, ExternalWrite, OutboxItem, Part, Position, ReadError,
    SNAPSHOT_EVERY, Store, Unavailable, ViewMark, WriteId,
};

use crate::clock::Clock;
use crate::external::Settled;
use crate::opening::RunSpec;
use crate::summary::Summary;

/// A run as this process knows it. `state.run` may be ahead of the store only between a decision and its commit.
#[derive(Debug)]
pub struct Journal<P: Protocol, S> {
    pub(crate) store: S,
    pub(crate) clock: Clock,
    pub run: RunId,
    pub spec: RunSpec<P>,
    pub state: RunState<P>,
    pub document: P::Document,
    pub position: Position,
    /// The newest engine's number when the run was read.
    pub(crate) epoch: Epoch,
    /// Actions that were committed and not yet acknowledged.
    pub outbox: Vec<OutboxItem>,
    /// View files as they were last written.
    pub views: Vec<ViewMark>,
    /// What somebody else has put in the place of the document. Until it is settled, nothing can be committed.
    pub foreign: Option<ExternalWrite>,
    /// What became of the last foreign write that this journal has settled.
    pub(crate) settled: Option<Settled>,
}

/// What goes along with a commit besides the decision.
#[derive(Debug, Default)]
pub(crate) struct CommitContext {
    pub(crate) epoch: Option<Epoch>,
    /// Actions that have been carried out.
    pub(crate) acknowledged: Vec<String>,
    pub(crate) views: Vec<ViewMark>,
    /// The first back-off; later ones double.
    pub(crate) backoff: Duration,
}

/// Why a run cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("run `{run}` is a `{found}` run")]
    OtherProtocol { run: RunId, found: String },
    #[error("entry {revision} of run `{run}` cannot be read")]
    Entry { run: RunId, revision: Revision, source: BadEntry },
    #[error("run `{run}` is damaged: {what}")]
    Damaged { run: RunId, what: String },
    /// `corrupted_state`: all else of the run can be read.
    #[error("the document of run `{run}` is not what was written at revision {revision}: {what}")]
    Corrupted { run: RunId, revision: Revision, what: String },
    /// It is still there, and nothing of it is lost.
    #[error("could not settle what another client wrote in the place of the document of run `{run}`")]
    Unsettled { run: RunId, source: Box<CommitError> },
    /// All that was written there is still in the bucket, as far back as it goes.
    #[error(
        "another client writes in the place of the document of run `{run}` without pause: {tries} times it was faster than we"
    )]
    Outrun { run: RunId, tries: u32 },
}

/// What a decision changes, as it was before.
pub(crate) struct Decided<P: Protocol> {
    state: RunState<P>,
    document: P::Document,
}

/// Why whoever met a conflict cannot decide again.
pub(crate) enum Reloading {
    Load(LoadError),
    Unmoved(Unavailable),
}

impl From<LoadError> for Reloading {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl<P: Protocol, S: Store> Journal<P, S> {
    /// Loads a run; `None` when there is none of that name.
    pub async fn load(store: &S, clock: &Clock, run: &RunId) -> Result<Option<Self>, LoadError> {
        Self::load_with(store, clock, run, None).await
    }

    /// The same, with a document in the place of the store's.
    pub(crate) async fn load_with(
        store: &S,
        clock: &Clock,
        run: &RunId,
        document: Option<P::Document>,
    ) -> Result<Option<Self>, LoadError> {
        let Some(loaded) = store.load(run).await? else { return Ok(None) };
        if loaded.protocol != P::NAME {
            return Err(LoadError::OtherProtocol { run: run.clone(), found: loaded.protocol });
        }
        let damaged = |what: &str| LoadError::Damaged { run: run.clone(), what: what.to_owned() };
        let spec = load_spec::<P, S>(store, run).await?;
        let mut state = match loaded.snapshot {
            Some(snapshot) => {
                serde_json::from_str(&snapshot.body).map_err(|_| damaged("its snapshot cannot be read"))?
            }
            None => RunState::blank(&spec.definition, Stamp::from_micros(0)),
        };
        for entry in &loaded.tail {
            state.fold(&decode(run, entry)?);
        }
        let document = match document {
            Some(document) => document,
            None => document_at::<P, S>(store, run, &spec.definition, loaded.position.revision).await?,
        };
        Ok(Some(Self {
            store: store.clone(),
            clock: clock.clone(),
            run: run.clone(),
            spec,
            state,
            document,
            position: loaded.position,
            epoch: loaded.epoch,
            outbox: loaded.outbox,
            views: loaded.views,
            foreign: loaded.foreign,
            settled: None,
        }))
    }

    /// One entry of the run.
    pub async fn entry(&self, revision: Revision) -> Result<Option<Entry<P>>, LoadError> {
        let stored = self.store.entry(&self.run, revision).await?;
        stored.map(|stored| self.decode(&stored)).transpose()
    }

    /// The document as it was at a revision.
    pub async fn document_at(&self, revision: Revision) -> Result<Option<P::Document>, ReadError> {
        assemble::<P, S>(&self.store, &self.run, &self.spec.definition, revision).await
    }

    pub(crate) fn decode(&self, stored: &store::StoredEntry) -> Result<Entry<P>, LoadError> {
        decode(&self.run, stored)
    }

    /// Forgets what was decided here and reads the run again. What somebody else wrote in the place of the document is
    /// settled: absorbed, or set aside.
    pub async fn reload(&mut self) -> Result<(), LoadError> {
        *self = self.fresh().await?;
        Box::pin(self.settle()).await
    }

    pub(crate) async fn fresh(&self) -> Result<Self, LoadError> {
        let fresh = Self::load(&self.store, &self.clock, &self.run).await?;
        fresh.ok_or_else(|| LoadError::Damaged { run: self.run.clone(), what: "it is gone".to_owned() })
    }

    /// The same after a conflict. Where the run still stands as it stood nobody was faster, and no race was lost: the store
    /// is in trouble.
    pub(crate) async fn reload_after_conflict(&mut self) -> Result<(), Reloading> {
        let before = self.position;
        self.reload().await?;
        if self.position == before { Err(self.unmoved()) } else { Ok(()) }
    }

    /// Goes back to what was remembered before a decision that met a conflict, and from there to where the run is now, by what
    /// was entered since: to read all of a large run again takes longer than its engine takes for the next commits.
    ///
    /// For whoever is not its engine: what is to be done, and what was written to views, is not read again.
    pub(crate) async fn catch_up(&mut self, before: Decided<P>) -> Result<(), Reloading> {
        let caught_up = self.store.catch_up(&self.run, self.position).await.map_err(LoadError::from)?;
        let Some(CaughtUp { position, entries }) = caught_up else {
            return self.reload_after_conflict().await;
        };
        if position == self.position {
            return Err(self.unmoved());
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

    /// The run as it is before something is decided.
    pub(crate) fn before(&self) -> Decided<P> {
        Decided { state: self.state.clone(), document: self.document.clone() }
    }

    fn unmoved(&self) -> Reloading {
        let (run, revision) = (self.run.clone(), self.position.revision);
        Reloading::Unmoved(Unavailable::Unmoved { run, revision })
    }

    /// The run's time: it never runs backwards.
    pub(crate) fn now(&self) -> Stamp {
        self.clock.now().max(self.state.at)
    }

    /// Commits a decision that `state.run` already shows. On an error the run in memory must be [reloaded](Self::reload).
    pub(crate) async fn commit(
        &mut self,
        by: Author,
        input: Input<P>,
        decision: Decision<P>,
        context: CommitContext,
    ) -> Result<Entry<P>, CommitError> {
        if self.foreign.is_some() {
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
            document: self.shown(),
            outbox: outbox.clone(),
            acknowledged: context.acknowledged.clone(),
            views: context.views.clone(),
            snapshot,
            summary: self.summary().encode(),
        };
        self.position = self.write(commit).await?;
        self.outbox.retain(|item| !context.acknowledged.contains(&item.id));
        self.outbox.extend(outbox);
        merge_marks(&mut self.views, context.views);
        Ok(entry)
    }

    /// Writes the entry into the document. What we decide keeps the seed's rules; where that is checked and found to be
    /// otherwise, we stop before anything is written.
    fn record(&mut self, entry: &Entry<P>) -> Vec<String> {
        let opens = self.position.revision == Revision(0);
        let before = (P::CHECKS_WRITES && !opens).then(|| self.document.clone());
        let recorded = P::record(&self.spec.definition, &mut self.document, entry).and_then(|changed| {
            if P::CHECKS_WRITES && !changed.is_empty() {
                P::check_write(before.as_ref(), &self.document)?;
            }
            Ok(changed)
        });
        let (run, revision) = (&self.run, self.position.revision);
        recorded.unwrap_or_else(|error| panic!("BUG: run `{run}` after revision {revision}: {error}"))
    }

    /// The document for a store that keeps it where others can read it.
    fn shown(&self) -> Option<String> {
        let shows = P::SHOWS_DOCUMENT && self.store.keeps_documents();
        shows.then(|| serde_json::to_string(&self.document).expect("BUG: a document is plain data"))
    }

    /// Writes, and finds out about an unknown outcome. What is known not to have landed is written once more: the store
    /// has just answered again.
    async fn write(&self, commit: Commit) -> Result<Position, CommitError> {
        let mut second = false;
        loop {
            let (write_id, source) = match self.store.commit(commit.clone()).await {
                Err(CommitError::Unknown { write_id, source }) => (write_id, source),
                settled => return settled,
            };
            match self.store.settle(&self.run, write_id).await {
                Ok(Some(position)) => return Ok(position),
                Ok(None) if second => return Err(Unavailable::Lost { source }.into()),
                Ok(None) => second = true,
                Err(_) => return Err(CommitError::Unknown { write_id, source }),
            }
        }
    }

    pub fn summary(&self) -> Summary {
        Summary::of(&self.spec, &self.state)
    }
}

/// What the run was opened with.
pub(crate) async fn load_spec<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
) -> Result<RunSpec<P>, LoadError> {
    let damaged = |what: &str| LoadError::Damaged { run: run.clone(), what: what.to_owned() };
    let first = store.entry(run, Revision(1)).await?.ok_or_else(|| damaged("its first entry is missing"))?;
    let Input::Opened { definition } = decode::<P>(run, &first)?.input else {
        return Err(damaged("its first entry does not open it"));
    };
    let digest: Digest = definition.parse().map_err(|_| damaged("its definition has no digest"))?;
    let blob = store.blob(&digest).await?.ok_or_else(|| damaged("its definition is missing"))?;
    serde_json::from_slice(&blob).map_err(|_| damaged("its definition cannot be read"))
}

/// The document at a revision, which must be there and keep its rules.
pub(crate) async fn document_at<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
    definition: &P::Definition,
    revision: Revision,
) -> Result<P::Document, LoadError> {
    let corrupted = |what: String| LoadError::Corrupted { run: run.clone(), revision, what };
    let document = assemble::<P, S>(store, run, definition, revision).await?;
    let document = document.ok_or_else(|| corrupted("a part of it is missing or malformed".to_owned()))?;
    match P::violations(&document).as_slice() {
        [] => Ok(document),
        [first, more @ ..] => {
            let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
            Err(corrupted(format!(
                "it breaks rule {} at `{}`: {}{more}",
                first.rule, first.pointer, first.message
            )))
        }
    }
}

pub(crate) async fn assemble<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
    definition: &P::Definition,
    revision: Revision,
) -> Result<Option<P::Document>, ReadError> {
    let parts = store.parts_at(run, revision).await?;
    let parts: Vec<_> = parts.into_iter().map(|part| (part.path, part.body)).collect();
    Ok(P::assemble(definition, &parts))
}

pub(crate) fn merge_marks(marks: &mut Vec<ViewMark>, newer: Vec<ViewMark>) {
    marks.retain(|mark| newer.iter().all(|new| new.path != mark.path));
    marks.extend(newer);
}

pub(crate) fn decode<P: Protocol>(run: &RunId, entry: &store::StoredEntry) -> Result<Entry<P>, LoadError> {
    Entry::decode(&entry.body).map_err(|source| LoadError::Entry {
        run: run.clone(),
        revision: entry.revision,
        source,
    })
}

pub(crate) fn outbox_item<Step: std::fmt::Display + serde::Serialize>(action: &Action<Step>) -> OutboxItem {
    let body = serde_json::to_string(action).expect("BUG: an action is plain data");
    OutboxItem { id: action.id(), body }
}

/// Longest back-off between two attempts.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A timer for each attempt that is to be repeated: the delay doubles with each failure and is cut by up to half at
/// random, so that steps that failed together do not come back together.
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
