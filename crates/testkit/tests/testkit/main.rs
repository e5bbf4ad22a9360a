//! Tests of the helpers themselves, of the protocol `items`, and of the scripts of the project.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod helpers;
mod items;
mod scripts;
