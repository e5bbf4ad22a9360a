//! The SQL of the embedded store.
//!
//! * `schema`: tables, format number, migration
//! * `read`, `write`: one function per statement or transaction
//! * `checksum`: detects changed bytes in a journal entry

pub(crate) mod checksum;
pub(crate) mod read;
pub(crate) mod schema;
pub(crate) mod write;
