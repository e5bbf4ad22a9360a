//! Tables and diagrams of an exploration, for people to review.

mod document_changes;
mod notation;
mod table;

pub use document_changes::DocumentChanges;
pub(super) use notation::{describe_changes, describe_document_change, describe_input, describe_run};
pub(super) use table::Row;
