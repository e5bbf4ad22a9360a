//! The engine: facts and requests in; commits, actions and view files out.
//!
//! * [`Journal`] is a run in memory and the only way to change it: decide, then commit.
//! * [`Engine`] holds the run's engine lock and acts. Recovery is not a second code path: the engine loads the run,
//!   performs the actions that were not acknowledged, and continues in the same loop.
//! * [`request()`] is for all other processes: it commits a request, and the engine acts on it.
//! * [`edit()`] changes the document of a run directly.
//! * [`RunAtRevision`] reads a run as it is, or as it was at any revision.
//!
//! This crate does not print: an [`Observer`] receives what happens.

mod attempt;
mod clock;
mod engine;
mod error_chain;
mod recovery;
mod run;
mod views;

pub use attempt::{
    Effects, FastForwardBase, FindArtifacts, Merge, PendingEffect, PerformEffect, PromptFiles, ReadItems,
    WatchFailed, last_line, last_lines, preview_prompt,
};
pub use clock::Clock;
pub use engine::{
    AbandonedHost, AgentProfile, Assigned, DEFAULT_ROLE, Engine, EngineConfig, EngineError, EngineExit,
    EngineRequest, GRACE, NoAdapter, Notice, Observer, Overrides, Role, RoleName, RoleQuery,
};
pub use error_chain::with_causes;
pub use recovery::{
    DocumentImport, DocumentImportError, ExportError, ImportError, ImportTarget, Imported, Inconsistency,
    Logs, Manifest, Migration, Replay, ReplayError, RestoreError, Restored, SalvageOutcome, SalvageRunError,
    SalvageTarget, Salvaged, Unpacked, export, import, import_document, lost_runs, migrate, salvage,
    salvaged_kind, unpack, verify,
};
pub use run::{
    AnswerError, AttemptEndRecord, AttemptRecord, DocumentAt, EarlyAnswer, EditError, Edited, EngineRecord,
    FirstAnswer, History, Journal, JudgedExternalWrite, LoadError, OpenError, ReadRevisionError,
    RejectedWrite, RequestError, RunAtRevision, RunOptions, RunSpec, SequenceConflict, StoppedBy, Summary,
    answer, edit, fast_forward_refusal, for_each_entry, open, read_document, read_spec, rebuild_document,
    record_refusal, request,
};
pub use views::view_marks_of_host;
