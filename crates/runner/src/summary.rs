//! What `ls` shows of a run without loading it.

use std::collections::BTreeSet;

use protocol::entry::RunState;
use protocol::run::RunStatus;
use protocol::{Progress, Protocol, Stamp};
use serde::{Deserialize, Serialize};

use crate::opening::RunSpec;

/// A few fields kept beside each run, replaced by every commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// What the run is about, for people: the workflow's name.
    pub title: String,
    pub repo_dir: String,
    pub status: RunStatus,
    pub progress: Progress,
    /// Attempts that may be alive.
    pub running: usize,
    /// The hosts that they are on, each once. Earlier versions kept none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    pub updated_at: Stamp,
}

impl Summary {
    pub(crate) fn of<P: Protocol>(spec: &RunSpec<P>, state: &RunState<P>) -> Self {
        Self {
            title: spec.title.clone(),
            repo_dir: spec.options.location.repo_dir.clone(),
            status: state.run.status,
            progress: P::progress(&spec.definition, &state.run.state),
            running: state.run.live_attempts().count(),
            hosts: state.hosts.values().cloned().collect(),
            updated_at: state.at,
        }
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("BUG: a summary is plain data")
    }

    /// Reads what a commit left; `None` if it is of a format this program does not know.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
