//! What `ls` shows of a run without loading it.

use std::collections::BTreeSet;

use protocol::run::{RunState, RunStatus};
use protocol::{Progress, Timestamp};
use serde::{Deserialize, Serialize};

use crate::run::RunSpec;

/// A few fields of a run, stored with every commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The title for people, such as the workflow's name.
    pub title: String,
    pub repo_dir: String,
    pub status: RunStatus,
    pub progress: Progress,
    /// The number of attempts that may be alive.
    pub running: usize,
    /// Whether only the answer of a person, or conditions that become true, can move the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_waiting: bool,
    /// Whether the scripted agent works on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_rehearsal: bool,
    /// The hosts of the attempts that may be alive.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub hosts: BTreeSet<String>,
    pub updated_at: Timestamp,
}

impl Summary {
    pub(crate) fn of(spec: &RunSpec, state: &RunState) -> Self {
        Self {
            title: spec.title.clone(),
            repo_dir: spec.options.location.repo_dir.clone(),
            status: state.run.status,
            progress: state.run.machine.progress(),
            running: state.run.live_attempts().count(),
            is_waiting: state.run.is_waiting(),
            is_rehearsal: spec.options.is_rehearsal(),
            hosts: state.hosts.values().cloned().collect(),
            updated_at: state.at,
        }
    }

    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("BUG: a summary is plain data")
    }

    /// Decodes a stored summary. Returns `None` if this version does not know its format.
    pub fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}
