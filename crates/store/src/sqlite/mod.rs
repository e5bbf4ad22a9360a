//! The embedded backend: one SQLite file in WAL mode, and beside it the ticket that writers queue on.
//!
//! * `backend`: the contract, by means of the others
//! * `open`, `migrations`: a file becomes a store · `connection`: one change or one look at it
//! * `examine`: a look that leaves no trace
//! * `write`, `read`: the SQL · `lead`: who is the engine · `watch`: news from other processes
//! * `closed`: nobody else is there · `backup`: a damaged store set aside · `salvage`: what can be read of it ·
//!   `draft`: a new database beside the old one · `damage`: is it sound? · `rescue`: a copy from the open handle

mod backend;
mod backup;
mod closed;
mod connection;
mod damage;
mod draft;
mod examine;
mod lock;
mod migrations;
mod open;
mod read;
mod rescue;
mod salvage;
mod seal;
mod watch;
mod write;
mod writer_lock;

pub use backend::SqliteStore;
pub use backup::{Backup, KeepError};
pub use closed::{CloseError, Closed};
pub use damage::{Damage, find_damage};
pub(crate) use draft::TransactionWriter;
pub use draft::{Draft, DraftError};
pub use examine::Examined;
pub(crate) use lock::Lock;
pub use open::OpenError;
pub use rescue::RescueError;
pub use salvage::{FoundEntry, FoundRun, Salvage, SalvageError};
pub(crate) use watch::Watch;
