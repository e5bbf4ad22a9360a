//! A run as it was at a revision, read-only.

use protocol::run::{RunState, RunStatus};
use protocol::{Machine, ProtocolKind, Protocols, Revision, RunId};
use store::{Position, ReadError, Store};

use crate::engine::EngineExit;
use crate::run::{Journal, LoadError, RunSpec, Summary, find_kind, fold, load_machine, load_spec};

/// A run at one revision.
#[derive(Debug)]
pub struct RunAtRevision {
    pub run: RunId,
    pub spec: RunSpec,
    pub state: RunState,
    /// The revision of this state.
    pub revision: Revision,
    /// The newest revision when the run was read.
    pub newest: Revision,
}

/// Why a revision of a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadRevisionError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("run `{run}` has no revision {asked}: it has 1 to {newest}")]
    OutOfRange { run: RunId, asked: Revision, newest: Revision },
}

impl From<ReadError> for ReadRevisionError {
    fn from(error: ReadError) -> Self {
        Self::Load(error.into())
    }
}

impl From<Journal> for RunAtRevision {
    fn from(journal: Journal) -> Self {
        let Journal { run, spec, state, position: Position { revision, .. }, .. } = journal;
        Self { run, spec, state, revision, newest: revision }
    }
}

impl RunAtRevision {
    /// Loads the run at a revision, or at the newest one. Returns `None` if there is no such run.
    ///
    /// Folds from the last snapshot up to that revision, so the cost does not grow with the revision.
    pub async fn load(
        store: &dyn Store,
        protocols: Protocols,
        run: &RunId,
        revision: Option<Revision>,
    ) -> Result<Option<Self>, ReadRevisionError> {
        let Some(loaded) = store.load(run).await? else { return Ok(None) };
        let kind = find_kind(protocols, run, &loaded.protocol)?;
        let newest = loaded.position.revision;
        let revision = revision.unwrap_or(newest);
        if revision < Revision(1) || revision > newest {
            return Err(ReadRevisionError::OutOfRange { run: run.clone(), asked: revision, newest });
        }
        let spec = load_spec(store, run).await?;
        let (snapshot, tail) = if revision == newest {
            (loaded.snapshot, loaded.tail)
        } else {
            let snapshot = store.snapshot_at(run, revision).await?;
            let after = snapshot.as_ref().map_or(Revision(0), |snapshot| snapshot.revision);
            (snapshot, store.entries_between(run, after, revision).await?)
        };
        let machine = load_machine(store, kind, run, &spec, revision).await?;
        let state = fold(machine, run, snapshot.as_ref(), &tail)?;
        Ok(Some(Self { run: run.clone(), spec, state, revision, newest }))
    }

    /// Returns definition, state and document of the run.
    pub fn machine(&self) -> &dyn Machine {
        &*self.state.run.machine
    }

    pub fn kind(&self) -> &'static dyn ProtocolKind {
        self.machine().kind()
    }

    /// Returns how the run ended or stopped, or `None` if it is unfinished and not stopped.
    pub fn engine_exit(&self) -> Option<EngineExit> {
        match self.state.run.status {
            RunStatus::Finished(outcome) => Some(EngineExit::Finished(outcome)),
            RunStatus::Stopped(cause) => Some(EngineExit::Stopped(cause)),
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_) => None,
        }
    }

    pub fn summary(&self) -> Summary {
        Summary::of(&self.spec, &self.state)
    }
}
