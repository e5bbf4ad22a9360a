//! The pure part of Callboard: the vocabulary, the [`run`] shared by all protocols, and the protocols.
//!
//! Nothing here has a clock, a file, a process or a logger. What the world did comes in as facts and requests; what
//! is to be done goes out as changes and actions. `store` keeps them, `supervisor` carries processes, `runner` is
//! the loop between.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

pub mod brief;
pub mod check;
mod closest;
pub mod depth;
pub mod edit;
pub mod entry;
pub mod ids;
pub mod located;
pub mod peer;
pub mod report;
pub mod rules;
pub mod run;
pub mod steps;
pub mod time;

pub use closest::closest;
pub use ids::{AttemptId, AttemptNo, BadAttemptId, BadName, Epoch, Revision, RunId, StepId, Turn};
pub use rules::{
    Event, Move, Next, NotImportable, Outcome, Progress, Protocol, Reading, RunLocation, Unrecordable, View,
};
pub use time::Stamp;
