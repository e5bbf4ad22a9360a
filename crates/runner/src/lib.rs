//! The one loop: facts and requests in, one commit each, actions carried out, views written.
//!
//! * [`Journal`] is a run in memory and the only way to change it: decide, then commit.
//! * [`Engine`] holds the run's lead and acts. Recovery is not a second code path: it loads the run, performs what
//!   was not acknowledged, and goes on in the same loop.
//! * [`request()`] is for everybody else: it commits a request, and whoever is the engine acts on it.
//! * [`edit()`] is for those who write into the document themselves.
//! * [`RunAt`] is for looking: a run as it is, or as it was at any revision.
//!
//! Printing is not here: what happens goes to an [`Observer`].

mod archive;
mod attempt;
mod causes;
mod clock;
mod edit;
mod engine;
mod engine_config;
mod external;
mod history;
mod import;
mod journal;
mod marks;
mod notice;
mod opening;
mod prompt;
mod race;
mod read;
mod rebuild;
mod request;
mod restore;
mod run_at;
mod salvage;
mod summary;
mod verdict;
mod verify;
mod views;

pub use archive::{
    ExportError, ImportError, ImportTarget, Imported, Logs, Manifest, Unpacked, export, import, unpack,
};
pub use attempt::WatchFailed;
pub use causes::with_causes;
pub use clock::Clock;
pub use edit::{EditError, Edited, SequenceConflict, edit};
pub use engine::{Engine, EngineError, EngineExit, EngineRequest};
pub use engine_config::{Abandoned, AgentProfile, EngineConfig, GRACE, Overrides};
pub use external::{Refused, Settled, rebuild_document};
pub use history::{Attempted, EngineSeen, Held, History, Over, for_each_entry};
pub use import::{DocumentImportError, FoundView, Migrating, import_document, migrate};
pub use journal::{Journal, LoadError};
pub use marks::marks_here;
pub use notice::{Notice, Observer};
pub use opening::{OpenError, RunOptions, RunSpec, open};
pub use prompt::{Told, would_be_told};
pub use read::{Read, read};
pub use rebuild::{Rebuild, Unfit};
pub use request::{RequestError, note_refusal, request};
pub use restore::{RestoreError, Restored};
pub use run_at::{RunAt, RunAtError};
pub use salvage::{Ground, SalvageOutcome, SalvageRunError, Salvaged, lost, salvage, was_opened_by};
pub use summary::Summary;
pub use verdict::{last_line, last_lines};
pub use verify::{Inconsistency, verify};
