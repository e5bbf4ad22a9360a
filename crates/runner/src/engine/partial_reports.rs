//! Commits partial reports, which an attempt hands in before it ends, to the document: at most one per attempt and second, and the
//! last one before the attempt's end.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::AttemptId;
use protocol::edit::EditAuthor;
use protocol::entry::Input;
use protocol::run::Decision;
use store::CommitError;
use supervisor::AttemptDir;
use supervisor::partial::{discard_taken, take_partial};
use tokio::time::Instant;

use super::{Engine, EngineError};

/// The shortest time between two commits of one attempt.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// When the partial reports of attempts are committed.
#[derive(Debug, Default)]
pub(super) struct PartialReports {
    /// The attempts with a partial report on disk.
    due_at: BTreeMap<AttemptId, Instant>,
    /// No commit of the attempt before this time.
    not_before: BTreeMap<AttemptId, Instant>,
}

impl PartialReports {
    /// Returns when the next partial report is to be committed.
    pub(super) fn next_commit(&self) -> Option<Instant> {
        self.due_at.values().min().copied()
    }
}

impl Engine<'_> {
    /// Schedules the commit of an attempt's partial report.
    pub(super) fn queue_partial_report(&mut self, attempt: AttemptId) {
        let at = self.partial_reports.not_before.get(&attempt).copied().unwrap_or_else(Instant::now);
        self.partial_reports.due_at.entry(attempt).or_insert(at);
    }

    /// Commits the partial reports whose time has come.
    pub(super) async fn commit_partial_reports(&mut self) -> Result<(), EngineError> {
        let now = Instant::now();
        let due = self.partial_reports.due_at.iter().filter(|(_, at)| **at <= now);
        let due: Vec<_> = due.map(|(attempt, _)| attempt.clone()).collect();
        for attempt in due {
            self.partial_reports.due_at.remove(&attempt);
            self.commit_partial_report(&attempt).await?;
            self.partial_reports.not_before.insert(attempt, Instant::now() + MIN_INTERVAL);
        }
        Ok(())
    }

    /// Commits the last partial report of an attempt that has ended.
    pub(super) async fn commit_last_partial_report(
        &mut self,
        attempt: &AttemptId,
    ) -> Result<(), EngineError> {
        self.partial_reports.due_at.remove(attempt);
        self.partial_reports.not_before.remove(attempt);
        self.commit_partial_report(attempt).await
    }

    async fn commit_partial_report(&mut self, attempt: &AttemptId) -> Result<(), EngineError> {
        let dir = AttemptDir::new(&self.engine_config.attempts_dir(), &self.journal.run, attempt);
        // It is discarded after the commit: if this engine is killed before, the next one takes it again.
        let Some(content) = take_partial(&dir) else { return Ok(()) };
        let Some(patch) = self.journal.machine().partial_output_patch(&attempt.step, content) else {
            discard_taken(&dir);
            return Ok(());
        };
        let author = EditAuthor::Step(attempt.step.clone());
        let committed = self.decide(None, |engine| {
            let is_live = engine.journal.state.run.live_attempts().any(|(live, _)| live == *attempt);
            match engine.journal.machine().edit(&engine.journal.document(), &author, &patch) {
                Ok(Some(edit)) if is_live => {
                    let input = Input::Edited { edit, from: Some(attempt.clone()) };
                    Ok(Some((input, Decision::nothing())))
                }
                Ok(_) => Ok(None),
                Err(error) => {
                    tracing::debug!(%attempt, %error, "partial report not applied");
                    Ok(None)
                }
            }
        });
        match committed.await {
            Ok(_) => {}
            Err(EngineError::Commit(CommitError::TooLarge { size, limit })) => {
                tracing::warn!(%attempt, size, limit, "partial report not applied");
                // The journal in memory has the edit already.
                self.reload().await?;
            }
            Err(error) => return Err(error),
        }
        discard_taken(&dir);
        Ok(())
    }
}
