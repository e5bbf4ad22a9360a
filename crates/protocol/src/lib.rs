//! The pure part of Callboard: vocabulary, the [`run`] state machine shared by all protocols, and the protocols.
//!
//! Nothing here uses a clock, files, processes or a logger. Facts and requests come in; changes and actions go out. The
//! `store` crate persists them, `supervisor` manages processes, and `runner` is the loop that connects the three.

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
    Event, ImportRefusal, Move, Next, Outcome, ParsedReport, Progress, Protocol, RecordError, RunLocation,
    View,
};
pub use time::Stamp;
