//! The history of a run's attempts, read from its journal: when each started and ended, and which steps are idle.
//!
//! The run state does not contain it. The journal is read in pages, so that a long one is never in memory as a whole.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::entry::{Author, Entry, Input, RecoverySource};
use protocol::run::{AttemptConsequence, Change, RunStatus};
use protocol::{AttemptId, NOT_MERGED_PREFIX, Revision, RunId, StepId, StepKind, Timestamp};
use store::{ReadError, Store, StoredEntry};

use crate::run::{LoadError, decode};

/// How many entries are read at a time.
const PAGE: u64 = 256;

/// The history of a run up to a revision.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In the order in which they started.
    pub attempts: Vec<AttemptRecord>,
    /// Since when each step with an active turn has had no live attempt: it is queued, backs off, or waits for a
    /// person.
    pub idle_since: BTreeMap<StepId, Timestamp>,
    /// The request that paused or stopped the run, if it is paused or stopped.
    pub stopped_by: Option<StoppedBy>,
    /// What the run was recovered from, with the revision of each recovery.
    pub recovered: Vec<(Revision, RecoverySource)>,
    /// The engine that wrote the last engine entry.
    pub engine: Option<EngineRecord>,
    /// Why git refused to fast-forward the base branch, in a sentence, if that is how the last effect ended.
    pub not_merged: Option<String>,
}

/// The history of one attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    pub id: AttemptId,
    /// The kind of its step.
    pub kind: StepKind,
    /// The host on which it was started.
    pub host: String,
    pub started_at: Timestamp,
    /// When the engine asked it to stop.
    pub stop_requested_at: Option<Timestamp>,
    pub end: Option<AttemptEndRecord>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptEndRecord {
    pub revision: Revision,
    pub at: Timestamp,
    pub consequence: AttemptConsequence,
    pub error: Option<String>,
    /// Measured by the shim's monotonic clock; `None` if the shim was lost.
    pub took: Option<Duration>,
}

/// The request that paused or stopped a run.
#[derive(Debug, Clone, PartialEq)]
pub struct StoppedBy {
    pub by: Author,
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// An engine, as the journal shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineRecord {
    pub author: Author,
    /// The time of its first entry.
    pub since: Timestamp,
}

impl History {
    /// Reads the journal up to a revision.
    pub async fn read(store: &dyn Store, run: &RunId, last: Revision) -> Result<Self, LoadError> {
        let mut history = Self::default();
        for_each_entry(store, run, Revision(0), last, |stored| {
            history.fold(stored.revision, &decode(run, &stored)?);
            Ok::<_, LoadError>(())
        })
        .await?;
        Ok(history)
    }

    /// Folds the next entry.
    pub fn fold(&mut self, revision: Revision, entry: &Entry) {
        if matches!(entry.by, Author::Engine { .. })
            && self.engine.as_ref().is_none_or(|engine| engine.author != entry.by)
        {
            self.engine = Some(EngineRecord { author: entry.by.clone(), since: entry.at });
        }
        if let Input::Recovered { source } = &entry.input {
            self.recovered.push((revision, source.clone()));
        }
        for change in &entry.changes {
            match change {
                Change::Status { status } => self.enter_status(*status, entry),
                Change::Queued { step, .. } | Change::BackoffElapsed { step } => {
                    self.idle_since.insert(step.clone(), entry.at);
                }
                Change::Waiting { step, .. } => {
                    self.idle_since.insert(step.clone(), entry.at);
                }
                Change::Answered { step, .. } | Change::Dequeued { step } => {
                    self.idle_since.remove(&step.clone());
                }
                Change::Started { attempt, kind, .. } => {
                    let id = attempt.clone();
                    self.idle_since.remove(&id.step);
                    let host = entry.by.host().to_owned();
                    self.attempts.push(AttemptRecord {
                        id,
                        kind: *kind,
                        host,
                        started_at: entry.at,
                        stop_requested_at: None,
                        end: None,
                    });
                }
                Change::StopRequested { attempt, .. } => {
                    if let Some(record) = self.attempt(&attempt.clone()) {
                        record.stop_requested_at = Some(entry.at);
                    }
                }
                Change::Ended { attempt, consequence, .. } => {
                    self.end(attempt.clone(), *consequence, revision, entry);
                }
                Change::Protocol { .. } => {}
            }
        }
    }

    fn end(&mut self, id: AttemptId, consequence: AttemptConsequence, revision: Revision, entry: &Entry) {
        match consequence {
            AttemptConsequence::WillRetry { .. }
            | AttemptConsequence::Interrupted { .. }
            | AttemptConsequence::Stopped => {
                self.idle_since.insert(id.step.clone(), entry.at);
            }
            AttemptConsequence::Reported
            | AttemptConsequence::Exhausted
            | AttemptConsequence::Released
            | AttemptConsequence::FailedWhileDraining => {}
        }
        let evidence = entry.input.evidence();
        if ends_effect(entry) {
            self.not_merged = fast_forward_refusal(entry).map(str::to_owned);
        }
        if let Some(record) = self.attempt(&id) {
            record.end = Some(AttemptEndRecord {
                revision,
                at: entry.at,
                consequence,
                error: evidence.and_then(|evidence| evidence.error.clone()),
                took: evidence.and_then(|evidence| evidence.duration_ms).map(Duration::from_millis),
            });
        }
    }

    fn enter_status(&mut self, status: RunStatus, entry: &Entry) {
        match (status, &entry.input) {
            (
                RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_),
                Input::Request { reason, .. },
            ) => {
                self.stopped_by =
                    Some(StoppedBy { by: entry.by.clone(), at: entry.at, reason: reason.clone() });
            }
            // The last attempt of a stopping run has ended: the request that stopped it stays.
            (RunStatus::Stopped(_), _) => {}
            _ => self.stopped_by = None,
        }
    }

    /// Returns the record of an attempt. Searches from the end, because a live attempt is among the last ones.
    fn attempt(&mut self, id: &AttemptId) -> Option<&mut AttemptRecord> {
        self.attempts.iter_mut().rev().find(|record| record.id == *id)
    }

    /// Returns the newest attempt of a step.
    pub fn newest_of(&self, step: &StepId) -> Option<&AttemptRecord> {
        self.attempts.iter().rev().find(|record| record.id.step == *step)
    }
}

/// Returns why git refused to fast-forward the base branch, if that is what the entry records.
pub fn fast_forward_refusal(entry: &Entry) -> Option<&str> {
    let report = entry.input.evidence()?.report.as_ref().filter(|_| ends_effect(entry))?;
    report.logs.iter().map(String::as_str).find(|log| log.starts_with(NOT_MERGED_PREFIX))
}

fn ends_effect(entry: &Entry) -> bool {
    entry.changes.iter().any(|change| matches!(change, Change::Ended { kind: StepKind::Effect, .. }))
}

/// Reads the stored entries between two revisions, page by page.
pub async fn for_each_entry<E: From<ReadError>>(
    store: &dyn Store,
    run: &RunId,
    after: Revision,
    last: Revision,
    mut each: impl FnMut(StoredEntry) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = after;
    while after < last {
        let end = Revision(after.0.saturating_add(PAGE).min(last.0));
        store.entries_between(run, after, end).await?.into_iter().try_for_each(&mut each)?;
        after = end;
    }
    Ok(())
}
