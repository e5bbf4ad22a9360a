//! Partial reports: what an attempt reports before its end is committed to the document, at most once per second and
//! attempt, and always before the attempt's end.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::edit::EditAuthor;
use protocol::entry::Input;
use protocol::run::{Attempt, Decision, Run};
use protocol::{AttemptId, Protocol};
use store::CommitError;
use supervisor::AttemptDir;
use supervisor::partial::{discard_taken, take_partial};
use tokio::time::Instant;

use super::{Engine, EngineError};
use crate::run::Journal;

/// The shortest time between two commits of one attempt.
const PACE: Duration = Duration::from_secs(1);

/// Attempts with a partial report on disk, and when to commit it.
#[derive(Debug, Default)]
pub(super) struct PartialReports<S> {
    waiting: BTreeMap<AttemptId, (Instant, Attempt<S>)>,
    /// No commit of the attempt before this time.
    not_before: BTreeMap<AttemptId, Instant>,
}

impl<S: Clone> PartialReports<S> {
    pub(super) fn new() -> Self {
        Self { waiting: BTreeMap::new(), not_before: BTreeMap::new() }
    }

    fn schedule(&mut self, id: AttemptId, attempt: Attempt<S>) {
        let at = self.not_before.get(&id).copied().unwrap_or_else(Instant::now);
        self.waiting.entry(id).or_insert((at, attempt));
    }

    /// Returns when the next partial report is to be committed.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.values().map(|(at, _)| *at).min()
    }

    fn remove(&mut self, id: &AttemptId) {
        self.waiting.remove(id);
        self.not_before.remove(id);
    }
}

impl<P: Protocol> Engine<'_, P> {
    /// Schedules the commit of an attempt's partial report.
    pub(super) fn queue_partial_report(&mut self, attempt: Attempt<P::Step>) {
        self.partial_reports.schedule(Run::<P>::id(&attempt), attempt);
    }

    /// Commits the partial reports whose time has come.
    pub(super) async fn commit_partial_reports(&mut self) -> Result<(), EngineError> {
        let now = Instant::now();
        let due = self.partial_reports.waiting.iter().filter(|(_, (at, _))| *at <= now);
        let due: Vec<_> = due.map(|(id, (_, attempt))| (id.clone(), attempt.clone())).collect();
        for (id, attempt) in due {
            self.partial_reports.waiting.remove(&id);
            self.commit_partial_report(&id, &attempt).await?;
            self.partial_reports.not_before.insert(id, Instant::now() + PACE);
        }
        Ok(())
    }

    /// Commits the last partial report of an attempt that has ended.
    pub(super) async fn commit_last_partial_report(
        &mut self,
        attempt: &Attempt<P::Step>,
    ) -> Result<(), EngineError> {
        let id = Run::<P>::id(attempt);
        self.partial_reports.remove(&id);
        self.commit_partial_report(&id, attempt).await
    }

    async fn commit_partial_report(
        &mut self,
        id: &AttemptId,
        attempt: &Attempt<P::Step>,
    ) -> Result<(), EngineError> {
        let dir = AttemptDir::new(&self.engine_config.attempts_dir(), &self.journal.run, id);
        let Some(content) = take_partial(&dir) else { return Ok(()) };
        let Some(patch) = P::partial_patch(&attempt.step, content) else { return Ok(()) };
        loop {
            let Journal { spec, state, document, .. } = &self.journal;
            let is_live = state.run.live_attempts().any(|(live, _)| live == *attempt);
            let edited = P::edit(
                &spec.definition,
                document,
                document,
                &EditAuthor::Step(attempt.step.clone()),
                &patch,
            );
            let edit = match edited {
                Ok(Some(edit)) if is_live => edit,
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(run = %self.journal.run, attempt = %id, %error, "partial report not applied");
                    break;
                }
            };
            let input = Input::Edited { edit, from: Some(id.clone()) };
            match self.commit(None, input, Decision::nothing()).await {
                Ok(()) => break,
                Err(CommitError::Conflict { .. }) => self.reload().await?,
                Err(CommitError::TooLarge { size, limit }) => {
                    tracing::warn!(run = %self.journal.run, attempt = %id, size, limit, "partial report not applied");
                    self.reload().await?;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        discard_taken(&dir);
        Ok(())
    }
}
