//! Tables and diagrams of an exploration, for people to review.

mod notation;
mod table;
mod writes;

pub(super) use notation::{say_changes, say_input, say_run, say_written};
pub(super) use table::Row;
pub use writes::DocumentWrites;
