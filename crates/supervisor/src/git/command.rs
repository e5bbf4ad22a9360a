//! One call of git.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// Why a call of git failed.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git in `{}`", dir.display())]
    Spawn { dir: PathBuf, source: io::Error },
    #[error("`git {command}` failed in `{}`: {message}", dir.display())]
    Failed { dir: PathBuf, command: String, message: String },
}

/// Variables of a git hook or of the user's shell that would make git work elsewhere.
pub(crate) const LOCATION_VARIABLES: [&str; 8] = [
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_EDITOR",
];

/// Settings for our calls only; nothing is written to a configuration file. The user's hooks do not run. Background
/// maintenance is off, because it would keep the lock.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.editor=true",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "rerere.enabled=false",
    "merge.conflictStyle=merge",
    "advice.detachedHead=false",
    // Otherwise the new files of an agent can be invisible, and are deleted with its worktree.
    "status.showUntrackedFiles=normal",
];

/// git in a directory.
#[derive(Debug, Clone)]
pub(super) struct Git {
    dir: PathBuf,
    lock: Option<Arc<File>>,
    /// Such as a name and an address for commits, if the user has none.
    variables: Vec<(String, String)>,
}

impl Git {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), lock: None, variables: Vec::new() }
    }

    /// Returns git in a directory. Its processes share this lock.
    pub(super) fn locked(dir: &Path, lock: &TreeLock) -> Self {
        Self { dir: dir.to_owned(), lock: Some(Arc::clone(&lock.0)), variables: Vec::new() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns git with an identity for commits: that of the user, or else one of ours.
    pub(super) fn with_identity(&self) -> Result<Self, GitError> {
        Ok(Self { variables: self.missing_identity()?, ..self.clone() })
    }

    /// Returns git with more variables.
    pub(super) fn with_variables(&self, variables: Vec<(String, String)>) -> Self {
        Self { variables, ..self.clone() }
    }

    /// Returns variables with an identity, if the user has configured none. Nothing is written to a configuration file.
    pub(super) fn missing_identity(&self) -> Result<Vec<(String, String)>, GitError> {
        if self.check(["var", "GIT_COMMITTER_IDENT"])?.is_some() {
            return Ok(Vec::new());
        }
        let variables = [
            ("GIT_AUTHOR_NAME", "Callboard"),
            ("GIT_AUTHOR_EMAIL", "callboard@localhost"),
            ("GIT_COMMITTER_NAME", "Callboard"),
            ("GIT_COMMITTER_EMAIL", "callboard@localhost"),
        ];
        Ok(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    fn output<A: AsRef<OsStr>>(&self, args: &[A]) -> Result<Output, GitError> {
        let mut command = Command::new("git");
        LOCATION_VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        command.env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0").arg("-C").arg(&self.dir);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        SETTINGS.iter().for_each(|setting| {
            command.args(["-c", setting]);
        });
        let spawn_error = |source| GitError::Spawn { dir: self.dir.clone(), source };
        // The lock is released when the last process that has it as its stdin has ended.
        let stdin = self.lock.as_ref().map(|lock| lock.try_clone()).transpose().map_err(spawn_error)?;
        command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        command.args(args).output().map_err(spawn_error)
    }

    fn failed<A: AsRef<OsStr>>(&self, args: &[A], output: &Output) -> GitError {
        let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        let message = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        GitError::Failed {
            dir: self.dir.clone(),
            command: words.join(" "),
            message: String::from_utf8_lossy(message).trim().to_owned(),
        }
    }

    /// Runs git and returns what it prints, without the last line break.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: impl AsRef<[A]>) -> Result<String, GitError> {
        let args = args.as_ref();
        let output = self.output(args)?;
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(self.failed(args, &output)) }
    }

    /// Runs git and returns what it prints, or `None` if it answers with an exit code other than 0.
    pub(super) fn check<A: AsRef<OsStr>>(&self, args: impl AsRef<[A]>) -> Result<Option<String>, GitError> {
        let output = self.output(args.as_ref())?;
        Ok(output.status.success().then(|| text(&output.stdout)))
    }

    pub(super) fn has_branch(&self, branch: &str) -> Result<bool, GitError> {
        let reference = format!("refs/heads/{branch}");
        Ok(self.check(["show-ref", "--verify", "--quiet", &reference])?.is_some())
    }

    pub(super) fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, GitError> {
        Ok(self.check(["merge-base", "--is-ancestor", older, newer])?.is_some())
    }

    pub(super) fn commit_id(&self, revision: &str) -> Result<String, GitError> {
        self.run(["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

/// The exclusive lock of a worktree. The git processes of its holder share it, and keep it if the holder is killed.
#[derive(Debug)]
pub(super) struct TreeLock(Arc<File>);

impl TreeLock {
    /// Waits for the lock and takes it.
    pub(super) fn take(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        file.lock()?;
        Ok(Self(Arc::new(file)))
    }

    /// Returns a stdin that shares the lock and is empty.
    pub(super) fn stdin(&self) -> io::Result<Stdio> {
        Ok(self.0.try_clone()?.into())
    }
}
