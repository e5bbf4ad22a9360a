//! Kernel namespaces and small file systems for tests that need their own.

mod disk;
mod isolated;

pub use disk::Disk;
pub use isolated::{Isolation, isolated};
