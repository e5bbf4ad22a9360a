//! What an engine is asked to do, how it exits, and why it fails.

use std::collections::BTreeMap;
use std::path::PathBuf;

use protocol::entry::Author;
use protocol::run::{Refusal, Request, RunStopCause};
use protocol::{AttemptId, Outcome, RunId};
use store::{CommitError, EngineLockError, ReadError, WriteError};

use super::roles::NoAdapter;
use crate::attempt::WatchFailed;
use crate::recovery::RestoreError;
use crate::run::LoadError;

/// How an engine exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineExit {
    Finished(Outcome),
    Stopped(RunStopCause),
    /// Only the answer of a person can move the run, and the command was told not to wait for it.
    Waiting,
    /// All live attempts are on other hosts, and nothing is left to do on this one.
    Remote,
    /// The user interrupted it three times. Attempts may be alive, and `resume` adopts them.
    AttemptsLeftAlive,
}

/// The request of the command that starts the engine.
#[derive(Debug, Clone)]
pub struct EngineRequest {
    pub request: Request,
    /// The author of the request, or `None` if the engine itself resumes the run.
    pub by: Option<Author>,
    pub reason: Option<String>,
}

impl EngineRequest {
    /// Resumes the run in the engine's own name.
    pub fn to_resume(reason: Option<String>) -> Self {
        Self { request: Request::Resume, by: None, reason }
    }
}

/// Why an engine failed. What was committed stays, attempts keep running, and `resume` continues from there.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("there is no run `{0}`")]
    NoSuchRun(RunId),
    #[error(transparent)]
    EngineLock(#[from] EngineLockError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Restore(#[from] RestoreError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The view marks, which are digests of the files last written, cannot be stored.
    #[error(transparent)]
    ViewMarks(#[from] WriteError),
    #[error("it was refused: {0}")]
    Refused(#[from] Refusal),
    /// `resume --abandon-host` names a host that has no attempt of the run, or this host.
    #[error("no attempt of it is on `{host}`{}", list_remote(remote))]
    NothingToAbandon {
        host: String,
        /// Whether it is this host.
        here: bool,
        remote: Vec<(AttemptId, String)>,
    },
    #[error("{}", list_missing(.0))]
    NoAdapter(Vec<NoAdapter>),
    #[error("cannot watch the attempts")]
    DirWatcher(#[source] std::io::Error),
    #[error("cannot attach to `{attempt}`")]
    Attach { attempt: AttemptId, source: WatchFailed },
    #[error("cannot write `{}`", path.display())]
    View { path: PathBuf, source: std::io::Error },
}

/// Lists steps without an adapter, each agent and each missing adapter once.
fn list_missing(missing: &[NoAdapter]) -> String {
    let (mut agents, mut adapters) = (BTreeMap::new(), BTreeMap::new());
    for NoAdapter { step, agent, adapter } in missing {
        let (names, name) = adapter.as_ref().map_or((&mut agents, agent), |adapter| (&mut adapters, adapter));
        names.entry(name).or_insert_with(Vec::new).push(format!("`{step}`"));
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let list = |names: &BTreeMap<&String, Vec<String>>| {
        let name = |(name, steps): (&&String, &Vec<String>)| {
            format!("`{name}` (used by step{} {})", plural(steps.len()), steps.join(", "))
        };
        names.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let agents = (!agents.is_empty())
        .then(|| format!("no command is configured for agent{} {}", plural(agents.len()), list(&agents)));
    let adapters = (!adapters.is_empty()).then(|| format!("no adapter is named {}", list(&adapters)));
    agents.into_iter().chain(adapters).collect::<Vec<_>>().join("; ")
}

fn list_remote(remote: &[(AttemptId, String)]) -> String {
    let all: Vec<_> = remote.iter().map(|(attempt, host)| format!("`{attempt}` is on `{host}`")).collect();
    if all.is_empty() { String::new() } else { format!("; {}", all.join(", ")) }
}
