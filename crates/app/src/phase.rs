//! The words people read for where a run stands.

use anstyle::Style;
use protocol::Outcome;
use protocol::run::{Halt, Phase};

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

pub(crate) fn word(phase: Phase) -> (Style, &'static str) {
    match phase {
        Phase::Open => (CYAN, "open"),
        Phase::Paused => (YELLOW, "paused"),
        Phase::Halting(_) => (YELLOW, "stopping"),
        Phase::Halted(Halt::Interrupted) => (YELLOW, "interrupted"),
        Phase::Halted(Halt::Stopped) => (YELLOW, "stopped"),
        Phase::Draining(_) => (YELLOW, "draining"),
        Phase::Closing(_) => (YELLOW, "closing"),
        Phase::Finished(Outcome::Delivered) => (GREEN, "delivered"),
        Phase::Finished(Outcome::Undelivered) => (RED, "undelivered"),
    }
}

/// The same for programs: one word whatever the phase, so that `jq 'select(.phase == "stopped")'` needs no cases.
pub(crate) fn name(phase: Phase) -> &'static str {
    word(phase).1
}
