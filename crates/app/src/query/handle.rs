//! What a command that looks at a run has in its hands.

use protocol::{AttemptId, Revision, RunId};
use runner::{History, RunAt, RunAtError};
use store::{AnyStore, EngineHolder, ReadError, Store as _, Tenure};
use supervisor::AttemptDir;

use crate::config::Flags;
use crate::failure::Failure;
use crate::present::{self, Deed, Presentation};
use crate::workspace::{LocationArgs, Workspace};

/// The run somebody looks at, and where it is.
#[derive(Debug)]
pub(crate) struct RunHandle {
    pub(crate) workspace: Workspace,
    pub(crate) store: AnyStore,
    pub(crate) run: RunId,
}

impl RunHandle {
    /// Finds a run by its name or a beginning of it.
    pub(crate) async fn of(location: &LocationArgs, run: &str) -> Result<Self, Failure> {
        let workspace = Workspace::find(location, Flags::default())?;
        let (store, run) = workspace.find_run(run).await?;
        Ok(Self { workspace, store, run })
    }

    /// Does something with what is seen, by the rules of the run's protocol.
    pub(crate) async fn with<D: Deed>(&self, deed: D) -> Result<D::Done, Failure> {
        self.workspace.with_run(&self.store, &self.run, deed).await
    }

    /// The run as it was at a revision, or as it is.
    pub(crate) async fn run_at<P: Presentation>(&self, at: Option<Revision>) -> Result<RunAt<P>, Failure> {
        let run_at = RunAt::at(&self.store, &self.run, at).await?;
        run_at.ok_or_else(|| self.workspace.no_such_run(self.run.as_str()))
    }

    /// The newest revision.
    pub(crate) async fn newest(&self) -> Result<Revision, Failure> {
        self.store.newest(&self.run).await?.ok_or_else(|| self.workspace.no_such_run(self.run.as_str()))
    }

    /// A revision of the run, if it has one of that number.
    pub(crate) fn in_range(&self, asked: u64, newest: Revision) -> Result<Revision, Failure> {
        let (asked, run) = (Revision(asked), self.run.clone());
        if asked < Revision(1) || asked > newest {
            return Err(RunAtError::OutOfRange { run, asked, newest }.into());
        }
        Ok(asked)
    }

    /// What the journal tells up to that run_at.
    pub(crate) async fn history<P: Presentation>(&self, run_at: &RunAt<P>) -> Result<History, Failure> {
        Ok(History::read::<P, _>(&self.store, &self.run, run_at.revision).await?)
    }

    /// The engine of the run, if it has one. Somebody on an errand is none.
    pub(crate) async fn engine(&self) -> Result<Option<EngineHolder>, ReadError> {
        Ok(self.store.peek_engine_holder(&self.run).await?.filter(|holder| holder.tenure == Tenure::Engine))
    }

    pub(crate) fn dir(&self, attempt: &AttemptId) -> AttemptDir {
        AttemptDir::new(&self.store.local_dir().attempts_dir(), &self.run, attempt)
    }

    /// The host that has the files of an attempt which was begun there, if it is another one. Where both see one disk they are
    /// here as well.
    pub(crate) fn host_of_files<'h>(&self, attempt: &AttemptId, host: &'h str) -> Option<&'h str> {
        let is_elsewhere = self.store.is_shared() && host != store::host_name();
        (is_elsewhere && !self.dir(attempt).path().is_dir()).then_some(host)
    }

    /// The step of that name, or who it may have been meant to be.
    pub(crate) fn step<P: Presentation>(&self, run_at: &RunAt<P>, name: &str) -> Result<P::Step, Failure> {
        present::step::<P>(&self.run, &run_at.spec.definition, name)
    }
}

impl From<RunAtError> for Failure {
    fn from(error: RunAtError) -> Self {
        match error {
            RunAtError::Load(error) => error.into(),
            RunAtError::OutOfRange { ref run, .. } => {
                let hint = format!("`callboard log {run}` lists its revisions");
                Self::usage(&error).hint(hint)
            }
        }
    }
}
