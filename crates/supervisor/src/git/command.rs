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

/// Variables that our calls of git do not inherit. A git hook or the user's shell may have set them, and most would make git
/// work on another repository: those of `git rev-parse --local-env-vars` and two more. Variables with settings
/// (`GIT_CONFIG_COUNT`) are inherited, because a user may need them.
pub(crate) const LOCATION_VARIABLES: [&str; 14] = [
    "GIT_DIR",
    "GIT_COMMON_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_EDITOR",
];

/// Settings for our calls only; nothing is written to a configuration file. The user's hooks do not run. Background
/// maintenance is off, because its process would keep the [lock](GitLock) after the call.
const SETTINGS: [&str; 11] = [
    "core.hooksPath=/dev/null",
    "core.editor=true",
    "commit.gpgSign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "rerere.enabled=false",
    "merge.conflictStyle=merge",
    "advice.detachedHead=false",
    // Otherwise `always` puts escape codes into what agents and people read.
    "color.ui=false",
    "color.diff=false",
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

    /// Returns git in a directory. Its processes share this lock, which is held until all of them have ended.
    pub(super) fn locked(dir: &Path, lock: &GitLock) -> Self {
        Self { dir: dir.to_owned(), lock: Some(Arc::clone(&lock.0)), variables: Vec::new() }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns git with an author and a committer for commits: those of the user, or else ours.
    pub(super) fn with_identity(&self) -> Result<Self, GitError> {
        Ok(self.with_variables(self.missing_identity()?))
    }

    /// Returns git with these variables in addition to its own.
    pub(super) fn with_variables(&self, variables: Vec<(String, String)>) -> Self {
        Self { variables: [self.variables.as_slice(), &variables].concat(), ..self.clone() }
    }

    /// Returns variables with our name and address as the author, the committer or both: those that the user has not configured.
    pub(super) fn missing_identity(&self) -> Result<Vec<(String, String)>, GitError> {
        let mut variables = Vec::new();
        for role in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            if self.try_run(["var", &format!("{role}_IDENT")])?.is_none() {
                variables.push((format!("{role}_NAME"), "Callboard".to_owned()));
                variables.push((format!("{role}_EMAIL"), "callboard@localhost".to_owned()));
            }
        }
        Ok(variables)
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
        // git inherits the lock as its stdin, so the lock is held until git has ended, even if this process is killed.
        let stdin = self.lock.as_ref().map(|lock| lock.try_clone()).transpose().map_err(spawn_error)?;
        command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        command.args(args).output().map_err(spawn_error)
    }

    fn failed<A: AsRef<OsStr>>(&self, args: &[A], output: &Output) -> GitError {
        let words: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
        let printed = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
        let printed = String::from_utf8_lossy(printed).trim().to_owned();
        let message = if printed.is_empty() { output.status.to_string() } else { printed };
        GitError::Failed { dir: self.dir.clone(), command: words.join(" "), message }
    }

    /// Runs git and returns what it prints, without line breaks at its end.
    pub(super) fn run<A: AsRef<OsStr>>(&self, args: impl AsRef<[A]>) -> Result<String, GitError> {
        let args = args.as_ref();
        let output = self.output(args)?;
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(self.failed(args, &output)) }
    }

    /// Asks git. Returns what it prints, or `None` for exit code 1, which means "no". Any other code is an error.
    pub(super) fn check<A: AsRef<OsStr>>(&self, args: impl AsRef<[A]>) -> Result<Option<String>, GitError> {
        self.run_unless(args.as_ref(), |code| code == 1)
    }

    /// Runs git. Returns `None` for every exit code except 0: for commands whose exit code does not say why they failed.
    pub(super) fn try_run<A: AsRef<OsStr>>(&self, args: impl AsRef<[A]>) -> Result<Option<String>, GitError> {
        self.run_unless(args.as_ref(), |_| true)
    }

    /// Returns what git prints, or `None` if it ends with an exit code that is expected. A signal is an error.
    fn run_unless<A: AsRef<OsStr>>(
        &self,
        args: &[A],
        is_expected: impl Fn(i32) -> bool,
    ) -> Result<Option<String>, GitError> {
        let output = self.output(args)?;
        match output.status.code() {
            Some(0) => Ok(Some(text(&output.stdout))),
            Some(code) if is_expected(code) => Ok(None),
            Some(_) | None => Err(self.failed(args, &output)),
        }
    }

    pub(super) fn has_branch(&self, branch: &str) -> Result<bool, GitError> {
        let reference = format!("refs/heads/{branch}");
        Ok(self.check(["show-ref", "--verify", "--quiet", &reference])?.is_some())
    }

    pub(super) fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, GitError> {
        Ok(self.check(["merge-base", "--is-ancestor", older, newer])?.is_some())
    }

    /// Returns whether the repository has this commit.
    pub(super) fn has_commit(&self, id: &str) -> Result<bool, GitError> {
        Ok(self.check(["rev-parse", "--quiet", "--verify", &format!("{id}^{{commit}}")])?.is_some())
    }

    pub(super) fn commit_id(&self, revision: &str) -> Result<String, GitError> {
        self.run(["rev-parse", "--verify", &format!("{revision}^{{commit}}")])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned()
}

