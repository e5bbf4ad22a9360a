//! The words for a run's status.

use anstyle::Style;
use protocol::Outcome;
use protocol::run::RunStatus;
use runner::Summary;

use crate::output::{CYAN, GREEN, RED, YELLOW};

/// Every word that [`label_with_engine`] can return.
pub(crate) const WORDS: [&str; 9] =
    ["running", WAITING, "paused", "stopping", "stopped", "succeeded", "incomplete", "failed", INTERRUPTED];

const INTERRUPTED: &str = "interrupted";
const WAITING: &str = "waiting";

/// Whether the run has an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnginePresence {
    Alive,
    Missing,
    NotChecked,
}

/// Returns the label of a status, regardless of the engine.
pub(crate) fn label(status: RunStatus) -> (Style, &'static str) {
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

/// Returns the label of the status of a run. A run that needs an engine and has none is interrupted.
pub(crate) fn label_with_engine(summary: &Summary, engine: EnginePresence) -> (Style, &'static str) {
    match engine {
        _ if summary.is_waiting => (YELLOW, WAITING),
        EnginePresence::Missing if needs_engine(summary) => (YELLOW, INTERRUPTED),
        EnginePresence::Alive | EnginePresence::Missing | EnginePresence::NotChecked => label(summary.status),
    }
}

/// Whether the run continues only with an engine. A run that waits for answers or conditions needs none until then.
pub(crate) fn needs_engine(summary: &Summary) -> bool {
    match summary.status {
        RunStatus::Running if summary.is_waiting => false,
        RunStatus::Running | RunStatus::Stopping(_) | RunStatus::Draining(_) | RunStatus::Finishing(_) => {
            true
        }
        RunStatus::Paused | RunStatus::Stopped(_) | RunStatus::Finished(_) => false,
    }
}

/// Returns the label of a status without its style, for JSON.
pub(crate) fn name(status: RunStatus) -> &'static str {
    label(status).1
}
