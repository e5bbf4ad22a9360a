//! How far a step is, said: a sign, a word and a colour, so that none of them is needed to tell it.

use super::picture::{Iteration, Reached, Step};
use crate::output;
use crate::present::StatusKind;

/// Which characters may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Charset {
    Unicode,
    Ascii,
}

pub(super) fn sign(kind: StatusKind, charset: Charset) -> char {
    let (unicode, ascii) = match kind {
        StatusKind::Pending => ('·', '.'),
        StatusKind::Running => ('▸', '>'),
        StatusKind::Waiting => ('?', '?'),
        StatusKind::Succeeded => ('✓', '+'),
        StatusKind::Failed => ('✗', 'x'),
        StatusKind::Skipped => ('»', '-'),
    };
    match charset {
        Charset::Unicode => unicode,
        Charset::Ascii => ascii,
    }
}

pub(super) const fn word(kind: StatusKind) -> &'static str {
    match kind {
        StatusKind::Pending => "pending",
        StatusKind::Running => "running",
        StatusKind::Waiting => "waits",
        StatusKind::Succeeded => "done",
        StatusKind::Failed => "failed",
        StatusKind::Skipped => "skipped",
    }
}

/// What stands below a step's name: who plays it, or how far it is.
pub(super) fn particulars(step: &Step, charset: Charset) -> Vec<String> {
    let Some(reached) = &step.reached else { return vec![step.agent.clone()] };
    let Reached { kind, length, attempts, iteration, .. } = reached;
    let length = length.map(|length| format!(" {}", output::duration(length))).unwrap_or_default();
    let tries = if *attempts > 1 { format!(", attempt {attempts}") } else { String::new() };
    let first = format!("{} {}{length}{tries}", sign(*kind, charset), word(*kind));
    let second = iteration.map(|Iteration { now, most }| format!("iteration {now} of {most}"));
    std::iter::once(first).chain(second).collect()
}
