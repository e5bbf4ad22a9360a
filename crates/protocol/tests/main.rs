//! What the crate promises to its users: formats, rules of documents, and whole runs, one folder per protocol.
//!
//! One test binary, because each takes seconds to link.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cycle;
mod entries;
mod issue;
mod json_pointers;
mod peer;
mod steps;
mod team;
