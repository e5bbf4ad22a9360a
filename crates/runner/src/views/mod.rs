//! View files on disk, and the marks that tell the engine's own files from others.

mod files;
mod marks;

pub(crate) use files::{Durability, ViewFiles, create_private_dir};
pub use marks::marks_of_host;
pub(crate) use marks::{marks_for_store, merge_marks};
