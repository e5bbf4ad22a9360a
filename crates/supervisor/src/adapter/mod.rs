//! How one kind of agent is launched: the command line and the environment it gets.
//!
//! Adapters are data. They are frozen with the run, so they serialise, and whatever can be wrong in them is found when
//! they are made, not when the third step is launched.

mod assignment;
mod command;
mod environment;
pub mod rehearsal;
mod wrapper;

use serde::{Deserialize, Serialize};

pub use assignment::{Assignment, Dependency};
pub use command::{CommandLine, TemplateError};
pub use environment::{Pass, environment};
pub use rehearsal::Rehearsal;
pub use wrapper::Wrapper;

/// A way to launch an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// A program that takes the six flags of the wrapper contract.
    Wrapper(Wrapper),
    /// Any command line, with placeholders.
    Command(CommandLine),
    /// The built-in player.
    Rehearsal(Rehearsal),
}

impl Adapter {
    /// Program and arguments for this assignment.
    pub fn argv(&self, assignment: &Assignment) -> Vec<String> {
        match self {
            Self::Wrapper(wrapper) => wrapper.argv(assignment),
            Self::Command(line) => line.argv(assignment),
            Self::Rehearsal(rehearsal) => rehearsal.argv(assignment),
        }
    }

    /// The program that is started, if that does not depend on the assignment.
    pub fn program(&self) -> Option<&str> {
        match self {
            Self::Wrapper(wrapper) => Some(wrapper.starts()),
            Self::Command(line) => line.program(),
            Self::Rehearsal(_) => None,
        }
    }

    /// Whether all this is only a rehearsal. Whoever acts on the world outside the repository (a push, a pull request,
    /// a comment) asks the run's frozen player first: what is rehearsed is recorded, never performed.
    pub fn is_rehearsal(&self) -> bool {
        match self {
            Self::Rehearsal(_) => true,
            Self::Wrapper(_) | Self::Command(_) => false,
        }
    }
}

/// What counts as the report of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportRule {
    /// Only a valid report does, whatever the exit code.
    Required,
    /// Without a report the exit code is taken for one.
    ExitCode,
}
