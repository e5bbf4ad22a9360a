//! The one loop: facts and requests in, one commit each, actions carried out, views written.
//!
//! * [`Journal`] is a run in memory and the only way to change it: decide, then commit.
//! * [`Engine`] holds the run's lead and acts. Recovery is not a second code path: it loads the run, performs what
//!   was not acknowledged, and goes on in the same loop.
//! * [`request()`] is for everybody else: it commits a request, and whoever is the engine acts on it.
//! * [`edit()`] is for those who write into the document themselves.
//! * [`Moment`] is for looking: a run as it is, or as it was at any revision.
//!
//! Printing is not here: what happens goes to an [`Observer`].

mod adopt;
mod archive;
mod attempt;
mod causes;
mod clock;
mod edit;
mod engine;
mod foreign;
mod history;
mod house;
mod journal;
mod marks;
mod moment;
mod notice;
mod opening;
mod prompt;
mod race;
mod read;
mod rebuild;
mod request;
mod restore;
mod salvage;
mod summary;
mod verdict;
mod verify;
mod views;

pub use adopt::{AdoptError, FoundView, Migrating, adopt, migrate};
pub use archive::{
    ExportError, ImportError, Imported, Logs, Manifest, Restaging, Unpacked, export, import, unpack,
};
pub use attempt::Lost;
pub use causes::with_causes;
pub use clock::Clock;
pub use edit::{EditError, Edited, SequenceConflict, edit};
pub use engine::{Asked, Engine, EngineError, Rest};
pub use foreign::{Refused, Settled, rebuild_document};
pub use history::{Attempted, EngineSeen, Held, History, Over, for_each_entry};
pub use house::{Abandoned, Again, GRACE, House, Player};
pub use journal::{Journal, LoadError};
pub use marks::marks_here;
pub use moment::{Moment, MomentError};
pub use notice::{Notice, Observer};
pub use opening::{Frozen, OpenError, Staging, open};
pub use prompt::{Told, would_be_told};
pub use read::{Read, read};
pub use rebuild::{Rebuild, Unfit};
pub use request::{RequestError, note_refusal, request};
pub use restore::{RestoreError, Restored};
pub use salvage::{Fate, Ground, SalvageRunError, Salvaged, lost, salvage, was_opened_by};
pub use summary::Summary;
pub use verdict::{last_line, last_lines};
pub use verify::{Flaw, verify};
