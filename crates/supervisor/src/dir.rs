//! Where an attempt keeps its files: one directory per attempt, never reused, so its path is part of its identity.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use protocol::{AttemptId, RunId};

/// The directory of one attempt, `<root>/<run>/<step>/<turn>.<try>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptDir(PathBuf);

impl AttemptDir {
    /// Names the attempt's directory; [`create`](Self::create) makes it.
    pub fn new(attempts_root: &Path, run: &RunId, attempt: &AttemptId) -> Self {
        let attempt_dir = format!("{}.{}", attempt.turn, attempt.attempt_no);
        Self(attempts_root.join(run.as_str()).join(attempt.step.as_str()).join(attempt_dir))
    }

    /// The directory that the shim was told.
    pub(crate) fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Makes the directory, readable by its owner only. One that exists already is kept as it is.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What the shim is to do.
    pub fn launch(&self) -> PathBuf {
        self.0.join("launch.json")
    }

    /// Who may run the attempt: created once, by a shim or by an engine that voids it.
    pub fn claim(&self) -> PathBuf {
        self.0.join("claim")
    }

    pub fn prompt(&self) -> PathBuf {
        self.0.join("prompt.md")
    }

    pub fn context(&self) -> PathBuf {
        self.0.join("context.json")
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

    /// What `callboard report` accepted.
    pub fn submitted(&self) -> PathBuf {
        self.0.join("submitted.json")
    }

    /// What `callboard report --partial` handed in last.
    pub fn partial(&self) -> PathBuf {
        self.0.join("partial.json")
    }

    /// The same, taken by an engine and not yet known to be in the store.
    pub fn partial_taken(&self) -> PathBuf {
        self.0.join("partial-taken.json")
    }

    /// How the attempt ended, in the shim's words.
    pub fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// The shim's own complaints; empty in all the world's good days.
    pub fn shim_log(&self) -> PathBuf {
        self.0.join("shim.log")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_try_has_a_private_directory_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let run = RunId::new("f8c1").unwrap();
        let dir = AttemptDir::new(root.path(), &run, &"review#2.1".parse().unwrap());
        dir.create().unwrap();
        dir.create().unwrap();
        assert_eq!(dir.path(), root.path().join("f8c1/review/2.1"));
        for made in [dir.path(), dir.path().parent().unwrap(), &root.path().join("f8c1")] {
            assert_eq!(made.metadata().unwrap().permissions().mode() & 0o777, 0o700, "{}", made.display());
        }
    }
}
