//! What people see when something goes wrong, and the exit code that goes with it.

mod advice;

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use protocol::steps::load::Problem;
use store::{CommitError, LeadError, LocateError, OpenError, ReadError, WriteError};

use crate::render;

/// The exit codes: an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Delivered,
    Undelivered,
    Usage,
    Refused,
    Store,
    Bug,
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Delivered => 0,
            Self::Undelivered => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::Store => 5,
            Self::Bug => 70,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// An error with its exit code and what to type next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) what: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl fmt::Display) -> Self {
        Self { exit, what: what.to_string(), causes: Vec::new(), hints: Vec::new() }
    }

    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// A file that cannot be used, with everything that is wrong with it.
    pub(crate) fn of_problems(what: &str, file: &Path, source: &str, problems: &[Problem]) -> Self {
        let shown: Vec<_> = problems.iter().map(|problem| render::problem(file, source, problem)).collect();
        let count = match problems.len() {
            1 => "1 problem".to_owned(),
            many => format!("{many} problems"),
        };
        Self::usage(format!("the {what} `{}` has {count}\n\n{}", file.display(), shown.join("\n\n")))
    }

    /// An error with all that caused it.
    pub(crate) fn from_error(exit: Exit, error: &dyn Error) -> Self {
        Self::new(exit, error).because(error.source())
    }

    pub(crate) fn because(mut self, cause: Option<&(dyn Error + 'static)>) -> Self {
        let mut next = cause;
        while let Some(cause) = next {
            let text = cause.to_string();
            // A transparent layer says the same thing twice.
            if self.causes.last().unwrap_or(&self.what) != &text {
                self.causes.push(text);
            }
            next = cause.source();
        }
        self
    }

    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Puts what was being done in front.
    pub(crate) fn while_doing(mut self, doing: impl fmt::Display) -> Self {
        let what = std::mem::replace(&mut self.what, doing.to_string());
        self.causes.insert(0, what);
        self
    }
}

impl From<crate::config::ConfigErrors> for Failure {
    fn from(errors: crate::config::ConfigErrors) -> Self {
        let mut lines = vec!["the configuration cannot be used".to_owned()];
        for fault in &errors.0 {
            lines.push(format!("  {fault}"));
            lines.extend(fault.hint.as_ref().map(|hint| format!("    hint: {hint}")));
        }
        Self::usage(lines.join("\n"))
    }
}

impl From<LocateError> for Failure {
    fn from(error: LocateError) -> Self {
        Self::from_error(Exit::Store, &error)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            OpenError::Unavailable(unavailable) => failure.advised(unavailable),
            OpenError::Io { .. } => failure,
            OpenError::Newer { .. } => failure.hint("it was left as it is; install that version"),
            OpenError::Empty { .. }
            | OpenError::Missing { .. }
            | OpenError::Unreadable { .. }
            | OpenError::Foreign { .. } => {
                failure.hint("it was left as it is; move it aside to begin with an empty store")
            }
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            ReadError::Unavailable(unavailable) => failure.advised(unavailable),
            ReadError::DamagedBlob { .. } => failure,
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            WriteError::Unavailable(unavailable) => failure.advised(unavailable),
            WriteError::NoSuchRun { .. } => failure,
        }
    }
}

impl From<LeadError> for Failure {
    fn from(error: LeadError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match error {
            LeadError::Held { pid, stopped: true, .. } => {
                failure.hint(format!("`kill -CONT {pid}`, or `fg` in its terminal, lets it go on"))
            }
            LeadError::Held { run, .. } => failure
                .hint(format!("`callboard show {run}` shows how far it is; `callboard stop {run}` stops it")),
            LeadError::Unavailable(unavailable) => failure.advised(&unavailable),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match error {
            CommitError::Deposed { .. } => failure.hint("nothing is lost: the other engine goes on"),
            CommitError::Unavailable(unavailable) => failure.advised(&unavailable),
            CommitError::Conflict { .. } | CommitError::Unknown { .. } | CommitError::TooLarge { .. } => {
                failure
            }
        }
    }
}

impl From<runner::LoadError> for Failure {
    fn from(error: runner::LoadError) -> Self {
        Self::from_error(Exit::Store, &error)
    }
}

impl From<runner::RequestError> for Failure {
    fn from(error: runner::RequestError) -> Self {
        match error {
            runner::RequestError::Refused(refusal) => Self::new(Exit::Refused, refusal),
            runner::RequestError::Raced { .. } => {
                Self::from_error(Exit::Store, &error).hint("the run is busy; try again")
            }
            runner::RequestError::Load(error) => error.into(),
            runner::RequestError::Commit(error) => error.into(),
        }
    }
}

impl From<runner::EngineError> for Failure {
    fn from(error: runner::EngineError) -> Self {
        use runner::EngineError;
        match error {
            EngineError::Lead(error) => error.into(),
            EngineError::Load(error) => error.into(),
            EngineError::Read(error) => error.into(),
            EngineError::Commit(error) => error.into(),
            EngineError::Marks(error) => error.into(),
            EngineError::Refused(refusal) => Self::new(Exit::Refused, refusal),
            EngineError::NoPlayer { ref agent, .. } => {
                let hint = crate::players::how_to_set(agent);
                Self::from_error(Exit::Usage, &error).hint(hint)
            }
            EngineError::NoSuchRun(_) => {
                Self::from_error(Exit::Usage, &error).hint("`callboard ls` lists the runs")
            }
            EngineError::Attend { .. } if supervisor::is_full_disk(&error) => {
                Self::from_error(Exit::Store, &error).hint(advice::FULL)
            }
            EngineError::Attend { source: runner::Lost::Shortage(_), .. } => Self::from_error(
                Exit::Store,
                &error,
            )
            .hint(
                "nothing is lost: `callboard resume` goes on; give it fewer `--jobs`, or raise `ulimit -n`",
            ),
            EngineError::Attend { .. } => Self::from_error(Exit::Store, &error),
            EngineError::Lookout(_) => Self::from_error(Exit::Bug, &error)
                .hint("raise fs.inotify.max_user_instances, or end other programs that watch files"),
            EngineError::View { .. } => Self::from_error(Exit::Store, &error)
                .hint("nothing is lost: the store has the run; `callboard show` reads it"),
        }
    }
}
