//! Runs on a real store, opened, changed and looked at in the test's own process.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod edits;
mod harness;
mod moments;
mod requests;
mod restoring;
mod slots;
mod troubled;
mod troubles;
