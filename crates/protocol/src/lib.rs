//! The pure part of Callboard: ids and shared types, the [`run`] state machine shared by all protocols, and the protocols.
//!
//! Nothing here uses a clock, files, processes or a logger. Facts and requests come in; changes and actions go out. The
//! `store` crate persists them, `supervisor` manages processes, and `runner` is the loop that connects all of them.

#![deny(clippy::wildcard_enum_match_arm, clippy::match_wildcard_for_single_variants)]

pub mod brief;
pub mod check;
pub mod checks;
mod closest;
pub mod cycle;
mod dependencies;
pub mod edit;
pub mod entry;
mod file_patterns;
pub mod ids;
pub mod issue;
pub mod json;
pub mod located;
mod machine;
pub mod peer;
mod people;
pub mod present;
pub mod protocol_trait;
pub mod report;
pub mod run;
mod step_record;
pub mod steps;
pub mod team;
pub mod time;

pub use brief::prompt;
pub use closest::closest;
pub use ids::{AttemptId, AttemptNo, BadAttemptId, Epoch, InvalidId, Revision, RunId, StepId, Turn};
pub use machine::{
    Document, Machine, PROTOCOLS, ProtocolInfo, ProtocolKind, Protocols, TypedMachine, protocol_kind,
};
pub use people::{
    Answer, AnswerFile, AnswerOption, InboxItemId, InboxItemKind, InvalidInboxItemId, OpenItem, Question,
};
pub use protocol_trait::{
    Effect, Event, ImportRefusal, Move, NOT_MERGED_PREFIX, Never, Next, Outcome, ParsedReport, Progress,
    Protocol, RecordError, RequestRefusal, RunLocation, StepKind, View,
};
pub use step_record::{StepRecord, StepRecordStatus};
pub use time::Timestamp;
