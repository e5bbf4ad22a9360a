//! How far a step is, said: a sign, a word and a colour, so that none of them is needed to tell it.

use protocol::steps::Status;

use super::picture::{Iteration, Reached, Step};
use crate::render;

/// Which characters may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Unicode,
    Ascii,
}

pub(super) fn sign(status: Status, charset: Charset) -> char {
    let (unicode, ascii) = match status {
        Status::Pending => ('·', '.'),
        Status::Running => ('▸', '>'),
        Status::WaitingOnHuman => ('?', '?'),
        Status::Completed => ('✓', '+'),
        Status::Failed => ('✗', 'x'),
        Status::Skipped => ('»', '-'),
    };
    match charset {
        Charset::Unicode => unicode,
        Charset::Ascii => ascii,
    }
}

pub(super) const fn word(status: Status) -> &'static str {
    match status {
        Status::Pending => "pending",
        Status::Running => "running",
        Status::WaitingOnHuman => "waits",
        Status::Completed => "done",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
}

/// What stands below a step's name: who plays it, or how far it is.
pub(super) fn particulars(step: &Step, charset: Charset) -> Vec<String> {
    let Some(reached) = &step.reached else { return vec![step.agent.clone()] };
    let Reached { status, length, attempts, iteration, .. } = reached;
    let length = length.map(|length| format!(" {}", render::duration(length))).unwrap_or_default();
    let tries = if *attempts > 1 { format!(", try {attempts}") } else { String::new() };
    let first = format!("{} {}{length}{tries}", sign(*status, charset), word(*status));
    let second = iteration.map(|Iteration { now, most }| format!("iteration {now} of {most}"));
    std::iter::once(first).chain(second).collect()
}
