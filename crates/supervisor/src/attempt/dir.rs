//! The files of an attempt: one directory per attempt, never reused, so that its path identifies it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use protocol::{AttemptId, RunId};

/// The directory of one attempt, `<root>/<run>/<step>/<turn>.<attempt>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDir(PathBuf);

impl AttemptDir {
    /// Returns the path of the attempt's directory. [`create`](Self::create) creates it.
    pub fn new(attempts_root: &Path, run: &RunId, attempt: &AttemptId) -> Self {
        let attempt_dir = format!("{}.{}", attempt.turn, attempt.attempt_no);
        Self(attempts_root.join(run.as_str()).join(attempt.step.as_str()).join(attempt_dir))
    }

    /// Wraps the path that the shim gets as its argument.
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Creates the directory, accessible to its owner only. An existing one is not changed.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the shim shall do.
    pub fn launch(&self) -> PathBuf {
        self.0.join("launch.json")
    }

    /// Decides which process may run the attempt: created once, by a shim or by an engine that voids it.
    pub fn claim(&self) -> PathBuf {
        self.0.join("claim")
    }

    pub fn prompt(&self) -> PathBuf {
        self.0.join("prompt.md")
    }

    /// What the prompt says, as JSON.
    pub fn context(&self) -> PathBuf {
        self.0.join("context.json")
    }

    /// The checks that a command step runs.
    pub fn checks(&self) -> PathBuf {
        self.0.join("checks.json")
    }

    /// The answer of a person to `step`, which the step of this attempt needs.
    pub fn manual_result(&self, step: &str) -> PathBuf {
        self.0.join(format!("manual_result__{step}.json"))
    }

    pub fn stdout(&self) -> PathBuf {
        self.0.join("stdout.log")
    }

    pub fn stderr(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    /// The agent's report file, its `REPORT_PATH`.
    pub fn report(&self) -> PathBuf {
        self.0.join("report.json")
    }

    /// Every version of [`report`](Self::report) and [`submitted`](Self::submitted) that was seen, in the order of time.
    pub(crate) fn recorded_reports(&self) -> PathBuf {
        self.0.join("reports.jsonl")
    }

    /// What `callboard report` accepted last.
    pub fn submitted(&self) -> PathBuf {
        self.0.join("submitted.json")
    }

    /// What `callboard report --partial` submitted last.
    pub fn partial(&self) -> PathBuf {
        self.0.join("partial.json")
    }

    /// A partial report that the engine has taken and perhaps not committed yet.
    pub fn partial_taken(&self) -> PathBuf {
        self.0.join("partial-taken.json")
    }

    /// The private copies, as they were given. When this file exists, all of them were written.
    pub(super) fn copies(&self) -> PathBuf {
        self.0.join("copies.json")
    }

    /// How the private copies were changed. When this file exists, they may be gone from the worktree.
    pub(super) fn copy_edits(&self) -> PathBuf {
        self.0.join("copy-edits.json")
    }

    /// The changed private copies, as the agent left them.
    pub(super) fn edited_copies(&self) -> PathBuf {
        self.0.join("copies-left")
    }

    /// What the attempt was told when it asked whether to continue: to pause or to stop.
    pub fn told_signal(&self) -> PathBuf {
        self.0.join("told.json")
    }

    /// The shim's record of how the attempt ended.
    pub fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// Error messages of the shim itself; normally empty.
    pub fn shim_log(&self) -> PathBuf {
        self.0.join("shim.log")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_attempt_has_its_own_private_directory() {
        let root = tempfile::tempdir().unwrap();
        let run = RunId::new("f8c1").unwrap();
        let dir = AttemptDir::new(root.path(), &run, &"review#2.1".parse().unwrap());
        dir.create().unwrap();
        dir.create().unwrap();
        assert_eq!(dir.path(), root.path().join("f8c1/review/2.1"));
        for created in [dir.path(), dir.path().parent().unwrap(), &root.path().join("f8c1")] {
            let mode = created.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o700, "{}", created.display());
        }
    }
}
