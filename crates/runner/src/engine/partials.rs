//! Partial reports: what an attempt has so far goes into the document, the newest at most once per second, and always
//! before the attempt's end is decided upon.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::edit::EditAuthor;
use protocol::entry::Input;
use protocol::run::{Attempt, Decision, Run};
use protocol::{AttemptId, Protocol};
use store::{CommitError, Store};
use supervisor::AttemptDir;
use supervisor::partial::{entered, take_partial};
use tokio::time::Instant;

use super::{Engine, EngineError};
use crate::journal::Journal;

/// The time between two of one attempt.
const PACE: Duration = Duration::from_secs(1);

/// Attempts that have handed in something, and when it is to be entered.
#[derive(Debug, Default)]
pub(super) struct Partials<S> {
    waiting: BTreeMap<AttemptId, (Instant, Attempt<S>)>,
    /// Before this nothing more of the attempt is entered.
    paced: BTreeMap<AttemptId, Instant>,
}

impl<S: Clone> Partials<S> {
    pub(super) fn new() -> Self {
        Self { waiting: BTreeMap::new(), paced: BTreeMap::new() }
    }

    fn came(&mut self, id: AttemptId, attempt: Attempt<S>) {
        let due = self.paced.get(&id).copied().unwrap_or_else(Instant::now);
        self.waiting.entry(id).or_insert((due, attempt));
    }

    /// When the next is to be entered.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.values().map(|(due, _)| *due).min()
    }

    fn is_over(&mut self, id: &AttemptId) {
        self.waiting.remove(id);
        self.paced.remove(id);
    }
}

impl<P: Protocol, S: Store> Engine<'_, P, S> {
    /// An attempt has handed in a part.
    pub(super) fn hear_partial(&mut self, attempt: Attempt<P::Step>) {
        self.partials.came(Run::<P>::id(&attempt), attempt);
    }

    /// Enters those whose time has come.
    pub(super) async fn enter_partials(&mut self) -> Result<(), EngineError> {
        let now = Instant::now();
        let due = self.partials.waiting.iter().filter(|(_, (due, _))| *due <= now);
        let due: Vec<_> = due.map(|(id, (_, attempt))| (id.clone(), attempt.clone())).collect();
        for (id, attempt) in due {
            self.partials.waiting.remove(&id);
            self.enter_partial(&id, &attempt).await?;
            self.partials.paced.insert(id, Instant::now() + PACE);
        }
        Ok(())
    }

    /// Enters the last part of an attempt that is over.
    pub(super) async fn enter_last_partial(&mut self, attempt: &Attempt<P::Step>) -> Result<(), EngineError> {
        let id = Run::<P>::id(attempt);
        self.partials.is_over(&id);
        self.enter_partial(&id, attempt).await
    }

    async fn enter_partial(&mut self, id: &AttemptId, attempt: &Attempt<P::Step>) -> Result<(), EngineError> {
        let dir = AttemptDir::new(&self.engine_config.attempts_dir(), &self.journal.run, id);
        let Some(content) = take_partial(&dir) else { return Ok(()) };
        let Some(patch) = P::partial_patch(&attempt.step, content) else { return Ok(()) };
        loop {
            let Journal { spec, state, document, .. } = &self.journal;
            let live_attempts = state.run.live_attempts().any(|(live_attempts, _)| live_attempts == *attempt);
            let edited = P::edit(
                &spec.definition,
                document,
                document,
                &EditAuthor::Step(attempt.step.clone()),
                &patch,
            );
            let edit = match edited {
                Ok(Some(edit)) if live_attempts => edit,
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(run = %self.journal.run, attempt = %id, %error, "a partial report was left out");
                    break;
                }
            };
            let input = Input::Edited { edit, from: Some(id.clone()) };
            match self.commit(None, input, Decision::nothing()).await {
                Ok(()) => break,
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(CommitError::TooLarge { size, limit }) => {
                    tracing::warn!(run = %self.journal.run, attempt = %id, size, limit, "a partial report was left out");
                    self.reload().await?;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        entered(&dir);
        Ok(())
    }
}
