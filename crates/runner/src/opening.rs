//! Opening a run: freeze what it was given, commit the first entry.

use std::path::PathBuf;

use protocol::entry::{Author, Input, RunState};
use protocol::run::{self, Decision};
use protocol::{Protocol, RunId, RunLocation};
use serde::{Deserialize, Serialize};
use store::{CommitError, Position, Store, WriteError};

use crate::clock::Clock;
use crate::engine_config::AgentProfile;
use crate::journal::{CommitContext, Journal};

/// What a run is opened with and keeps for life: the definition, and how the command that opened it was told to act.
#[derive(Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct RunSpec<P: Protocol> {
    pub title: String,
    pub definition: P::Definition,
    pub options: RunOptions,
}

/// Where and by whom a run is played, as the command that opened it said.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOptions {
    pub location: RunLocation,
    /// Where agents start.
    pub workdir: PathBuf,
    /// Who plays every step; without one, the configuration names a profile per agent.
    pub profile: Option<AgentProfile>,
    /// Variables for every agent.
    pub env: Vec<(String, String)>,
}

/// Why a run could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("a run named `{0}` exists already")]
    Exists(RunId),
    #[error("could not keep the definition")]
    Freeze(#[from] WriteError),
    #[error("could not write the first entry")]
    Commit(#[from] CommitError),
}

/// Opens a run. It is durable when this returns; whoever leads it first starts its first steps.
pub async fn open<P: Protocol, S: Store>(
    store: &S,
    clock: &Clock,
    by: Author,
    spec: RunSpec<P>,
) -> Result<Journal<P, S>, OpenError> {
    let run_id = spec.options.location.run.clone();
    let blob = serde_json::to_vec(&spec).expect("BUG: a definition is plain data");
    let digest = store.put_blobs(vec![blob]).await?.remove(0);
    let at = clock.now();
    let mut state = RunState::blank(&spec.definition, at);
    let decision: Decision<P> = run::open(&spec.definition, &mut state.run);
    let mut journal = Journal {
        store: store.clone(),
        clock: clock.clone(),
        run: run_id.clone(),
        document: P::open_document(&spec.definition, &spec.options.location, at),
        spec,
        state,
        position: Position::absent(),
        epoch: protocol::Epoch::default(),
        outbox: Vec::new(),
        views: Vec::new(),
        foreign: None,
        settled: None,
    };
    let input = Input::Opened { definition: digest.to_string() };
    match journal.commit(by, input, decision, CommitContext::default()).await {
        Ok(_) => Ok(journal),
        Err(CommitError::Conflict { .. }) => Err(OpenError::Exists(run_id)),
        Err(error) => Err(error.into()),
    }
}
