//! Errors of the configuration, each with its location.

use std::fmt;
use std::path::PathBuf;

/// All errors. Those of flags come first, then those of environment variables, the project's file and the user's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigErrors(pub(crate) Vec<ConfigError>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    pub(crate) location: ErrorLocation,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ErrorLocation {
    /// Line and column start at 1; columns count characters.
    File {
        path: PathBuf,
        line: usize,
        column: usize,
    },
    /// The whole file.
    WholeFile(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
}

impl fmt::Display for ErrorLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::WholeFile(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "environment variable `{name}`"),
            Self::Flag(name) => write!(f, "`{name}`"),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
