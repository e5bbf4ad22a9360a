//! A run together with its store and workspace.

use protocol::{AttemptId, ProtocolKind, Revision, RunId, StepId};
use runner::{History, ReadRevisionError, RunAtRevision};
use store::{AnyStore, EngineHolder, LockPurpose, ReadError};
use supervisor::AttemptDir;

use crate::config::Flags;
use crate::failure::Failure;
use crate::present;
use crate::workspace::{LocationArgs, Workspace};

/// A run that a command reads.
#[derive(Debug)]
pub(crate) struct RunHandle {
    pub(crate) workspace: Workspace,
    pub(crate) store: AnyStore,
    pub(crate) run: RunId,
}

impl RunHandle {
    /// Finds a run by its name or a unique prefix of it.
    pub(crate) async fn of(location: &LocationArgs, run: &str) -> Result<Self, Failure> {
        let workspace = Workspace::find(location, Flags::default())?;
        let (store, run) = workspace.find_run(run).await?;
        Ok(Self { workspace, store, run })
    }

    /// Returns the protocol of the run.
    pub(crate) async fn kind(&self) -> Result<&'static dyn ProtocolKind, Failure> {
        self.workspace.kind(&self.store, &self.run).await
    }

    /// Returns the run at a revision, or at its newest one.
    pub(crate) async fn run_at(&self, at: Option<Revision>) -> Result<RunAtRevision, Failure> {
        let run_at =
            RunAtRevision::load(self.store.as_ref(), self.workspace.protocols, &self.run, at).await?;
        run_at.ok_or_else(|| self.workspace.no_such_run(self.run.as_str()))
    }

    /// Returns the newest revision.
    pub(crate) async fn newest(&self) -> Result<Revision, Failure> {
        self.store
            .newest_revision(&self.run)
            .await?
            .ok_or_else(|| self.workspace.no_such_run(self.run.as_str()))
    }

    /// Returns the revision of that number. Fails if the run has none.
    pub(crate) fn checked_revision(&self, asked: u64, newest: Revision) -> Result<Revision, Failure> {
        let (asked, run) = (Revision(asked), self.run.clone());
        if asked < Revision(1) || asked > newest {
            return Err(ReadRevisionError::OutOfRange { run, asked, newest }.into());
        }
        Ok(asked)
    }

    /// Reads the journal up to the revision of `run_at`.
    pub(crate) async fn history(&self, run_at: &RunAtRevision) -> Result<History, Failure> {
        Ok(History::read(self.store.as_ref(), &self.run, run_at.revision).await?)
    }

    /// Returns the engine of the run. A command that holds the lock for one request is not an engine.
    pub(crate) async fn engine(&self) -> Result<Option<EngineHolder>, ReadError> {
        Ok(self
            .store
            .peek_engine_holder(&self.run)
            .await?
            .filter(|holder| holder.purpose == LockPurpose::Engine))
    }

    pub(crate) fn dir(&self, attempt: &AttemptId) -> AttemptDir {
        AttemptDir::new(&self.store.local_dir().attempts_dir(), &self.run, attempt)
    }

    /// Returns `host`, on which the attempt was started, if its files are only there. Two hosts may share a disk.
    pub(crate) fn host_of_files<'h>(&self, attempt: &AttemptId, host: &'h str) -> Option<&'h str> {
        let is_remote = self.store.is_shared() && host != linux::host_name();
        (is_remote && !self.dir(attempt).path().is_dir()).then_some(host)
    }

    /// Finds a step by name. Fails with the closest name as a hint.
    pub(crate) fn step(&self, run_at: &RunAtRevision, name: &str) -> Result<StepId, Failure> {
        present::find_step(&self.run, run_at.machine(), name)
    }
}

impl From<ReadRevisionError> for Failure {
    fn from(error: ReadRevisionError) -> Self {
        match error {
            ReadRevisionError::Load(error) => error.into(),
            ReadRevisionError::OutOfRange { ref run, .. } => {
                let hint = format!("run `callboard log {run}` to list its revisions");
                Self::usage(&error).hint(hint)
            }
        }
    }
}
