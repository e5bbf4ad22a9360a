//! Reading a run from its messages.

use std::collections::HashMap;

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::{Revision, RunId};

use super::cache::JournalEnd;
use super::index::RunIndex;
use super::message::{Content, Delta, Head, Record, checksum};
use super::records::is_unreadable;
use super::wire::MessageError;
use crate::commit::{Part, Position, ViewMark};
use crate::error::{ReadError, Unavailable};
use crate::nats::connection::Session;
use crate::store::{LoadedRun, NewEntries, RunListing, StoredEntry};

/// How many requests run concurrently.
pub(in crate::nats) const CONCURRENCY: usize = 32;

/// A run up to one of its messages.
struct ReplayedRun {
    snapshot: Option<StoredEntry>,
    /// The commits after the snapshot.
    tail: Vec<StoredEntry>,
    index: RunIndex,
    /// The deltas that were read, by sequence.
    deltas: HashMap<u64, Delta>,
}

impl Session {
    pub(in crate::nats) async fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, ReadError> {
        let current = self.reconcile(run).await?;
        let position = current.position();
        let Some(newest) = current.record.filter(|record| record.head.exists()) else { return Ok(None) };
        let ReplayedRun { snapshot, tail, index, .. } = self.replay(run, &newest).await?;
        let loaded = LoadedRun {
            protocol: newest.head.protocol.clone(),
            position,
            epoch: newest.head.epoch,
            summary: newest.head.summary.clone(),
            snapshot,
            tail,
            outbox: index.outbox().to_vec(),
            views: index.views().cloned().collect(),
            external_write: current.slot.and_then(|slot| slot.external_write),
        };
        self.cache.put(run, JournalEnd { index: Some(index), ..JournalEnd::of(Some(&newest)) });
        Ok(Some(loaded))
    }

    /// Returns `None` if the run does not exist or is older than `before`, and for every run whose document is in a bucket:
    /// external writes of that document are no entries.
    pub(in crate::nats) async fn catch_up(
        &self,
        run: &RunId,
        before: Position,
    ) -> Result<Option<NewEntries>, ReadError> {
        let current = self.reconcile(run).await?;
        let newest = current.record.filter(|newest| newest.head.exists());
        let Some(newest) = newest.filter(|newest| newest.head.token().0 >= before.token.0) else {
            return Ok(None);
        };
        if current.slot.is_some() {
            return Ok(None);
        }
        let entries = self.entries_within(run, before.token.0 + 1, newest.head.commit).await?;
        let position = newest.position();
        self.cache.put(run, JournalEnd::of(Some(&newest)));
        Ok(Some(NewEntries { position, entries }))
    }

    /// Reads from the newest checkpoint up to a message.
    async fn replay(&self, run: &RunId, upper: &Record) -> Result<ReplayedRun, ReadError> {
        let mut replayed = ReplayedRun {
            snapshot: None,
            tail: Vec::new(),
            index: RunIndex::default(),
            deltas: HashMap::new(),
        };
        let first = upper.head.checkpoint.unwrap_or(1);
        let records = if first == upper.sequence {
            vec![upper.clone()]
        } else {
            self.records(run, first, upper.sequence).await?
        };
        for record in records {
            match &record.content {
                Content::Commit(committed) => {
                    let delta = self.delta(run, record.sequence, committed).await?;
                    replayed.index.apply(record.sequence, &delta);
                    let revision = record.head.revision;
                    match &delta.checkpoint {
                        Some(checkpoint) => {
                            replayed.snapshot =
                                Some(StoredEntry { revision, body: checkpoint.snapshot.clone() });
                            let missed = self.view_marks_before_copy(run, &record, &delta).await?;
                            replayed.index.record_view_marks(&missed);
                        }
                        None => replayed.tail.push(StoredEntry { revision, body: delta.entry.clone() }),
                    }
                    replayed.deltas.insert(record.sequence, delta);
                }
                Content::ViewMarks { views, .. } => replayed.index.record_view_marks(views),
                Content::EngineLock { .. } | Content::Fence { .. } => {}
            }
        }
        Ok(replayed)
    }

