//! The words people read for where a run stands.

use anstyle::Style;
use protocol::Outcome;
use protocol::run::{RunStatus, StopCause};

use crate::render::{CYAN, GREEN, RED, YELLOW};

/// All of them.
pub(crate) const WORDS: [&str; 9] = [
    "open",
    "paused",
    "stopping",
    "interrupted",
    "stopped",
    "draining",
    "closing",
    "delivered",
    "undelivered",
];

pub(crate) fn word(status: RunStatus) -> (Style, &'static str) {
    match status {
        RunStatus::Running => (CYAN, "open"),
        RunStatus::Paused => (YELLOW, "paused"),
        RunStatus::Stopping(_) => (YELLOW, "stopping"),
        RunStatus::Stopped(StopCause::Interrupted) => (YELLOW, "interrupted"),
        RunStatus::Stopped(StopCause::Requested) => (YELLOW, "stopped"),
        RunStatus::Draining(_) => (YELLOW, "draining"),
        RunStatus::Finishing(_) => (YELLOW, "closing"),
        RunStatus::Finished(Outcome::Delivered) => (GREEN, "delivered"),
        RunStatus::Finished(Outcome::Undelivered) => (RED, "undelivered"),
    }
}

/// The same for programs: one word whatever the status, so that `jq 'select(.status == "stopped")'` needs no cases.
pub(crate) fn name(status: RunStatus) -> &'static str {
    word(status).1
}
