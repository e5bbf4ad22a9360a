//! A run in the store: starting it, loading it, reading its past, and changing it.
//!
//! [`Journal`] is the only way to change a run: decide, then commit.

mod answer;
mod conflict_backoff;
mod document;
mod edit;
mod external_write;
mod history;
mod journal;
mod load;
mod request;
mod run_at_revision;
mod start;
mod summary;

pub use answer::{AnswerError, FirstAnswer, answer};
pub use document::{DocumentAt, read_document};
pub use edit::{EditError, Edited, SequenceConflict, edit};
pub use external_write::{JudgedExternalWrite, RejectedWrite, rebuild_document};
pub use history::{
    AttemptEndRecord, AttemptRecord, EngineRecord, History, StoppedBy, fast_forward_refusal, for_each_entry,
};
pub(crate) use journal::{CommitContext, ReloadError, outbox_item, taken_path};
pub use journal::{EarlyAnswer, Journal};
pub use load::{LoadError, read_spec};
pub(crate) use load::{decode, find_kind, fold, load_machine, load_spec, open_machine};
pub use request::{RequestError, record_refusal, request};
pub use run_at_revision::{ReadRevisionError, RunAtRevision};
pub use start::{OpenError, RunOptions, RunSpec, open};
pub use summary::Summary;
