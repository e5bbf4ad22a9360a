//! Stable codes for errors that users meet, each with a page that explains it.
//!
//! A code is never reused for another error. The pages in `docs/errors/` are compiled into the program, so that
//! `callboard explain` works offline.

use std::fmt;

/// An error that `callboard explain` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Held,
    Gone,
    Damaged,
    Network,
    NotOurs,
    Newer,
    NoAdapter,
    NoProgram,
    BadWorkflow,
    BadConfiguration,
    NoSuchRun,
    FromInside,
    Refused,
    Fenced,
    DiskFull,
    Shortage,
    ViewSetAside,
    Bug,
    Corrupted,
    SequenceConflict,
    NotYours,
    BreaksRules,
    NoServer,
    NoStream,
}

/// The name and page of a code.
macro_rules! page {
    ($name:literal) => {
        ($name, include_str!(concat!("../../../../docs/errors/", $name, ".md")))
    };
}

impl Code {
    pub(crate) const ALL: [Self; 24] = [
        Self::Held,
        Self::Gone,
        Self::Damaged,
        Self::Network,
        Self::NotOurs,
        Self::Newer,
        Self::NoAdapter,
        Self::NoProgram,
        Self::BadWorkflow,
        Self::BadConfiguration,
        Self::NoSuchRun,
        Self::FromInside,
        Self::Refused,
        Self::Fenced,
        Self::DiskFull,
        Self::Shortage,
        Self::ViewSetAside,
        Self::Bug,
        Self::Corrupted,
        Self::SequenceConflict,
        Self::NotYours,
        Self::BreaksRules,
        Self::NoServer,
        Self::NoStream,
    ];

    fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Held => page!("E001"),
            Self::Gone => page!("E002"),
            Self::Damaged => page!("E003"),
            Self::Network => page!("E004"),
            Self::NotOurs => page!("E005"),
            Self::Newer => page!("E006"),
            Self::NoAdapter => page!("E007"),
            Self::NoProgram => page!("E008"),
            Self::BadWorkflow => page!("E009"),
            Self::BadConfiguration => page!("E010"),
            Self::NoSuchRun => page!("E011"),
            Self::FromInside => page!("E012"),
            Self::Refused => page!("E013"),
            Self::Fenced => page!("E014"),
            Self::DiskFull => page!("E015"),
            Self::Shortage => page!("E016"),
            Self::ViewSetAside => page!("E017"),
            Self::Bug => page!("E018"),
            Self::Corrupted => page!("E019"),
            Self::SequenceConflict => page!("E020"),
            Self::NotYours => page!("E021"),
            Self::BreaksRules => page!("E022"),
            Self::NoServer => page!("E023"),
            Self::NoStream => page!("E024"),
        }
    }

    /// Returns the code as text: `E004`.
    pub(crate) fn name(self) -> &'static str {
        self.entry().0
    }

    /// Returns the page, in Markdown.
    pub(crate) fn page(self) -> &'static str {
        self.entry().1
    }

    /// Returns the first line of the page, without its code.
    pub(crate) fn title(self) -> &'static str {
        let first = self.page().lines().next().unwrap_or_default();
        first.split_once(": ").map_or(first, |(_, title)| title)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