    /// Returns the view marks that a checkpoint lacks: they were recorded after its commit was made in the bucket, and before
    /// the copy of it (`checkpoint`) was appended to the journal. Only runs with a document in a bucket can have such marks.
    async fn view_marks_before_copy(
        &self,
        run: &RunId,
        checkpoint: &Record,
        delta: &Delta,
    ) -> Result<Vec<ViewMark>, ReadError> {
        let between = checkpoint.previous_commit + 1..checkpoint.sequence;
        if checkpoint.head.document_entry.is_none() || between.is_empty() {
            return Ok(Vec::new());
        }
        // `records` includes the last sequence, that of the copy: it must be a message of the run, and is no view mark.
        let between = self.records(run, between.start, between.end).await?;
        let marks = between.into_iter().filter_map(|record| match record.content {
            Content::ViewMarks { views, .. } => Some(views),
            Content::Commit(_) | Content::EngineLock { .. } | Content::Fence { .. } => None,
        });
        // The commit's own view marks are newer.
        let is_known = |mark: &ViewMark| delta.views.iter().any(|view| view.path == mark.path);
        Ok(marks.flatten().filter(|mark| !is_known(mark)).collect())
    }

    /// Returns the index of all messages up to `tip`.
    pub(super) async fn index_at(&self, run: &RunId, tip: &JournalEnd) -> Result<RunIndex, ReadError> {
        match self.first_record_from(run, tip.sequence).await? {
            Some(upper) if tip.sequence > 0 && upper.sequence == tip.sequence => {
                Ok(self.replay(run, &upper).await?.index)
            }
            _ => Ok(RunIndex::default()),
        }
    }

    /// Returns the commit of `revision`, or the last message of the run if it has no later revision.
    async fn commit_at(&self, run: &RunId, revision: Revision) -> Result<Option<Record>, ReadError> {
        if revision == Revision(0) {
            return Ok(None);
        }
        let Some(newest) = self.reconcile_and_read_last(run).await? else { return Ok(None) };
        if revision >= newest.head.revision {
            return Ok(Some(newest));
        }
        Ok(self.find_commit(run, revision, &newest).await?)
    }

