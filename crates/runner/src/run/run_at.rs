//! A run as it was at a revision, read-only.

use protocol::entry::RunState;
use protocol::run::RunStatus;
use protocol::{Protocol, Revision, RunId, Stamp};
use store::{ReadError, Store};

use crate::engine::EngineExit;
use crate::run::RunSpec;
use crate::run::Summary;
use crate::run::{LoadError, decode, document_at, load_spec};

/// A run at one revision.
#[derive(Debug)]
pub struct RunAt<P: Protocol> {
    pub run: RunId,
    pub spec: RunSpec<P>,
    pub state: RunState<P>,
    pub document: P::Document,
    /// The revision of this state.
    pub revision: Revision,
    /// The newest revision when the run was read.
    pub newest: Revision,
}

/// Why a revision of a run cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunAtError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("run `{run}` has no revision {asked}: it has 1 to {newest}")]
    OutOfRange { run: RunId, asked: Revision, newest: Revision },
}

impl From<ReadError> for RunAtError {
    fn from(error: ReadError) -> Self {
        Self::Load(error.into())
    }
}

impl<P: Protocol> RunAt<P> {
    /// Loads the run at a revision, or at the newest one. Returns `None` if there is no such run.
    ///
    /// Folds from the newest snapshot that is not newer, so the cost does not depend on the revision.
    pub async fn at(
        store: &dyn Store,
        run: &RunId,
        revision: Option<Revision>,
    ) -> Result<Option<Self>, RunAtError> {
        let Some(loaded) = store.load(run).await? else { return Ok(None) };
        if loaded.protocol != P::NAME {
            let found = loaded.protocol;
            return Err(LoadError::OtherProtocol { run: run.clone(), found }.into());
        }
        let newest = loaded.position.revision;
        let revision = revision.unwrap_or(newest);
        if revision < Revision(1) || revision > newest {
            return Err(RunAtError::OutOfRange { run: run.clone(), asked: revision, newest });
        }
        let damaged = |what: &str| LoadError::Damaged { run: run.clone(), what: what.to_owned() };
        let spec = load_spec::<P>(store, run).await?;
        let (snapshot, tail) = if revision == newest {
            (loaded.snapshot, loaded.tail)
        } else {
            let snapshot = store.snapshot_at(run, revision).await?;
            let after = snapshot.as_ref().map_or(Revision(0), |snapshot| snapshot.revision);
            (snapshot, store.entries_between(run, after, revision).await?)
        };
        let mut state: RunState<P> = match snapshot {
            Some(snapshot) => {
                serde_json::from_str(&snapshot.body).map_err(|_| damaged("its snapshot cannot be parsed"))?
            }
            None => RunState::blank(&spec.definition, Stamp::from_micros(0)),
        };
        for entry in &tail {
            state.fold(&decode(run, entry)?);
        }
        let document = document_at::<P>(store, run, &spec.definition, revision).await?;
        Ok(Some(Self { run: run.clone(), spec, state, document, revision, newest }))
    }

    /// Returns how the run ended or stopped, or `None` if it may have live attempts.
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
