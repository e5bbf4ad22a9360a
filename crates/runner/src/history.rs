//! What a run's journal tells about its attempts: who began when, who waited since when, how each one ended.
//!
//! The state forgets all this on purpose; whoever looks at a run wants it back. The journal is read in pages, so a long
//! one is never in memory as a whole.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::entry::{Author, Entry, Input, RecoverySource};
use protocol::run::{Change, Exit, Run, RunStatus};
use protocol::{AttemptId, Protocol, Revision, RunId, Stamp, StepId};
use store::{ReadError, Store, StoredEntry};

use crate::journal::{LoadError, decode};

/// How many entries are read at a time.
const PAGE: u64 = 256;

/// The journal of a run up to a revision, as far as people ask for it.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In the order in which they began.
    pub attempts: Vec<Attempted>,
    /// Since when each step that is in its turn and not at work has waited.
    pub waiting: BTreeMap<StepId, Stamp>,
    /// Who brought the run into its present status, if it was somebody's wish.
    pub held: Option<Held>,
    /// What the run was put together from, and when, if it had to be.
    pub recovered: Vec<(Revision, RecoverySource)>,
    /// The engine that wrote last.
    pub engine: Option<EngineSeen>,
}

/// One attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempted {
    pub id: AttemptId,
    /// The host on which it was begun.
    pub host: String,
    pub began: Stamp,
    /// Since when it has been asked to end.
    pub asked_to_end: Option<Stamp>,
    pub over: Option<Over>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Over {
    pub revision: Revision,
    pub at: Stamp,
    pub exit: Exit,
    pub error: Option<String>,
    /// By the shim's monotonic clock; unknown if the shim was lost.
    pub took: Option<Duration>,
}

/// A wish that holds the run where it is: a pause, a stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Held {
    pub by: Author,
    pub at: Stamp,
    pub reason: Option<String>,
}

/// An engine as the journal shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineSeen {
    pub who: Author,
    /// Its first entry.
    pub since: Stamp,
}

impl History {
    /// Reads the journal up to a revision.
    pub async fn read<P: Protocol, S: Store>(
        store: &S,
        run: &RunId,
        last: Revision,
    ) -> Result<Self, LoadError> {
        let mut history = Self::default();
        for_each_entry(store, run, Revision(0), last, |stored| {
            history.fold::<P>(stored.revision, &decode(run, &stored)?);
            Ok::<_, LoadError>(())
        })
        .await?;
        Ok(history)
    }

    /// Takes in the next entry.
    pub fn fold<P: Protocol>(&mut self, revision: Revision, entry: &Entry<P>) {
        if matches!(entry.by, Author::Engine { .. })
            && self.engine.as_ref().is_none_or(|engine| engine.who != entry.by)
        {
            self.engine = Some(EngineSeen { who: entry.by.clone(), since: entry.at });
        }
        if let Input::Recovered { source } = &entry.input {
            self.recovered.push((revision, source.clone()));
        }
        for change in &entry.changes {
            match change {
                Change::Status { status } => self.enter(*status, entry),
                Change::Queued { step, .. } | Change::BackoffElapsed { step } => {
                    self.waiting.insert(P::step_id(step), entry.at);
                }
                Change::Dequeued { step } => {
                    self.waiting.remove(&P::step_id(step));
                }
                Change::Started { attempt, .. } => {
                    let id = Run::<P>::id(attempt);
                    self.waiting.remove(&id.step);
                    let host = entry.by.host().to_owned();
                    self.attempts.push(Attempted {
                        id,
                        host,
                        began: entry.at,
                        asked_to_end: None,
                        over: None,
                    });
                }
                Change::StopRequested { attempt, .. } => {
                    if let Some(attempted) = self.attempt(&Run::<P>::id(attempt)) {
                        attempted.asked_to_end = Some(entry.at);
                    }
                }
                Change::Ended { attempt, exit } => self.end(Run::<P>::id(attempt), *exit, revision, entry),
                Change::Protocol { .. } => {}
            }
        }
    }

    fn end<P: Protocol>(&mut self, id: AttemptId, exit: Exit, revision: Revision, entry: &Entry<P>) {
        match exit {
            Exit::WillRetry { .. } | Exit::Interrupted { .. } | Exit::Stopped => {
                self.waiting.insert(id.step.clone(), entry.at);
            }
            Exit::Reported | Exit::Exhausted | Exit::Released | Exit::Drained => {}
        }
        let evidence = entry.input.evidence();
        if let Some(attempted) = self.attempt(&id) {
            attempted.over = Some(Over {
                revision,
                at: entry.at,
                exit,
                error: evidence.and_then(|evidence| evidence.error.clone()),
                took: evidence.and_then(|evidence| evidence.duration_ms).map(Duration::from_millis),
            });
        }
    }

    fn enter<P: Protocol>(&mut self, status: RunStatus, entry: &Entry<P>) {
        match (status, &entry.input) {
            (
                RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_),
                Input::Request { reason, .. },
            ) => {
                self.held = Some(Held { by: entry.by.clone(), at: entry.at, reason: reason.clone() });
            }
            // The last agent is gone: whoever wanted it so stays the one who did.
            (RunStatus::Stopped(_), _) => {}
            _ => self.held = None,
        }
    }

    /// One that is at work is among the last to have begun.
    fn attempt(&mut self, id: &AttemptId) -> Option<&mut Attempted> {
        self.attempts.iter_mut().rev().find(|attempted| attempted.id == *id)
    }

    /// The newest attempt of a step.
    pub fn newest_of(&self, step: &StepId) -> Option<&Attempted> {
        self.attempts.iter().rev().find(|attempted| attempted.id.step == *step)
    }
}

/// Reads the journal between two revisions, page by page, as it is stored.
pub async fn for_each_entry<S: Store, E: From<ReadError>>(
    store: &S,
    run: &RunId,
    after: Revision,
    last: Revision,
    mut tell: impl FnMut(StoredEntry) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = after;
    while after < last {
        let end = Revision(after.0.saturating_add(PAGE).min(last.0));
        store.entries_between(run, after, end).await?.into_iter().try_for_each(&mut tell)?;
        after = end;
    }
    Ok(())
}
