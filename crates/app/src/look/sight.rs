//! What a command that looks at a run has in its hands.

use protocol::steps::Steps;
use protocol::{AttemptId, Revision, RunId, SeatName};
use runner::{History, Moment, MomentError};
use store::{Leader, ReadError, SqliteStore, Store as _, Tenure};
use supervisor::AttemptDir;

use crate::config::Flags;
use crate::failure::Failure;
use crate::here::{Here, Place};
use crate::wish;

/// The run somebody looks at, and where it is.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) here: Here,
    pub(crate) store: SqliteStore,
    pub(crate) run: RunId,
}

impl Sight {
    /// Finds a run by its name or a beginning of it.
    pub(crate) async fn of(place: &Place, run: &str) -> Result<Self, Failure> {
        let here = Here::find(place, Flags::default())?;
        let store = here.store_with(run)?;
        let run = here.resolve(&store, run).await?;
        Ok(Self { here, store, run })
    }

    /// The run as it was at a revision, or as it is.
    pub(crate) async fn moment(&self, at: Option<Revision>) -> Result<Moment<Steps>, Failure> {
        let moment = Moment::at(&self.store, &self.run, at).await?;
        moment.ok_or_else(|| self.here.no_such_run(self.run.as_str()))
    }

    /// The newest revision.
    pub(crate) async fn newest(&self) -> Result<Revision, Failure> {
        let loaded = self.store.load(&self.run).await?;
        let loaded = loaded.ok_or_else(|| self.here.no_such_run(self.run.as_str()))?;
        Ok(loaded.position.revision)
    }

    /// A revision of the run, if it has one of that number.
    pub(crate) fn in_range(&self, asked: u64, newest: Revision) -> Result<Revision, Failure> {
        let (asked, run) = (Revision(asked), self.run.clone());
        if asked < Revision(1) || asked > newest {
            return Err(MomentError::OutOfRange { run, asked, newest }.into());
        }
        Ok(asked)
    }

    /// What the journal tells up to that moment.
    pub(crate) async fn history(&self, moment: &Moment<Steps>) -> Result<History, Failure> {
        Ok(History::read::<Steps, _>(&self.store, &self.run, moment.revision).await?)
    }

    /// The engine of the run, if it has one. Somebody on an errand is none.
    pub(crate) async fn engine(&self) -> Result<Option<Leader>, ReadError> {
        Ok(self.store.leader_seen(&self.run).await?.filter(|leader| leader.tenure == Tenure::Engine))
    }

    pub(crate) fn dir(&self, attempt: &AttemptId) -> AttemptDir {
        AttemptDir::new(&self.here.location.attempts_dir(), &self.run, attempt)
    }

    /// The seat of that name, or who it may have been meant to be.
    pub(crate) fn seat(&self, moment: &Moment<Steps>, name: &str) -> Result<SeatName, Failure> {
        wish::step_of(&self.run, &moment.frozen.definition, name)
    }
}

impl From<MomentError> for Failure {
    fn from(error: MomentError) -> Self {
        match error {
            MomentError::Load(error) => error.into(),
            MomentError::OutOfRange { ref run, .. } => {
                let hint = format!("`callboard log {run}` lists its revisions");
                Self::usage(&error).hint(hint)
            }
        }
    }
}
