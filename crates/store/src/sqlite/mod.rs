//! The embedded backend: one SQLite file in WAL mode, and next to it the lock file on which writers queue.
//!
//! * `backend`: implements the [`Store`](crate::Store) contract with the modules below
//! * `connection`: creates, opens and examines the database; runs one read or one write transaction
//! * `sql`: schema, statements, entry checksums
//! * `lock`: the writer lock, and the lock that the engine of a run holds
//! * `watch`: learns about commits of other processes without polling
//! * `run_writer`: writes a whole run in one transaction
//! * `recovery`: finds damage, backs up, salvages, replaces the database

mod backend;
mod connection;
mod lock;
mod recovery;
mod run_writer;
mod sql;
mod watch;

pub use backend::SqliteStore;
pub use connection::{OpenError, StoreInspection};
pub(crate) use lock::EngineLockFile;
pub use recovery::{
    Backup, BackupError, Damage, EmergencyCopyError, ExclusiveAccess, ExclusiveAccessError, FoundEntry,
    FoundRun, ReplacementDatabase, Salvage, SalvageError, find_damage,
};
pub(crate) use run_writer::TransactionWriter;
pub(crate) use watch::Watch;
