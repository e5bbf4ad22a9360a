//! Parses what an attempt hands back: the status word and the plan of its report, and the edits of its private copies.

pub(super) mod command;
pub(super) mod copies;
pub(super) mod plan;
pub(super) mod rights;
mod status_words;
pub(super) mod verdicts;
