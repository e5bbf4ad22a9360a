//! Stable codes for errors that users meet, each with a page that explains it.
//!
//! A code is never reused for another error. The pages in `docs/errors/` are compiled into the program, so that
//! `callboard explain` works offline.

use std::fmt;

/// An error that `callboard explain` describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// Another engine holds the lock of the run.
    EngineLockHeld,
    /// The store was removed or replaced.
    StoreGone,
    /// The store or the journal of a run is damaged.
    Damaged,
    /// The store would be on a network file system.
    NetworkFileSystem,
    /// The store's directory belongs to another user or is tracked by git.
    UnsuitableStoreDir,
    /// A newer version has written the store or a run.
    Newer,
    /// No command is configured for an agent.
    NoAdapter,
    /// The program of an agent was not found.
    NoProgram,
    BadWorkflow,
    BadConfiguration,
    /// No run matches the name, or several do.
    NoSuchRun,
    /// An agent tried to control its own run.
    InsideAttempt,
    /// The status of the run does not allow the request.
    Refused,
    /// A newer engine has replaced this one.
    Fenced,
    DiskFull,
    /// A resource limit of the machine is reached.
    ResourceLimit,
    /// Another program changed a view.
    ViewSetAside,
    Bug,
    /// The document of a run was changed outside callboard.
    Corrupted,
    /// The document has changed since it was read.
    SequenceConflict,
    /// The writer may not change this part of the document.
    NotPermitted,
    /// The change would break the rules of the document.
    BreaksRules,
    /// The NATS servers cannot be used.
    NoServer,
    /// A stream or bucket of the store is gone.
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
        Self::EngineLockHeld,
        Self::StoreGone,
        Self::Damaged,
        Self::NetworkFileSystem,
        Self::UnsuitableStoreDir,
        Self::Newer,
        Self::NoAdapter,
        Self::NoProgram,
        Self::BadWorkflow,
        Self::BadConfiguration,
        Self::NoSuchRun,
        Self::InsideAttempt,
        Self::Refused,
        Self::Fenced,
        Self::DiskFull,
        Self::ResourceLimit,
        Self::ViewSetAside,
        Self::Bug,
        Self::Corrupted,
        Self::SequenceConflict,
        Self::NotPermitted,
        Self::BreaksRules,
        Self::NoServer,
        Self::NoStream,
    ];

    fn name_and_page(self) -> (&'static str, &'static str) {
        match self {
            Self::EngineLockHeld => page!("E001"),
            Self::StoreGone => page!("E002"),
            Self::Damaged => page!("E003"),
            Self::NetworkFileSystem => page!("E004"),
            Self::UnsuitableStoreDir => page!("E005"),
            Self::Newer => page!("E006"),
            Self::NoAdapter => page!("E007"),
            Self::NoProgram => page!("E008"),
            Self::BadWorkflow => page!("E009"),
            Self::BadConfiguration => page!("E010"),
            Self::NoSuchRun => page!("E011"),
            Self::InsideAttempt => page!("E012"),
            Self::Refused => page!("E013"),
            Self::Fenced => page!("E014"),
            Self::DiskFull => page!("E015"),
            Self::ResourceLimit => page!("E016"),
            Self::ViewSetAside => page!("E017"),
            Self::Bug => page!("E018"),
            Self::Corrupted => page!("E019"),
            Self::SequenceConflict => page!("E020"),
            Self::NotPermitted => page!("E021"),
            Self::BreaksRules => page!("E022"),
            Self::NoServer => page!("E023"),
            Self::NoStream => page!("E024"),
        }
    }

    /// Returns the code as text: `E004`.
    pub(crate) fn name(self) -> &'static str {
        self.name_and_page().0
    }

    /// Returns the page, in Markdown.
    pub(crate) fn page(self) -> &'static str {
        self.name_and_page().1
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
