//! Requests of commands other than the engine: committed here, performed by the engine.

use std::time::Instant;

use protocol::entry::{Author, Input};
use protocol::run::{Decision, Refusal, Request, consider};
use protocol::{Protocol, Revision, RunId};
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
pub async fn request<P: Protocol>(
    journal: &mut Journal<P>,
    by: Author,
    request: Request<P::Step>,
    reason: Option<String>,
) -> Result<(), RequestError> {
    let Journal { spec, state, .. } = &*journal;
    if consider(&spec.definition, &mut state.run.clone(), &request)?.is_nothing() {
        return Ok(());
    }
    let input = Input::Request { request: request.clone(), reason };
    commit(journal, by, input, |journal| consider(&journal.spec.definition, &mut journal.state.run, &request))
        .await
}

/// Commits what `decide` returns. After a conflict it decides again, until the store's conflict timeout. No back-off
/// here: a pause only leaves more entries to catch up with.
async fn commit<P: Protocol>(
    journal: &mut Journal<P>,
    by: Author,
    input: Input<P>,
    decide: impl Fn(&mut Journal<P>) -> Result<Decision<P>, Refusal>,
) -> Result<(), RequestError> {
    let end = Instant::now() + journal.store.race_timeout();
    loop {
        let saved = journal.save_state();
        let decision = decide(journal)?;
        match journal.commit(by.clone(), input.clone(), decision, CommitContext::default()).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { run, expected, found }) => {
                journal.catch_up(saved).await?;
                if Instant::now() >= end {
                    return Err(RequestError::Conflict { run, expected, found });
                }
            }
            Err(error) => return Err(RequestError::Commit(error)),
        }
    }
}

/// Records in the journal that a request was refused because it came from inside an attempt.
pub async fn record_refusal<P: Protocol>(
    journal: &mut Journal<P>,
    by: Author,
    request: Request<P::Step>,
    attempt: String,
) -> Result<(), RequestError> {
    let input = Input::Refused { request, attempt };
    commit(journal, by, input, |_| Ok(Decision::nothing())).await
}
