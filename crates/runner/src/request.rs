//! Requests from anybody: committed here, acted on by whoever is the engine.

use std::time::Duration;

use protocol::entry::{Author, Input};
use protocol::run::{Refusal, Request, consider};
use protocol::{Protocol, Revision, RunId};
use store::{CommitError, Store};

use crate::journal::{Journal, LoadError, Luggage};

/// A request that loses this many races in a row fails.
const RACES: u32 = 3;

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

/// Decides a request and commits it. What is already so is granted without a commit.
pub async fn request<P: Protocol, S: Store>(
    journal: &mut Journal<P, S>,
    by: Author,
    request: Request,
) -> Result<(), RequestError> {
    let mut races = 0;
    loop {
        let decision = consider(&mut journal.folded.run, request)?;
        if decision.is_nothing() {
            return Ok(());
        }
        match journal.commit(by.clone(), Input::Request { request }, decision, Luggage::default()).await {
            Ok(_) => return Ok(()),
            Err(CommitError::Conflict { run, expected, found }) => {
                races += 1;
                if races > RACES {
                    return Err(RequestError::Raced { run, expected, found });
                }
                tokio::time::sleep(Duration::from_millis(10 << races).mul_f64(fastrand::f64())).await;
                journal.reload().await?;
            }
            Err(error) => return Err(RequestError::Commit(error)),
        }
    }
}
