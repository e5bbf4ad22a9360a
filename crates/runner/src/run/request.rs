//! Requests of commands other than the engine: committed here, performed by the engine.

use std::time::Instant;

use protocol::entry::{Author, Input};
use protocol::run::{Decision, Refusal, Request, consider};
use protocol::{Revision, RunId};
use store::CommitError;

use crate::run::{CommitContext, Journal, LoadError, ReloadError};

/// Why a request was not committed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("it was refused: {0}")]
    Refused(#[from] Refusal),
    #[error("run `{run}` kept changing: decided at revision {expected}, found revision {found}")]
    Conflict { run: RunId, expected: Revision, found: Revision },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Commit(CommitError),
}

impl From<ReloadError> for RequestError {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Load(error) => Self::Load(error),
            ReloadError::NotMoved(error) => Self::Commit(error.into()),
        }
    }
}

/// Decides a request and commits it. A request that changes nothing is granted without a commit.
pub async fn request(
    journal: &mut Journal,
    by: Author,
    request: Request,
    reason: Option<String>,
) -> Result<(), RequestError> {
    let grant = |journal: &mut Journal| -> Result<_, RequestError> {
        // A refused request leaves the state as it is.
        let mut run = journal.state.run.clone();
        let decision = consider(&mut run, &request)?;
        if decision.is_nothing() {
            return Ok(None);
        }
        journal.state.run = run;
        Ok(Some((Input::Request { request: request.clone(), reason: reason.clone() }, decision)))
    };
    journal.decide(by, grant).await
}

/// Records in the journal that a request was refused because it came from inside an attempt.
pub async fn record_refusal(
    journal: &mut Journal,
    by: Author,
    request: Request,
    attempt: String,
) -> Result<(), RequestError> {
    let refuse = |_: &mut Journal| -> Result<_, RequestError> {
        let input = Input::Refused { request: request.clone(), attempt: attempt.clone() };
        Ok(Some((input, Decision::nothing())))
    };
    journal.decide(by, refuse).await
}

impl Journal {
    /// Commits what `decide` returns; nothing if it returns `None`. After a conflict it decides again, until the store's
    /// conflict timeout. No back-off here: a pause only leaves more entries to catch up with.
    pub(crate) async fn decide<E: From<RequestError>>(
        &mut self,
        by: Author,
        mut decide: impl FnMut(&mut Self) -> Result<Option<(Input, Decision)>, E>,
    ) -> Result<(), E> {
        let deadline = Instant::now() + self.store.conflict_timeout();
        loop {
            let before = self.state.clone();
            let Some((input, decision)) = decide(self)? else { return Ok(()) };
            match self.commit(by.clone(), input, decision, CommitContext::default()).await {
                Ok(_) => return Ok(()),
                Err(CommitError::Conflict { run, expected, found }) => {
                    self.catch_up(before).await.map_err(RequestError::from)?;
                    if Instant::now() >= deadline {
                        return Err(RequestError::Conflict { run, expected, found }.into());
                    }
                }
                Err(error) => return Err(RequestError::Commit(error).into()),
            }
        }
    }
}
