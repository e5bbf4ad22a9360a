//! What people see when something goes wrong, and the exit code that goes with it.
//!
//! Workspace, and only here, the errors of the libraries become failures: each gets its exit code, its [`Code`] if it is
//! one that operators meet, and what to type next.

mod advice;
mod code;
mod edit;

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use protocol::steps::load::Problem;
use store::{CommitError, EngineLockError, LocateError, OpenError, ReadError, Unavailable, WriteError};

use crate::output;
use crate::output::paste;
pub(crate) use code::Code;

/// The exit codes: an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Failed,
    /// The doctor has found something that needs doing.
    NeedsDoing,
    Usage,
    Refused,
    /// It goes on when a person has said how.
    NeedsPerson,
    Store,
    Bug,
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed | Self::NeedsDoing => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::NeedsPerson => 4,
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
    /// Set for the errors that `callboard explain` knows.
    pub(crate) code: Option<Code>,
    pub(crate) what: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
    /// What programs are told besides.
    details: Option<Box<serde_json::Map<String, serde_json::Value>>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl fmt::Display) -> Self {
        Self {
            exit,
            code: None,
            what: what.to_string(),
            causes: Vec::new(),
            hints: Vec::new(),
            details: None,
        }
    }

    pub(crate) fn usage(what: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// A file that cannot be used, with everything that is wrong with it.
    pub(crate) fn of_problems(what: &str, file: &Path, source: &str, problems: &[Problem]) -> Self {
        let shown: Vec<_> = problems.iter().map(|problem| output::problem(file, source, problem)).collect();
        let count = output::count(problems.len(), "problem", "problems");
        Self::usage(format!("the {what} `{}` has {count}\n\n{}", file.display(), shown.join("\n\n")))
            .code(Code::BadWorkflow)
    }

    /// An error with all that caused it. That the machine is short of something explains more than what it kept us
    /// from.
    pub(crate) fn from_error(exit: Exit, error: &dyn Error) -> Self {
        let failure = Self::new(exit, error).because(error.source());
        match shortage(error.source()) {
            Some(Code::DiskFull) => failure.for_want_of_room(),
            other => failure.maybe(other),
        }
    }

    /// Gives it a code, unless it has one.
    pub(crate) fn code(mut self, code: Code) -> Self {
        self.code.get_or_insert(code);
        self
    }

    fn maybe(self, code: Option<Code>) -> Self {
        match code {
            Some(code) => self.code(code),
            None => self,
        }
    }

    pub(crate) fn because(mut self, cause: Option<&(dyn Error + 'static)>) -> Self {
        let mut next = cause;
        while let Some(cause) = next {
            let text = cause.to_string();
            // A transparent layer says the same thing twice, and so does one that ends with its cause.
            let said = self.causes.last().unwrap_or(&self.what);
            if *said != text && !said.ends_with(&format!(": {text}")) {
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

    /// Adds what programs are told besides.
    pub(crate) fn detail(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.details.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }

    /// The same for a program that reads events.
    pub(crate) fn event(&self) -> serde_json::Value {
        let mut event = serde_json::json!({
            "event": "failed",
            "code": self.code.map(Code::name),
            "error": self.what,
            "causes": self.causes,
            "hints": self.hints.iter().map(|hint| paste::completed(hint)).collect::<Vec<_>>(),
        });
        if let (Some(event), Some(details)) = (event.as_object_mut(), &self.details) {
            event.extend(details.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        event
    }

    /// Puts what was being done in front.
    pub(crate) fn while_doing(mut self, doing: impl fmt::Display) -> Self {
        let what = std::mem::replace(&mut self.what, doing.to_string());
        self.causes.insert(0, what);
        self
    }
}

/// Whether an error goes back to a machine that is short of something.
fn shortage(mut cause: Option<&(dyn Error + 'static)>) -> Option<Code> {
    while let Some(error) = cause {
        if supervisor::is_full_disk(error) {
            return Some(Code::DiskFull);
        }
        if error.downcast_ref().is_some_and(supervisor::is_shortage) {
            return Some(Code::Shortage);
        }
        cause = error.source();
    }
    None
}

impl From<crate::config::ConfigErrors> for Failure {
    fn from(errors: crate::config::ConfigErrors) -> Self {
        let mut lines = vec!["the configuration cannot be used".to_owned()];
        for fault in &errors.0 {
            lines.push(format!("  {fault}"));
            lines.extend(fault.hint.as_ref().map(|hint| format!("    hint: {hint}")));
        }
        Self::usage(lines.join("\n")).code(Code::BadConfiguration)
    }
}

impl From<LocateError> for Failure {
    fn from(error: LocateError) -> Self {
        let code = match error {
            LocateError::AnotherUsers { .. } | LocateError::Tracked { .. } => Some(Code::NotOurs),
            LocateError::Network { .. } => Some(Code::Network),
            LocateError::NotADirectory { .. }
            | LocateError::BrokenGit { .. }
            | LocateError::AskGit { .. }
            | LocateError::Io { .. } => None,
        };
        Self::from_error(Exit::Store, &error).maybe(code)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        let failure = match &error {
            OpenError::Unavailable(unavailable) => return failure.advised(unavailable),
            OpenError::Io { .. } => return failure,
            OpenError::Newer { .. } => {
                return failure.code(Code::Newer).hint("it was left as it is; install that version");
            }
            OpenError::Empty { .. } | OpenError::Unreadable { .. } | OpenError::OtherProgram { .. } => {
                failure.code(Code::Damaged)
            }
            OpenError::Missing { .. } => failure.code(Code::Gone),
        };
        failure.hint("it was left as it is; `callboard recover --dry-run` shows what can be read of it")
    }
}

impl From<store::ExclusiveAccessError> for Failure {
    fn from(error: store::ExclusiveAccessError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match error {
            store::ExclusiveAccessError::EngineRunning { run, .. } => {
                failure.hint(format!("`callboard stop {run}` stops it; then try again"))
            }
            store::ExclusiveAccessError::Busy { .. } => failure.hint("try again when it has ended"),
            store::ExclusiveAccessError::Io { .. } => failure,
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        Self::from_error(Exit::Store, &error).advised(&error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            ReadError::Unavailable(unavailable) => failure.advised(unavailable),
            ReadError::DamagedBlob { .. } => failure.code(Code::Damaged),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            WriteError::Unavailable(unavailable) => failure.advised(unavailable),
            WriteError::NoSuchRun { .. } => failure.code(Code::NoSuchRun),
        }
    }
}

impl From<EngineLockError> for Failure {
    fn from(error: EngineLockError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            EngineLockError::Held { pid, stopped: true, .. } => failure
                .code(Code::Held)
                .hint(format!("`kill -CONT {pid}`, or `fg` in its terminal, lets it go on")),
            EngineLockError::Held { run, .. } => failure
                .code(Code::Held)
                .hint(format!("`callboard watch {run}` follows it; `callboard stop {run}` stops it")),
            EngineLockError::Unavailable(unavailable) => failure.advised(unavailable),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            CommitError::Fenced { .. } => {
                failure.code(Code::Fenced).hint("nothing is lost: the other engine goes on")
            }
            CommitError::Unavailable(unavailable) => failure.advised(unavailable),
            CommitError::Unknown { source, .. } => {
                let code = match source.downcast_ref() {
                    Some(Unavailable::Server { .. }) => Some(Code::NoServer),
                    Some(Unavailable::NoStream { .. } | Unavailable::OtherStore { .. }) => {
                        Some(Code::NoStream)
                    }
                    _ => None,
                };
                failure.maybe(code).hint(
                    "trying again doubles nothing: when the store answers, `callboard resume` goes on from whatever landed",
                )
            }
            CommitError::Conflict { .. } | CommitError::TooLarge { .. } => failure,
        }
    }
}

impl Failure {
    /// A document that is not what was written, by whichever way it was met: `corrupted_state`.
    fn corrupted(error: &dyn Error) -> Self {
        Self::from_error(Exit::NeedsPerson, error).code(Code::Corrupted).detail("kind", "corrupted_state")
    }
}

impl From<runner::LoadError> for Failure {
    fn from(error: runner::LoadError) -> Self {
        use runner::LoadError;
        match error {
            LoadError::Read(error) => error.into(),
            LoadError::Entry { .. } | LoadError::Damaged { .. } => {
                Self::from_error(Exit::Store, &error).code(Code::Damaged)
            }
            LoadError::Corrupted { ref run, .. } => {
                let hint = format!(
                    "`callboard resume {run}` puts back what was committed last, if that can be proven"
                );
                Self::corrupted(&error).hint(hint)
            }
            LoadError::OtherProtocol { .. } => Self::from_error(Exit::Store, &error),
            LoadError::Contended { .. } => Self::from_error(Exit::Store, &error)
                .hint("nothing is lost: end that client, then type the same again"),
            LoadError::ExternalWrite { run, source } => Self::from(*source).while_doing(format_args!(
                "cannot settle what another client wrote in the place of the document of run `{run}`"
            )),
        }
    }
}

impl From<runner::RequestError> for Failure {
    fn from(error: runner::RequestError) -> Self {
        match error {
            runner::RequestError::Refused(refusal) => Self::new(Exit::Refused, refusal).code(Code::Refused),
            runner::RequestError::Conflict { .. } => {
                Self::from_error(Exit::Store, &error).hint("the run is busy; try again")
            }
            runner::RequestError::Load(error) => error.into(),
            runner::RequestError::Commit(error) => error.into(),
        }
    }
}

impl From<runner::RestoreError> for Failure {
    fn from(error: runner::RestoreError) -> Self {
        use runner::RestoreError;
        match error {
            RestoreError::NotLast { ref run, from, .. } => {
                let hint = format!(
                    "`callboard resume {run} --recover` goes on from revision {from}; what came after it is lost"
                );
                Self::corrupted(&error).hint(hint)
            }
            RestoreError::NoCandidate { ref run, .. } => {
                let hint = format!(
                    "`callboard log {run}` shows its journal; `callboard export {run}` keeps all that is left"
                );
                Self::corrupted(&error).hint(hint)
            }
            RestoreError::Keep { .. } => Self::from_error(Exit::Store, &error),
            RestoreError::ImportRefusal(_) => Self::corrupted(&error),
            RestoreError::Load(error) => error.into(),
            RestoreError::Commit(error) => error.into(),
        }
    }
}

impl From<runner::EngineError> for Failure {
    fn from(error: runner::EngineError) -> Self {
        use runner::EngineError;
        match error {
            EngineError::EngineLock(error) => error.into(),
            EngineError::Load(error) => error.into(),
            EngineError::Restore(error) => error.into(),
            EngineError::Read(error) => error.into(),
            EngineError::Commit(error) => error.into(),
            EngineError::Marks(error) => error.into(),
            EngineError::Refused(refusal) => Self::new(Exit::Refused, refusal).code(Code::Refused),
            EngineError::NothingToAbandon { here, .. } => {
                let failure = Self::from_error(Exit::Refused, &error).code(Code::Refused);
                if here {
                    failure.hint("that is this host: without `--abandon-host` its attempts are taken up")
                } else {
                    failure
                }
            }
            EngineError::NoProfile { ref agent, .. } => {
                let hint = crate::engine::profiles::how_to_set(agent);
                Self::from_error(Exit::Usage, &error).code(Code::NoProfile).hint(hint)
            }
            EngineError::NoSuchRun(_) => Self::from_error(Exit::Usage, &error)
                .code(Code::NoSuchRun)
                .hint("`callboard ls` lists the runs"),
            EngineError::Attach { .. } if supervisor::is_full_disk(&error) => {
                Self::from_error(Exit::Store, &error).for_want_of_room()
            }
            EngineError::Attach { source: runner::WatchFailed::Shortage(_), .. } => Self::from_error(
                Exit::Store,
                &error,
            )
            .code(Code::Shortage)
            .hint(
                "nothing is lost: `callboard resume` goes on; give it fewer `--jobs`, or raise `ulimit -n`",
            ),
            EngineError::Attach { .. } => Self::from_error(Exit::Store, &error),
            EngineError::DirWatcher(_) => Self::from_error(Exit::Bug, &error)
                .code(Code::Shortage)
                .hint("raise fs.inotify.max_user_instances, or end other programs that watch files"),
            EngineError::View { .. } => Self::from_error(Exit::Store, &error)
                .hint("nothing is lost: the store has the run; `callboard show` reads it"),
        }
    }
}

#[cfg(test)]
mod tests;
