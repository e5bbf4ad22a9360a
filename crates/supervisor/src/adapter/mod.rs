//! How one kind of agent is started: its command line and environment.
//!
//! An adapter is stored with the run and never changes after its start, so it can be serialised. It is validated when it is
//! created, so that a mistake does not appear in the middle of a run.

mod assignment;
mod command;
mod environment;
pub mod rehearsal;
mod wrapper;

use serde::{Deserialize, Serialize};

pub use assignment::{Assignment, Dependency, DependencyAnswer};
pub use command::{CommandLine, TemplateError};
pub use environment::{EnvPolicy, environment};
pub use rehearsal::RehearsalScript;
pub use wrapper::Wrapper;

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Adapter {
    /// A program that takes the six flags of the wrapper contract.
    Wrapper(Wrapper),
    /// Any command line, with placeholders.
    Command(CommandLine),
    /// The built-in scripted agent.
    Rehearsal(RehearsalScript),
    /// The program `callboard` itself, which runs the [checks](crate::checks) of a command step.
    Checks,
}

impl Adapter {
    /// Returns program and arguments for an assignment.
    pub fn argv(&self, assignment: &Assignment) -> Vec<String> {
        match self {
            Self::Wrapper(wrapper) => wrapper.argv(assignment),
            Self::Command(line) => line.argv(assignment),
            Self::Rehearsal(rehearsal) => rehearsal.argv(assignment),
            Self::Checks => vec![
                linux::OWN_PROGRAM.to_owned(),
                crate::checks::ARGUMENT.to_owned(),
                assignment.checks_path.clone(),
            ],
        }
    }

    /// Returns this adapter with more arguments after its own. Nothing is added where the program is `callboard` itself: to the
    /// scripted agent and to checks.
    #[must_use]
    pub fn with_args(&self, args: &[String]) -> Self {
        match self {
            Self::Wrapper(Wrapper { program, args: own }) => {
                Self::Wrapper(Wrapper { program: program.clone(), args: [own, args].concat() })
            }
            Self::Command(line) => Self::Command(line.with_args(args)),
            Self::Rehearsal(_) | Self::Checks => self.clone(),
        }
    }

    /// Returns the program that is started, or `None` if it depends on the assignment.
    pub fn program(&self) -> Option<&str> {
        match self {
            Self::Wrapper(wrapper) => Some(wrapper.executable()),
            Self::Command(line) => line.program(),
            Self::Rehearsal(_) | Self::Checks => None,
        }
    }

    /// Whether this is the scripted agent. An effect outside the repository (a push, a pull request, a comment) must
    /// check this first: in a rehearsal it is recorded, never performed.
    pub fn is_rehearsal(&self) -> bool {
        match self {
            Self::Rehearsal(_) => true,
            Self::Wrapper(_) | Self::Command(_) | Self::Checks => false,
        }
    }
}

/// What counts as the report of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportRule {
    /// Only a valid report, whatever the exit code.
    Required,
    /// A valid report if there is one, otherwise the exit code.
    ExitCode,
}
