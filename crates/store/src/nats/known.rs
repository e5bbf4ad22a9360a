//! What this process remembers of runs: enough to commit without reading first.
//!
//! It is never believed, only tried: the server compares the sequence, and whoever was wrong reads.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::RunId;

use super::fold::Fold;
use super::message::{Head, Record};
use crate::commit::{Token, WriteId};

/// A run as we saw it last.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Of the last message on the run's subject, 0 if there is none.
    pub(super) sequence: u64,
    pub(super) head: Head,
    /// What the messages up to there add up to, if we have read them all.
    pub(super) fold: Option<Fold>,
}

impl Seen {
    pub(super) fn of(record: Option<&Record>) -> Self {
        match record {
            Some(record) => Self { sequence: record.sequence, head: record.head.clone(), fold: None },
            None => Self { sequence: 0, head: Head::absent(), fold: None },
        }
    }
}

/// How many runs are remembered, and of how many what their messages add up to, which may be much. A process that works
/// on more reads more.
const RUNS: usize = 2048;
const FOLDS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Known {
    runs: Mutex<HashMap<RunId, Seen>>,
    /// Writes whose outcome we do not know.
    unsettled: Mutex<HashMap<WriteId, Unsettled>>,
}

/// Where a write is to come, and after which sequence.
#[derive(Debug, Clone, Copy)]
pub(super) enum Unsettled {
    Journal(u64),
    Bucket(u64),
}

impl Known {
    /// Takes out what we know of the run if it is as of that commit; whoever has used it puts it back.
    pub(super) fn take(&self, run: &RunId, token: Token) -> Option<Seen> {
        let mut runs = lock(&self.runs);
        if runs.get(run)?.head.token() == token { runs.remove(run) } else { None }
    }

    pub(super) fn get(&self, run: &RunId) -> Option<Seen> {
        lock(&self.runs).get(run).cloned()
    }

    pub(super) fn put(&self, run: &RunId, seen: Seen) {
        let mut runs = lock(&self.runs);
        if runs.len() >= RUNS {
            runs.clear();
        }
        let is_new = seen.fold.is_some();
        runs.insert(run.clone(), seen);
        if is_new && runs.values().filter(|seen| seen.fold.is_some()).count() > FOLDS {
            for (_, other) in runs.iter_mut().filter(|(other, _)| *other != run) {
                other.fold = None;
            }
        }
    }

    /// Whether the commits of a run are entries of a bucket; `None` if we do not know the run.
    pub(super) fn is_entered(&self, run: &RunId) -> Option<bool> {
        let runs = lock(&self.runs);
        let head = &runs.get(run)?.head;
        head.exists().then_some(head.entered.is_some())
    }

    pub(super) fn is_unsettled(&self, write_id: WriteId, goes_to: Unsettled) {
        lock(&self.unsettled).insert(write_id, goes_to);
    }

    pub(super) fn unsettled(&self, write_id: WriteId) -> Option<Unsettled> {
        lock(&self.unsettled).get(&write_id).copied()
    }

    pub(super) fn is_settled(&self, write_id: WriteId) {
        lock(&self.unsettled).remove(&write_id);
    }
}

/// A panic cannot leave a map half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
