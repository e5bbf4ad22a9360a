//! Rebuilds a run from its entries: state, document, snapshots and outbox.
//!
//! Entries are the truth. Everything else that a store keeps of a run is folded from them, as for a live run, and
//! returned as the same [`Commit`]s. Nothing is decided. An entry is checked before it is folded: it must be able to
//! follow the ones before it.

use protocol::entry::{BadEntry, Entry, Input, RecoverySource};
use protocol::run::{Action, RunState};
use protocol::{AttemptId, Epoch, Machine, ProtocolKind, Revision, RunId, Timestamp};
use store::{Commit, Digest, Part, Position, SNAPSHOT_EVERY, WriteId};

use crate::run::RunSpec;
use crate::run::Summary;
use crate::run::outbox_item;

/// A run, as far as its entries have been added.
#[derive(Debug)]
pub struct Replay {
    pub run: RunId,
    pub spec: RunSpec,
    pub state: RunState,
    /// The position that the next commit expects.
    pub position: Position,
    /// Whether commits contain the whole document, for a store that [exposes](store::Store::has_public_documents) it.
    pub commits_whole_document: bool,
    /// Actions of attempts that have not ended. Performing one again is safe; dropping it would lose it.
    pending: Vec<(String, AttemptId)>,
}

/// Why an entry cannot be the next one.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error("it cannot be parsed")]
    Unreadable(#[from] BadEntry),
    #[error("it does not start the run")]
    NotOpened,
    #[error("the definition of the run is lost")]
    NoSpec,
    #[error("the definition of the run cannot be parsed")]
    BadDefinition(#[from] serde_json::Error),
    #[error("it contradicts the entries before it")]
    Contradicts,
}

/// Returns the digest of the run's spec, as named by its first entry.
pub(crate) fn spec_digest(first: &str) -> Result<Digest, ReplayError> {
    match Entry::decode(first)?.input {
        Input::Opened { spec_digest } => spec_digest.parse().map_err(|_| ReplayError::NotOpened),
        Input::Fact { .. }
        | Input::Request { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => Err(ReplayError::NotOpened),
    }
}

impl Replay {
    /// Begins with the spec of a run. The first entry is still to be [added](Self::add).
    pub fn begin(kind: &'static dyn ProtocolKind, spec: RunSpec) -> Result<Self, ReplayError> {
        let at = Timestamp::from_micros(0);
        let machine = kind.open(&spec.definition, &spec.options.location, at)?;
        Ok(Self {
            run: spec.options.location.run.clone(),
            state: RunState::empty(machine, at),
            spec,
            position: Position::absent(),
            commits_whole_document: false,
            pending: Vec::new(),
        })
    }

    /// Returns definition, state and document of the run.
    pub fn machine(&self) -> &dyn Machine {
        &*self.state.run.machine
    }

    /// Begins with the stored bytes of a run spec.
    pub fn begin_with_blob(kind: &'static dyn ProtocolKind, blob: &[u8]) -> Result<Self, ReplayError> {
        Self::begin(kind, serde_json::from_slice(blob)?)
    }

    /// Adds the next entry and returns its commit. After the commit, set [`position`](Self::position). After an
    /// error, only the position of the replay is valid.
    pub fn add(&mut self, body: &str, write_id: WriteId) -> Result<Commit, ReplayError> {
        let entry = Entry::decode(body)?;
        if self.position == Position::absent() {
            spec_digest(body)?;
        }
        for change in &entry.changes {
            if !self.state.run.can_apply(change) {
                return Err(ReplayError::Contradicts);
            }
            self.state.run.apply(change).map_err(|_| ReplayError::Contradicts)?;
        }
        let has_step = |action: &Action| self.machine().has_step(&attempt_of(action).step);
        if !entry.actions.iter().all(has_step) {
            return Err(ReplayError::Contradicts);
        }
        self.state.fold_timers_and_hosts(&entry);
        let changed = self.state.run.machine.record(&entry).map_err(|_| ReplayError::Contradicts)?;
        Ok(self.commit(body.to_owned(), write_id, &entry, &changed))
    }

    /// Returns an entry that records how the run was recovered.
    pub fn recovery_entry(
        &self,
        source: RecoverySource,
        by: protocol::entry::Author,
        at: Timestamp,
    ) -> Entry {
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

    /// Returns the attempts that may be alive.
    pub fn live_attempts(&self) -> Vec<AttemptId> {
        self.state.run.live_attempts().map(|(attempt, _)| attempt).collect()
    }

    fn commit(&mut self, body: String, write_id: WriteId, entry: &Entry, changed: &[String]) -> Commit {
        let live_attempts = self.live_attempts();
        let has_ended = |(_, attempt): &(String, AttemptId)| !live_attempts.contains(attempt);
        let (ended, pending) = std::mem::take(&mut self.pending).into_iter().partition(has_ended);
        self.pending = pending;
        let actions = entry.actions.iter().filter(|action| live_attempts.contains(attempt_of(action)));
        let outbox: Vec<_> = actions
            .map(|action| {
                self.pending.push((action.id(), attempt_of(action).clone()));
                outbox_item(action)
            })
            .collect();
        let ended: Vec<(String, AttemptId)> = ended;
        let snapshot = self.position.revision.next().0.is_multiple_of(SNAPSHOT_EVERY);
        let part = |path: &String| Part { path: path.clone(), body: self.machine().part(path) };
        let info = self.machine().kind().info();
        Commit {
            run: self.run.clone(),
            protocol: info.name.to_owned(),
            expected: self.position,
            epoch: None,
            write_id,
            entry: body,
            parts: changed.iter().map(part).collect(),
            document: (self.commits_whole_document && info.publishes_document)
                .then(|| self.machine().document().to_json()),
            outbox,
            acknowledged: ended.into_iter().map(|(id, _)| id).collect(),
            views: Vec::new(),
            snapshot: snapshot.then(|| self.state.encode_snapshot()),
            summary: Summary::of(&self.spec, &self.state).encode(),
        }
    }
}

fn attempt_of(action: &Action) -> &AttemptId {
    match action {
        Action::Start { attempt } | Action::Stop { attempt } => attempt,
    }
}

/// Returns an epoch for a run that is rebuilt at this time. Seconds since 1970 exceed every counted epoch and those
/// of earlier recoveries, so an engine from before is fenced.
pub(crate) fn recovery_epoch(now: Timestamp) -> Epoch {
    Epoch(u64::try_from(now.as_micros() / 1_000_000).unwrap_or(0))
}
