//! View files on disk, and the view marks that tell the engine's own files from others.

mod files;
mod marks;

pub(crate) use files::{Durability, ViewFiles, create_private_dir};
pub use marks::view_marks_of_host;
pub(crate) use marks::{merge_view_marks, view_marks_for_store};
