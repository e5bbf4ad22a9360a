//! Explores the protocols, and tests the scripts of the project.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod exploration;
mod scripts;
