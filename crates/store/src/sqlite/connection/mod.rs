//! How the database is created, opened and accessed.
//!
//! * `open`: creates a database, or opens an existing one and checks its format
//! * `database`: an open database; one read or one write transaction at a time
//! * `connect`: SQLite connections for writing, for reading, and for reading without changing any file
//! * `inspect`: reads a store without changing any file

pub(crate) mod connect;
pub(crate) mod database;
pub(crate) mod inspect;
pub(crate) mod open;

pub use inspect::StoreInspection;
pub use open::OpenError;

pub(crate) use connect::{FileState, connect, connect_without_changing_database};
pub(crate) use database::{Database, WriteFailure, lock};