/// The exclusive lock of a worktree, or of adding and removing worktrees of the repository. The git processes of its
/// holder share it, and keep it if the holder is killed.
#[derive(Debug)]
pub(super) struct GitLock(Arc<File>);

impl GitLock {
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

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Makes a repository with one commit.
    fn repository() -> (TempDir, Git) {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::new(dir.path());
        git.run(["init", "--quiet", "--initial-branch=main"]).unwrap();
        git.with_identity().unwrap().run(["commit", "--quiet", "--allow-empty", "--message=begin"]).unwrap();
        (dir, git)
    }

    #[test]
    fn an_error_of_git_is_not_a_no() {
        let (_dir, git) = repository();
        let missing = "1".repeat(40);
        assert!(!git.has_commit(&missing).unwrap());
        assert!(git.is_ancestor(&missing, "main").is_err(), "exit code 128");
        assert!(!git.has_branch("missing").unwrap());
        let empty = tempfile::tempdir().unwrap();
        assert!(Git::new(empty.path()).has_branch("main").is_err(), "not a repository");
        assert!(Git::new(empty.path()).try_run(["rev-parse", "--git-dir"]).unwrap().is_none());
        let killed = ["-c", "alias.die=!kill -9 $PPID", "die"];
        let error = git.check(killed).unwrap_err().to_string();
        assert!(error.ends_with("signal: 9 (SIGKILL)"), "{error}");
        git.try_run(killed).unwrap_err();
    }

    #[test]
    fn a_committer_without_an_author_can_commit() {
        let (_dir, git) = repository();
        git.run(["config", "user.useConfigOnly", "true"]).unwrap();
        let variables = [
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_COMMITTER_NAME", "Owner"),
            ("GIT_COMMITTER_EMAIL", "owner@example.org"),
        ];
        let git =
            git.with_variables(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let git = git.with_identity().unwrap();
        git.run(["commit", "--quiet", "--allow-empty", "--message=next"]).unwrap();
        assert_eq!(git.run(["log", "-1", "--format=%an, %cn"]).unwrap(), "Callboard, Owner");
    }

    #[test]
    fn output_has_no_colours_even_if_the_user_always_wants_them() {
        let (dir, git) = repository();
        git.run(["config", "color.ui", "always"]).unwrap();
        git.run(["config", "color.diff", "always"]).unwrap();
        std::fs::write(dir.path().join("page.txt"), "head\n").unwrap();
        git.run(["add", "."]).unwrap();
        let diff = git.run(["diff", "--cached"]).unwrap();
        assert!(diff.ends_with("\n+head") && !diff.contains('\x1b'), "{diff:?}");
    }
}
