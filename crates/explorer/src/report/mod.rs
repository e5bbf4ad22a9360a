//! Tables and diagrams of an exploration, for people to review.

mod notation;
mod table;
mod writes;

pub(super) use notation::{describe_changes, describe_input, describe_run, describe_written};
pub(super) use table::Row;
pub use writes::DocumentWrites;
