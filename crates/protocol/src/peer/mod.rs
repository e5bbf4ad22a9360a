//! `peer`: plan, execute, express, review; four phases in a line, and one document for the whole cycle.
//!
//! A cycle is opened with an [instruction](Instruction), for a spec or for the repository as a whole. Each phase is played
//! by a seat of its own and leaves an output that the next ones build on. There is no way back: an unsuccessful review
//! ends the cycle like a successful one, and improvement is a new cycle.
//!
//! Here are the pure parts: what cycles are called ([`name`]), the [`document`] and its rules
//! ([`check`](mod@check)), what each phase must produce ([`output`]), how a document [changes](change), whether any
//! write is such a change ([`transition`]), what each seat is told ([`prompts`]), and how [older formats](old) become this
//! one.

pub mod change;
pub mod check;
pub mod document;
pub mod name;
pub mod old;
pub mod output;
mod position;
pub mod prompts;
pub mod transition;

pub use check::{Checked, check, check_document};
pub use document::{
    Context, CycleStatus, Document, Event, HistoryEntry, Metadata, Mode, Phase, PhaseDocument, PhaseError,
    PhaseStatus, Phases, Second,
};
pub use name::{CycleId, Instruction, Scope, SpecName};
pub use position::{InvalidTransition, Position};
pub use transition::{Refusal, Transition, check_write};
