//! The SQL of the embedded store.
//!
//! * `schema`: tables, format number, migration
//! * `read`, `write`: one function per statement or transaction
//! * `checksum`: detects changed bytes in a journal entry

pub(in crate::sqlite) mod checksum;
pub(in crate::sqlite) mod read;
pub(in crate::sqlite) mod schema;
pub(in crate::sqlite) mod write;
