//! What the crate promises to its users: formats, rules of documents, and whole runs, one folder per protocol.
//!
//! One test binary: linking one takes seconds, linking eleven takes eleven times as long.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cycle;
mod entries;
mod issue;
mod peer;
mod pointers;
mod steps;
mod team;
