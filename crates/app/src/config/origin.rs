//! Where the value of a setting comes from.

use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    UserFile(PathBuf),
    ProjectFile(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
    /// Suggested by this file of the project, such as `Cargo.toml`.
    Detected(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.pad("default"),
            Self::UserFile(path) | Self::ProjectFile(path) => f.pad(&path.to_string_lossy()),
            Self::Environment(name) | Self::Flag(name) => f.pad(name),
            Self::Detected(path) => f.pad(&format!("detected in {}", path.display())),
        }
    }
}

/// A value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

impl<T> Sourced<T> {
    pub(crate) fn new(value: T, origin: Origin) -> Self {
        Self { value, origin }
    }
}
