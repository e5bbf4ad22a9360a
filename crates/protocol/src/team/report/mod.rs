//! Parses what an attempt hands back: the words and the plan of its report, and the edits of its private copies.

pub(super) mod command;
pub(super) mod copies;
pub(super) mod plan;
pub(super) mod rights;
pub(super) mod verdicts;
mod words;
