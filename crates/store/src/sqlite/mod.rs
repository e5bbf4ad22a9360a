//! The embedded backend: one SQLite file in WAL mode, and beside it the ticket that writers queue on.
//!
//! * `backend`: the contract, by means of the others
//! * `open`, `migrations`: a file becomes a store · `connection`: one change or one look at it
//! * `examine`: a look that leaves no trace
//! * `write`, `read`: the SQL · `lead`: who is the engine · `watch`: news from other processes
//! * `closed`: nobody else is there · `kept`: a damaged store set aside · `salvage`: what can be read of it ·
//!   `draft`: a new database beside the old one · `damage`: is it sound? · `rescue`: a copy from the open handle

mod backend;
mod closed;
mod connection;
mod damage;
mod draft;
mod examine;
mod kept;
mod lead;
mod migrations;
mod open;
mod read;
mod rescue;
mod salvage;
mod seal;
mod ticket;
mod watch;
mod write;

pub use backend::SqliteStore;
pub use closed::{CloseError, Closed};
pub use damage::{Damage, find_damage};
pub(crate) use draft::TransactionWriter;
pub use draft::{Draft, DraftError};
pub use examine::Examined;
pub use kept::{KeepError, Kept};
pub(crate) use lead::Lock;
pub use open::OpenError;
pub use rescue::RescueError;
pub use salvage::{FoundEntry, FoundRun, Salvage, SalvageError};
pub(crate) use watch::Watch;