    pub(in crate::nats) async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        let Some(newest) = self.reconcile_and_read_last(run).await? else { return Ok(Vec::new()) };
        if after >= last || after >= newest.head.revision {
            return Ok(Vec::new());
        }
        let to = match last {
            last if last >= newest.head.revision => newest.head.commit,
            last => self.find_commit(run, last, &newest).await?.map_or(0, |record| record.sequence),
        };
        let from = match after {
            Revision(0) => 1,
            // A single entry: no need to search for the one before it.
            after if after.next() == last => to,
            after => self.find_commit(run, after, &newest).await?.map_or(1, |record| record.sequence + 1),
        };
        self.entries_within(run, from, to).await
    }

    /// Returns the entries of the commits between two sequences, inclusive.
    async fn entries_within(&self, run: &RunId, from: u64, to: u64) -> Result<Vec<StoredEntry>, ReadError> {
        let mut entries = Vec::new();
        for record in self.records(run, from, to).await? {
            if let Some(committed) = record.commit() {
                let Delta { entry, .. } = self.delta(run, record.sequence, committed).await?;
                entries.push(StoredEntry { revision: record.head.revision, body: entry });
            }
        }
        Ok(entries)
    }

    pub(in crate::nats) async fn last_intact_revision(&self, run: &RunId) -> Result<Revision, ReadError> {
        let Some(newest) = self.reconcile_and_read_last(run).await? else { return Ok(Revision(0)) };
        let mut last = Revision(0);
        for record in self.records(run, 1, newest.sequence).await? {
            let Some(committed) = record.commit() else { continue };
            let revision = record.head.revision;
            let delta = match self.delta(run, record.sequence, committed).await {
                Ok(delta) => delta,
                Err(
                    ReadError::DamagedBlob { .. } | ReadError::Unavailable(Unavailable::BadJournal { .. }),
                ) => break,
                Err(error) => return Err(error),
            };
            if revision != last.next()
                || committed.checksum != checksum(run, revision, committed.write_id, &delta.entry)
            {
                break;
            }
            last = revision;
        }
        Ok(last)
    }

    pub(in crate::nats) async fn snapshot_at(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> Result<Option<StoredEntry>, ReadError> {
        let Some(upper) = self.commit_at(run, revision).await? else { return Ok(None) };
        let Some(checkpoint) = upper.head.checkpoint else { return Ok(None) };
        let record = match checkpoint {
            sequence if sequence == upper.sequence => Some(upper),
            sequence => {
                self.first_record_from(run, sequence).await?.filter(|record| record.sequence == sequence)
            }
        };
        let Some(record) = record else { return Ok(None) };
        let Some(committed) = record.commit() else { return Ok(None) };
        let delta = self.delta(run, record.sequence, committed).await?;
        let revision = record.head.revision;
        Ok(delta.checkpoint.map(|checkpoint| StoredEntry { revision, body: checkpoint.snapshot }))
    }

    pub(in crate::nats) async fn parts_at(
        &self,
        run: &RunId,
        revision: Revision,
    ) -> Result<Vec<Part>, ReadError> {
        let cached = self.cache.get(run).filter(|tip| tip.head.revision == revision);
        let (index, deltas) = match cached.and_then(|tip| tip.index) {
            Some(index) => (index, HashMap::new()),
            None => {
                let Some(upper) = self.commit_at(run, revision).await? else { return Ok(Vec::new()) };
                let ReplayedRun { index, deltas, .. } = self.replay(run, &upper).await?;
                (index, deltas)
            }
        };
        self.parts_of(run, &index, deltas).await
    }

    /// Reads the bodies of parts from their commits.
    async fn parts_of(
        &self,
        run: &RunId,
        index: &RunIndex,
        mut deltas: HashMap<u64, Delta>,
    ) -> Result<Vec<Part>, ReadError> {
        let mut missing: Vec<u64> =
            index.parts().values().copied().filter(|sequence| !deltas.contains_key(sequence)).collect();
        missing.sort_unstable();
        missing.dedup();
        let requests = missing.into_iter().map(|sequence| self.delta_at(run, sequence));
        let mut replies = futures_util::stream::iter(requests).buffer_unordered(CONCURRENCY);
        while let Some((sequence, delta)) = replies.try_next().await? {
            deltas.insert(sequence, delta);
        }
        let body = |path: &str, sequence: &u64| {
            let parts = deltas.get(sequence).map(|delta| delta.parts.iter());
            parts.and_then(|parts| parts.rev().find(|part| part.path == path)).cloned()
        };
        Ok(index.parts().iter().filter_map(|(path, sequence)| body(path, sequence)).collect())
    }

    async fn delta_at(&self, run: &RunId, sequence: u64) -> Result<(u64, Delta), ReadError> {
        let record =
            self.first_record_from(run, sequence).await?.filter(|record| record.sequence == sequence);
        match record.as_ref().and_then(Record::commit) {
            Some(committed) => Ok((sequence, self.delta(run, sequence, committed).await?)),
            None => Err(self.message_error(run, MessageError::Missing { sequence }).into()),
        }
    }

    /// Returns all runs, oldest first.
    pub(in crate::nats) async fn runs(&self) -> Result<Vec<RunListing>, ReadError> {
        let requests = self.run_names().await?.into_iter().map(async |run| {
            // The journal is enough to list a run. The bucket is read only for a run that has no commit in the journal.
            let newest = async {
                match self.last_journal_record(&run).await?.filter(|record| record.head.exists()) {
                    Some(newest) => Ok(Some(newest)),
                    None => self.reconcile_and_read_last(&run).await,
                }
            };
            let head = match newest.await {
                Ok(newest) => newest.map(|record| record.head),
                // An unreadable run must not hide the others.
                Err(error) if is_unreadable(&error) => Some(Head::absent()),
                Err(error) => return Err(ReadError::from(error)),
            };
            Ok(head.map(|head| (head.created, run, head)))
        });
        let found = futures_util::stream::iter(requests).buffer_unordered(CONCURRENCY);
        let mut found: Vec<_> = found.try_filter_map(async |row| Ok(row)).try_collect().await?;
        found.sort_by(|(a, run_a, _), (b, run_b, _)| (a, run_a).cmp(&(b, run_b)));
        let row = |(created, run, head): (_, RunId, Head)| RunListing {
            run,
            protocol: head.protocol,
            revision: head.revision,
            created,
            summary: head.summary,
        };
        Ok(found.into_iter().map(row).collect())
    }

    pub(in crate::nats) async fn runs_with_prefix(
        &self,
        beginning: &str,
        at_most: usize,
    ) -> Result<Vec<RunId>, ReadError> {
        let mut runs = Vec::new();
        for run in self.run_names().await? {
            if runs.len() == at_most {
                break;
            }
            if !run.as_str().starts_with(beginning) {
                continue;
            }
            let exists = match self.reconcile_and_read_last(&run).await {
                Ok(newest) => newest.is_some(),
                Err(error) if is_unreadable(&error) => true,
                Err(error) => return Err(error.into()),
            };
            if exists {
                runs.push(run);
            }
        }
        Ok(runs)
    }
}
