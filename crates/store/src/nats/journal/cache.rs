//! What this process remembers of runs, so that it can commit without reading first.
//!
//! The cache may be stale: the server compares sequences, and a writer that is refused reads again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::RunId;

use super::index::RunIndex;
use super::message::{Head, Record};
use crate::commit::{Token, WriteId};

/// The last known message of a run.
#[derive(Debug, Clone)]
pub(in crate::nats) struct JournalEnd {
    /// The sequence of the last message on the run's subject, 0 if there is none.
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) head: Head,
    /// The index of all messages up to it, if they were read.
    pub(in crate::nats) index: Option<RunIndex>,
}

impl JournalEnd {
    pub(in crate::nats) fn of(record: Option<&Record>) -> Self {
        match record {
            Some(record) => Self { sequence: record.sequence, head: record.head.clone(), index: None },
            None => Self { sequence: 0, head: Head::absent(), index: None },
        }
    }
}

/// How many runs are cached, and how many with their index, which may be large.
const MAX_RUNS: usize = 2048;
const MAX_INDEXES: usize = 64;

/// The runs that this process has read or written, and its unacknowledged writes.
#[derive(Debug, Default)]
pub(in crate::nats) struct RunCache {
    runs: Mutex<HashMap<RunId, JournalEnd>>,
    /// Writes that were not acknowledged.
    pending_writes: Mutex<HashMap<WriteId, PendingWrite>>,
}

/// Where an unacknowledged write may still be stored, and the sequence that must then be the last one before it.
#[derive(Debug, Clone, Copy)]
pub(super) enum PendingWrite {
    Journal(u64),
    Bucket(u64),
}

impl RunCache {
    /// Removes and returns what is known of a run if its token is `token`. The caller puts it back after use.
    pub(in crate::nats) fn take(&self, run: &RunId, token: Token) -> Option<JournalEnd> {
        let mut runs = lock(&self.runs);
        if runs.get(run)?.head.token() == token { runs.remove(run) } else { None }
    }

    pub(super) fn forget(&self, run: &RunId) {
        lock(&self.runs).remove(run);
    }

    pub(in crate::nats) fn get(&self, run: &RunId) -> Option<JournalEnd> {
        lock(&self.runs).get(run).cloned()
    }

    pub(in crate::nats) fn put(&self, run: &RunId, end: JournalEnd) {
        let mut runs = lock(&self.runs);
        if runs.len() >= MAX_RUNS {
            runs.clear();
        }
        let has_index = end.index.is_some();
        runs.insert(run.clone(), end);
        if has_index && runs.values().filter(|end| end.index.is_some()).count() > MAX_INDEXES {
            for (_, other) in runs.iter_mut().filter(|(other, _)| *other != run) {
                other.index = None;
            }
        }
    }

    /// Whether the commits of a run are entries of a bucket. `None` if the run is not cached or does not exist.
    pub(super) fn is_in_bucket(&self, run: &RunId) -> Option<bool> {
        let runs = lock(&self.runs);
        let head = &runs.get(run)?.head;
        head.exists().then_some(head.document_entry.is_some())
    }

    pub(super) fn add_pending_write(&self, write_id: WriteId, write: PendingWrite) {
        lock(&self.pending_writes).insert(write_id, write);
    }

    pub(super) fn pending_write(&self, write_id: WriteId) -> Option<PendingWrite> {
        lock(&self.pending_writes).get(&write_id).copied()
    }

    pub(super) fn remove_pending_write(&self, write_id: WriteId) {
        lock(&self.pending_writes).remove(&write_id);
    }
}

/// A panic cannot leave these maps inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
