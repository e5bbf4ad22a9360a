//! Errors of commands, with their exit codes.
//!
//! Only this module converts errors of the libraries: each gets an exit code, hints, and a [`Code`] if
//! `callboard explain` describes it.

mod code;
mod document_import;
mod edit;
mod store_hints;

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use protocol::steps::load::Problem;
use store::{CommitError, EngineLockError, LocateError, OpenError, ReadError, Unavailable, WriteError};

use crate::output::{self, location_flags};
pub(crate) use code::Code;

/// The exit codes. Scripts depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Failed,
    /// `doctor` has found a problem.
    ProblemsFound,
    Usage,
    Refused,
    /// A person must decide how to continue.
    NeedsPerson,
    Store,
    Bug,
    Interrupted,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failed | Self::ProblemsFound => 1,
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

/// An error with its causes, its hints and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Set for the errors that `callboard explain` knows.
    pub(crate) code: Option<Code>,
    pub(crate) message: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hints: Vec<String>,
    /// Further fields of the JSON event.
    details: Option<Box<serde_json::Map<String, serde_json::Value>>>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self {
            exit,
            code: None,
            message: message.to_string(),
            causes: Vec::new(),
            hints: Vec::new(),
            details: None,
        }
    }

    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Creates the failure of a file with problems, each with its source line.
    pub(crate) fn of_problems(kind: &str, file: &Path, source: &str, problems: &[Problem]) -> Self {
        let shown: Vec<_> = problems.iter().map(|problem| output::problem(file, source, problem)).collect();
        let count = output::count(problems.len(), "problem", "problems");
        Self::usage(format!("the {kind} `{}` has {count}\n\n{}", file.display(), shown.join("\n\n")))
            .code(Code::BadWorkflow)
    }

    /// Creates a failure from an error and its sources. A full disk or a resource limit among them sets the code.
    pub(crate) fn from_error(exit: Exit, error: &dyn Error) -> Self {
        let failure = Self::new(exit, error).because(error.source());
        match resource_limit(error.source()) {
            Some(Code::DiskFull) => failure.disk_full(),
            other => failure.code_if(other),
        }
    }

    /// Sets the code, unless one is set.
    pub(crate) fn code(mut self, code: Code) -> Self {
        self.code.get_or_insert(code);
        self
    }

    fn code_if(self, code: Option<Code>) -> Self {
        match code {
            Some(code) => self.code(code),
            None => self,
        }
    }

    /// Appends an error and its sources to the causes.
    pub(crate) fn because(mut self, cause: Option<&(dyn Error + 'static)>) -> Self {
        let mut next = cause;
        while let Some(cause) = next {
            let text = cause.to_string();
            // Skip a source whose text is already part of the line before.
            let last = self.causes.last().unwrap_or(&self.message);
            if *last != text && !last.ends_with(&format!(": {text}")) {
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

    /// Adds a field to the JSON event.
    pub(crate) fn detail(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.details.get_or_insert_default().insert(name.to_owned(), value.into());
        self
    }

    /// Returns the failure as a JSON event.
    pub(crate) fn event(&self) -> serde_json::Value {
        let mut event = serde_json::json!({
            "event": "failed",
            "code": self.code.map(Code::name),
            "error": self.message,
            "causes": self.causes,
            "hints": self.hints.iter().map(|hint| location_flags::add_to(hint)).collect::<Vec<_>>(),
        });
        if let (Some(event), Some(details)) = (event.as_object_mut(), &self.details) {
            event.extend(details.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        event
    }

    /// Makes `context`, such as "cannot import `x`", the message and the former message its first cause.
    pub(crate) fn context(mut self, context: impl fmt::Display) -> Self {
        let message = std::mem::replace(&mut self.message, context.to_string());
        self.causes.insert(0, message);
        self
    }
}

/// Returns the code of a full disk or a resource limit among the causes.
fn resource_limit(mut cause: Option<&(dyn Error + 'static)>) -> Option<Code> {
    while let Some(error) = cause {
        if supervisor::is_full_disk(error) {
            return Some(Code::DiskFull);
        }
        if error.downcast_ref().is_some_and(supervisor::is_resource_shortage) {
            return Some(Code::ResourceLimit);
        }
        cause = error.source();
    }
    None
}

impl From<crate::config::ConfigErrors> for Failure {
    fn from(errors: crate::config::ConfigErrors) -> Self {
        let count = output::count(errors.0.len(), "error", "errors");
        let mut lines = vec![format!("the configuration has {count}")];
        for error in &errors.0 {
            lines.push(format!("  {error}"));
            lines.extend(error.hint.as_ref().map(|hint| format!("    hint: {hint}")));
        }
        Self::usage(lines.join("\n")).code(Code::BadConfiguration)
    }
}

impl From<LocateError> for Failure {
    fn from(error: LocateError) -> Self {
        let code = match error {
            LocateError::OtherOwner { .. } | LocateError::Tracked { .. } => Some(Code::UnsuitableStoreDir),
            LocateError::NetworkFileSystem { .. } => Some(Code::NetworkFileSystem),
            LocateError::NotADirectory { .. }
            | LocateError::BrokenGit { .. }
            | LocateError::AskGit { .. }
            | LocateError::Io { .. } => None,
        };
        Self::from_error(Exit::Store, &error).code_if(code)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        let failure = match &error {
            OpenError::Unavailable(unavailable) => return failure.with_store_hint(unavailable),
            OpenError::Io { .. } => return failure,
            OpenError::Newer { .. } => {
                return failure.code(Code::Newer).hint("install that version; nothing was changed");
            }
            OpenError::Empty { .. } | OpenError::Unreadable { .. } | OpenError::OtherProgram { .. } => {
                failure.code(Code::Damaged)
            }
            OpenError::Missing { .. } => failure.code(Code::StoreGone),
        };
        failure.hint("run `callboard recover --dry-run` to see what can be recovered; nothing was changed")
    }
}

impl From<store::ExclusiveAccessError> for Failure {
    fn from(error: store::ExclusiveAccessError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match error {
            store::ExclusiveAccessError::EngineRunning { run, .. } => {
                failure.hint(format!("run `callboard stop {run}`, then the same command again"))
            }
            store::ExclusiveAccessError::Busy { .. } => {
                failure.hint("run the same command again when that process has exited")
            }
            store::ExclusiveAccessError::Io { .. } => failure,
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(error: Unavailable) -> Self {
        Self::from_error(Exit::Store, &error).with_store_hint(&error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            ReadError::Unavailable(unavailable) => failure.with_store_hint(unavailable),
            ReadError::DamagedBlob { .. } => failure.code(Code::Damaged),
        }
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            WriteError::Unavailable(unavailable) => failure.with_store_hint(unavailable),
            WriteError::NoSuchRun { .. } => failure.code(Code::NoSuchRun),
        }
    }
}

impl From<EngineLockError> for Failure {
    fn from(error: EngineLockError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            EngineLockError::Held { pid, stopped: true, .. } => failure
                .code(Code::EngineLockHeld)
                .hint(format!("run `kill -CONT {pid}`, or `fg` in its terminal, to continue it")),
            EngineLockError::Held { run, .. } => failure.code(Code::EngineLockHeld).hint(format!(
                "run `callboard watch {run}` to follow it, or `callboard stop {run}` to stop it"
            )),
            EngineLockError::Unavailable(unavailable) => failure.with_store_hint(unavailable),
        }
    }
}

impl From<CommitError> for Failure {
    fn from(error: CommitError) -> Self {
        let failure = Self::from_error(Exit::Store, &error);
        match &error {
            CommitError::Fenced { .. } => {
                failure.code(Code::Fenced).hint("the other engine continues the run; nothing is lost")
            }
            CommitError::Unavailable(unavailable) => failure.with_store_hint(unavailable),
            CommitError::OutcomeUnknown { source, .. } => {
                let code = match source.downcast_ref() {
                    Some(Unavailable::Server { .. }) => Some(Code::NoServer),
                    Some(Unavailable::StreamDeleted { .. } | Unavailable::StoreReplaced { .. }) => {
                        Some(Code::NoStream)
                    }
                    _ => None,
                };
                failure.code_if(code).hint(
                    "run `callboard resume` when the store answers; it continues from the last commit, and repeating is safe",
                )
            }
            CommitError::Conflict { .. } | CommitError::TooLarge { .. } => failure,
        }
    }
}

impl Failure {
    /// Creates the failure of a run whose document is corrupted (`corrupted_state`), while the rest of the run can be read.
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
                let hint =
                    format!("run `callboard resume {run}` to restore the last commit, if it can be verified");
                Self::corrupted(&error).hint(hint)
            }
            LoadError::UnknownProtocol { run, found } => {
                crate::present::unknown_protocol(crate::program().protocols, &found, &run)
            }
            LoadError::Contended { .. } => Self::from_error(Exit::Store, &error)
                .hint("end that client, then run the same command again; nothing is lost"),
            LoadError::ExternalWrite { run, source } => Self::from(*source).context(format_args!(
                "cannot resolve the write of another client to the document of run `{run}`"
            )),
        }
    }
}

impl From<runner::RequestError> for Failure {
    fn from(error: runner::RequestError) -> Self {
        match error {
            runner::RequestError::Refused(refusal) => Self::new(Exit::Refused, refusal).code(Code::Refused),
            runner::RequestError::Conflict { .. } => {
                Self::from_error(Exit::Store, &error).hint("run the same command again; the run is busy")
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
            RestoreError::WouldLoseChanges { ref run, from, .. } => {
                let hint = format!(
                    "run `callboard resume {run} --recover` to continue from revision {from}; later changes are lost"
                );
                Self::corrupted(&error).hint(hint)
            }
            RestoreError::NoCandidate { ref run, .. } => {
                let hint = format!(
                    "run `callboard export {run}` to save what is left, or `callboard log {run}` to read its journal"
                );
                Self::corrupted(&error).hint(hint)
            }
            RestoreError::Quarantine { .. } => Self::from_error(Exit::Store, &error),
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
            EngineError::ViewMarks(error) => error.into(),
            EngineError::Refused(refusal) => Self::new(Exit::Refused, refusal).code(Code::Refused),
            EngineError::NothingToAbandon { here, .. } => {
                let failure = Self::from_error(Exit::Refused, &error).code(Code::Refused);
                if here {
                    failure
                        .hint("leave out `--abandon-host`: that is this host, and its attempts are adopted")
                } else {
                    failure
                }
            }
            EngineError::NoAdapter(ref missing) => {
                let hint = crate::engine::profiles::configure_hint(missing);
                Self::from_error(Exit::Usage, &error).code(Code::NoAdapter).hint(hint)
            }
            EngineError::NoSuchRun(_) => Self::from_error(Exit::Usage, &error)
                .code(Code::NoSuchRun)
                .hint("run `callboard ls` to list the runs"),
            // The engine could not begin to watch an attempt.
            EngineError::Attach { .. } if supervisor::is_full_disk(&error) => {
                Self::from_error(Exit::Store, &error).disk_full()
            }
            EngineError::Attach { source: runner::WatchFailed::Shortage(_), .. } => {
                Self::from_error(Exit::Store, &error).code(Code::ResourceLimit).hint(
                    "run `callboard resume` with fewer `--jobs`, or raise `ulimit -n` first; nothing is lost",
                )
            }
            EngineError::Attach { .. } => Self::from_error(Exit::Store, &error),
            EngineError::DirWatcher(_) => Self::from_error(Exit::Store, &error)
                .code(Code::ResourceLimit)
                .hint("raise `fs.inotify.max_user_instances`, or end other programs that watch files"),
            EngineError::View { .. } => Self::from_error(Exit::Store, &error)
                .hint("run `callboard show` to read the run from the store; nothing is lost"),
        }
    }
}

#[cfg(test)]
mod tests;
