//! A run built again from its entries alone: state, document, snapshots and outbox.
//!
//! Entries are the truth. Everything else a store keeps of a run is state from them here, as the live run state it, and
//! handed on as the same [`Commit`]s. Nothing is decided, and nothing that was read is believed before it was asked
//! whether it can follow.

use protocol::entry::{BadEntry, Entry, Input, RecoverySource, RunState};
use protocol::run::{Action, Attempt};
use protocol::{Epoch, Protocol, Revision, RunId, Stamp};
use store::{Commit, Digest, Part, Position, SNAPSHOT_EVERY, WriteId};

use crate::journal::outbox_item;
use crate::opening::RunSpec;
use crate::summary::Summary;

/// A run, as far as its entries have been added.
#[derive(Debug)]
pub struct Rebuild<P: Protocol> {
    pub run: RunId,
    pub spec: RunSpec<P>,
    pub state: RunState<P>,
    pub document: P::Document,
    /// Where the next commit goes.
    pub position: Position,
    /// Whether commits bring the whole document along: for a store that [keeps](store::Store::keeps_documents) it.
    pub shows: bool,
    /// Actions whose attempts are not over. To offer one again is safe; not to offer it would lose it.
    waiting: Vec<(String, Attempt<P::Step>)>,
}

/// Why an entry cannot be the next one.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("it cannot be read")]
    Unreadable(#[from] BadEntry),
    #[error("it does not open the run")]
    NotOpened,
    #[error("what it was opened with is lost")]
    NoDefinition,
    #[error("what it was opened with cannot be read")]
    BadDefinition(#[from] serde_json::Error),
    #[error("it contradicts the entries before it")]
    Contradicts,
}

/// The digest of what a run was opened with, as its first entry names it.
pub(crate) fn definition_of<P: Protocol>(first: &str) -> Result<Digest, Unfit> {
    match Entry::<P>::decode(first)?.input {
        Input::Opened { definition } => definition.parse().map_err(|_| Unfit::NotOpened),
        Input::Fact { .. }
        | Input::Request { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => Err(Unfit::NotOpened),
    }
}

impl<P: Protocol> Rebuild<P> {
    /// Begins with what the run was opened with; the first entry is still to be [added](Self::add).
    pub fn begin(spec: RunSpec<P>) -> Self {
        let at = Stamp::from_micros(0);
        Self {
            run: spec.options.location.run.clone(),
            state: RunState::blank(&spec.definition, at),
            document: P::open_document(&spec.definition, &spec.options.location, at),
            spec,
            position: Position::absent(),
            shows: false,
            waiting: Vec::new(),
        }
    }

    /// The same from the bytes in which it was kept.
    pub fn read(blob: &[u8]) -> Result<Self, Unfit> {
        Ok(Self::begin(serde_json::from_slice(blob)?))
    }

    /// Adds the next entry, and answers the commit that makes it true. When that has landed, set
    /// [`position`](Self::position). After an error the rebuild is good for nothing but its position.
    pub fn add(&mut self, body: &str, write_id: WriteId) -> Result<Commit, Unfit> {
        let entry = Entry::<P>::decode(body)?;
        if self.position == Position::absent() {
            definition_of::<P>(body)?;
        }
        let definition = &self.spec.definition;
        for change in &entry.changes {
            if !self.state.run.admits(definition, change) {
                return Err(Unfit::Contradicts);
            }
            self.state.run.apply(change);
        }
        if !entry.actions.iter().all(|action| P::has_step(definition, &attempt_of(action).step)) {
            return Err(Unfit::Contradicts);
        }
        self.state.fold_context(&entry);
        let changed = P::record(definition, &mut self.document, &entry).map_err(|_| Unfit::Contradicts)?;
        Ok(self.commit(body.to_owned(), write_id, &entry, &changed))
    }

    /// Notes in the journal what became of the run.
    pub fn note(&self, source: RecoverySource, by: protocol::entry::Author, at: Stamp) -> Entry<P> {
        Entry {
            v: protocol::entry::ENTRY_VERSION,
            at: at.max(self.state.at),
            by,
            input: Input::Recovered { source },
            changes: Vec::new(),
            actions: Vec::new(),
            timers: Vec::new(),
        }
    }

    pub fn revision(&self) -> Revision {
        self.position.revision
    }

    /// Attempts that may be alive.
    pub fn live_attempts(&self) -> Vec<Attempt<P::Step>> {
        self.state.run.live_attempts().map(|(attempt, _)| attempt).collect()
    }

    fn commit(&mut self, body: String, write_id: WriteId, entry: &Entry<P>, changed: &[String]) -> Commit {
        let live_attempts = self.live_attempts();
        let is_over = |(_, attempt): &(String, Attempt<P::Step>)| !live_attempts.contains(attempt);
        let (over, waiting) = std::mem::take(&mut self.waiting).into_iter().partition(is_over);
        self.waiting = waiting;
        let actions = entry.actions.iter().filter(|action| live_attempts.contains(attempt_of(action)));
        let outbox: Vec<_> = actions
            .map(|action| {
                self.waiting.push((action.id(), attempt_of(action).clone()));
                outbox_item(action)
            })
            .collect();
        let over: Vec<(String, Attempt<P::Step>)> = over;
        let snapshot = self.position.revision.next().0.is_multiple_of(SNAPSHOT_EVERY);
        let part = |path: &String| Part { path: path.clone(), body: P::part(&self.document, path) };
        Commit {
            run: self.run.clone(),
            protocol: P::NAME.to_owned(),
            expected: self.position,
            epoch: None,
            write_id,
            entry: body,
            parts: changed.iter().map(part).collect(),
            document: (self.shows && P::SHOWS_DOCUMENT)
                .then(|| serde_json::to_string(&self.document).expect("BUG: a document is plain data")),
            outbox,
            acknowledged: over.into_iter().map(|(id, _)| id).collect(),
            views: Vec::new(),
            snapshot: snapshot
                .then(|| serde_json::to_string(&self.state).expect("BUG: the state of a run is plain data")),
            summary: Summary::of(&self.spec, &self.state).encode(),
        }
    }
}

fn attempt_of<S>(action: &Action<S>) -> &Attempt<S> {
    match action {
        Action::Start { attempt } | Action::End { attempt } => attempt,
    }
}

/// The epoch below which no engine may come back to a run that is built again at this time. Seconds since 1970 are more
/// than anybody has counted, and more than at the last recovery: an engine from before, should one still be about, is
/// fenced.
pub(crate) fn epoch_at(now: Stamp) -> Epoch {
    Epoch(u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0))
}
