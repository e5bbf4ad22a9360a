//! A run's status in the words users read.

use anstyle::Style;
use protocol::Outcome;
use protocol::run::RunStatus;

use crate::output::{CYAN, GREEN, RED, YELLOW};

/// Every word that [`shown`] can answer.
pub(crate) const WORDS: [&str; 8] =
    ["running", "paused", "stopping", "stopped", "succeeded", "incomplete", "failed", INTERRUPTED];

const INTERRUPTED: &str = "interrupted";

/// Whether the run has an engine, as far as the caller asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnginePresence {
    Alive,
    Missing,
    NotAsked,
}

/// The word for a status, without asking for an engine.
pub(crate) fn word(status: RunStatus) -> (Style, &'static str) {
    match status {
        RunStatus::Running => (CYAN, "running"),
        RunStatus::Paused => (YELLOW, "paused"),
        RunStatus::Stopping(_) | RunStatus::Draining(_) | RunStatus::Finishing(_) => (YELLOW, "stopping"),
        RunStatus::Stopped(_) => (YELLOW, "stopped"),
        RunStatus::Finished(Outcome::Succeeded) => (GREEN, "succeeded"),
        RunStatus::Finished(Outcome::Incomplete) => (YELLOW, "incomplete"),
        RunStatus::Finished(Outcome::Failed) => (RED, "failed"),
    }
}

/// The word for a status; a run that needs an engine and has none is interrupted.
pub(crate) fn shown(status: RunStatus, engine: EnginePresence) -> (Style, &'static str) {
    match engine {
        EnginePresence::Missing if needs_engine(status) => (YELLOW, INTERRUPTED),
        EnginePresence::Alive | EnginePresence::Missing | EnginePresence::NotAsked => word(status),
    }
}

/// Whether only an engine can move the run on.
pub(crate) fn needs_engine(status: RunStatus) -> bool {
    match status {
        RunStatus::Running | RunStatus::Stopping(_) | RunStatus::Draining(_) | RunStatus::Finishing(_) => {
            true
        }
        RunStatus::Paused | RunStatus::Stopped(_) | RunStatus::Finished(_) => false,
    }
}

/// The word for programs.
pub(crate) fn name(status: RunStatus) -> &'static str {
    word(status).1
}
