//! How the database is created, opened and accessed.
//!
//! * `open`: creates a database, or opens an existing one and checks its format
//! * `database`: an open database; one read or one write transaction at a time
//! * `connect`: SQLite connections for writing, for reading, and for reading without a trace
//! * `examine`: reads a store without changing any file

pub(in crate::sqlite) mod connect;
pub(in crate::sqlite) mod database;
pub(in crate::sqlite) mod examine;
pub(in crate::sqlite) mod open;

pub use examine::Examined;
pub use open::OpenError;

pub(in crate::sqlite) use connect::{FileState, connect, connect_without_trace};
pub(in crate::sqlite) use database::{Database, WriteFailure, lock};
