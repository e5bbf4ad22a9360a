//! Requests from anybody: committed here, acted on by whoever is the engine.

use std::time::Instant;

use protocol::entry::{Author, Input};
use protocol::run::{Decision, Refusal, Request, consider};
use protocol::{Protocol, Revision, RunId};
use store::{CommitError, Store};

use crate::journal::{CommitContext, Journal, LoadError, Reloading};

/// Why a request was not committed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("it was refused: {0}")]
    Refused(#[from] Refusal),
    #[error("run `{run}` kept changing: decided at revision {expected}, found revision {found}")]
    Raced { run: RunId, expected: Revision, found: Revision },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Commit(CommitError),
}

impl From<Reloading> for RequestError {
    fn from(error: Reloading) -> Self {
        match error {
            Reloading::Load(error) => Self::Load(error),
            Reloading::Unmoved(error) => Self::Commit(error.into()),
        }
    }
}

/// Decides a request and commits it. What is already so is granted without a commit.
pub async fn request<P: Protocol, S: Store>(
    journal: &mut Journal<P, S>,
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

/// Commits what `decide` says, and lets it decide anew after each lost race, for as long as the store has set for races.
/// Nobody waits in between: whoever was faster has gone on, and the longer we wait the more there is to catch up with.
async fn commit<P: Protocol, S: Store>(
    journal: &mut Journal<P, S>,
    by: Author,
    input: Input<P>,
    decide: impl Fn(&mut Journal<P, S>) -> Result<Decision<P>, Refusal>,
) -> Result<(), RequestError> {
    let end = Instant::now() + journal.store.race_timeout();
    loop {
        let before = journal.before();
        let decision = decide(journal)?;
        match journal.commit(by.clone(), input.clone(), decision, CommitContext::default()).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { run, expected, found }) => {
                journal.catch_up(before).await?;
                if Instant::now() >= end {
                    return Err(RequestError::Raced { run, expected, found });
                }
            }
            Err(error) => return Err(RequestError::Commit(error)),
        }
    }
}

/// Writes into the journal that a request was refused because it came from inside an attempt.
pub async fn note_refusal<P: Protocol, S: Store>(
    journal: &mut Journal<P, S>,
    by: Author,
    request: Request<P::Step>,
    attempt: String,
) -> Result<(), RequestError> {
    let input = Input::Refused { request, attempt };
    commit(journal, by, input, |_| Ok(Decision::nothing())).await
}
