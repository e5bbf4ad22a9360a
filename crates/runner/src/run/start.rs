//! Starting a run: store its spec, commit its first entry.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use protocol::checks::CheckSpec;
use protocol::entry::{Author, Input};
use protocol::run::{self, RunState};
use protocol::{ProtocolKind, RunId, RunLocation};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use store::{CommitError, Position, Store, WriteError};
use supervisor::git::{RunWorktrees, WorktreeOptions};

use crate::clock::Clock;
use crate::engine::{AgentProfile, Role};
use crate::run::{CommitContext, Journal};

/// What a run is started with and keeps until its end: the definition, and the options of the command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunSpec {
    pub title: String,
    /// The definition of the run's protocol, as JSON.
    pub definition: Box<RawValue>,
    pub options: RunOptions,
}

impl RunSpec {
    pub fn new(title: String, definition: &impl Serialize, options: RunOptions) -> Self {
        let definition = to_raw_value(definition).expect("BUG: a definition is plain data");
        Self { title, definition, options }
    }
}

/// Where a run works and with which agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOptions {
    pub location: RunLocation,
    /// The working directory of the agents.
    pub workdir: PathBuf,
    /// The profile for every step, or `None` to use the configured profile of each agent.
    pub profile: Option<AgentProfile>,
    /// Variables for every agent.
    pub env: Vec<(String, String)>,
    /// Roles that the command line sets, by the name of a step or agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub roles: BTreeMap<String, Role>,
    /// How its git worktrees are made; `None` if it works in the repository itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktrees: Option<WorktreeOptions>,
    /// The checks that a merged tree must pass before the integration branch moves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckSpec>,
}

impl RunOptions {
    /// Returns whether the scripted agent works on every step.
    pub fn is_rehearsal(&self) -> bool {
        self.profile.as_ref().is_some_and(|profile| profile.adapter.is_rehearsal())
    }

    /// Returns the worktrees of the run, if it has any.
    pub fn run_worktrees(&self) -> Option<RunWorktrees> {
        let options = self.worktrees.clone()?;
        Some(RunWorktrees::new(self.location.run.clone(), PathBuf::from(&self.location.repo_dir), options))
    }
}

/// Why a run could not be started.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("a run named `{0}` exists already")]
    Exists(RunId),
    #[error("cannot store the definition")]
    StoreSpec(#[from] WriteError),
    #[error("cannot commit the first entry")]
    Commit(#[from] CommitError),
}

/// Opens a run. The run is durable when this returns; its first engine starts the first steps.
pub async fn open(
    store: &Arc<dyn Store>,
    clock: &Clock,
    kind: &'static dyn ProtocolKind,
    by: Author,
    spec: RunSpec,
) -> Result<Journal, OpenError> {
    let run_id = spec.options.location.run.clone();
    let blob = serde_json::to_vec(&spec).expect("BUG: a definition is plain data");
    let digest = store.put_blobs(vec![blob]).await?.remove(0);
    let at = clock.now();
    let machine = kind
        .open(&spec.definition, &spec.options.location, at)
        .expect("BUG: the definition is of another protocol");
    let mut state = RunState::empty(machine, at);
    let decision = run::open(&mut state.run);
    let mut journal = Journal {
        store: Arc::clone(store),
        clock: clock.clone(),
        run: run_id.clone(),
        spec,
        state,
        position: Position::absent(),
        epoch: protocol::Epoch::default(),
        outbox: Vec::new(),
        views: Vec::new(),
        external_write: None,
        judged_external_write: None,
        early_answers: Vec::new(),
    };
    // The field holds the digest of the whole spec, not only of the definition.
    let input = Input::Opened { spec_digest: digest.to_string() };
    match journal.commit(by, input, decision, CommitContext::default()).await {
        Ok(_) => Ok(journal),
        Err(CommitError::Conflict { .. }) => Err(OpenError::Exists(run_id)),
        Err(error) => Err(error.into()),
    }
}
