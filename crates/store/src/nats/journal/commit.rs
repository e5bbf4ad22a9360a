//! A commit: one message on the run's subject, by compare-and-set with the tip, which is the last message there.

use jiff::Timestamp;
use protocol::RunId;

use super::cache::{JournalEnd, PendingWrite};
use super::message::{Delta, Head, OutgoingCommit, OutgoingDelta, Record, checksum};
use super::records::subject;
use super::wire::{encode_commit, json};
use crate::commit::{Commit, Position, WriteId};
use crate::error::{CommitError, ReadError, Unavailable};
use crate::nats::connection::{RequestFailure, Session};
use crate::nats::documents::document_key;

/// A larger delta is stored as a blob, so that the journal stays fast to read.
pub(in crate::nats) const MAX_INLINE_DELTA: usize = 100 * 1024;

impl Session {
    pub(in crate::nats) async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        self.commit_with(commit, &CommitOptions::default()).await
    }

    pub(super) async fn commit_with(
        &self,
        commit: Commit,
        options: &CommitOptions,
    ) -> Result<Position, CommitError> {
        let write_id = commit.write_id;
        let uses_bucket = self.uses_bucket(&commit).await?;
        let mut unanswered = None;
        let outcome = if uses_bucket {
            Box::pin(self.commit_to_bucket(commit, options, &mut unanswered)).await
        } else {
            Box::pin(self.commit_to_journal(commit, options, &mut unanswered)).await
        };
        match outcome {
            // An unacknowledged write may still land, whatever failed since.
            Err(CommitError::Unavailable(unavailable)) if let Some(after) = unanswered => {
                let pending =
                    if uses_bucket { PendingWrite::Bucket(after) } else { PendingWrite::Journal(after) };
                self.cache.add_pending_write(write_id, pending);
                Err(CommitError::OutcomeUnknown { write_id, source: unavailable.into() })
            }
            outcome => outcome,
        }
    }

    /// Whether the commit is an entry of a bucket. This is decided by the run's first commit.
    async fn uses_bucket(&self, commit: &Commit) -> Result<bool, Unavailable> {
        if let Some(uses_bucket) = self.cache.is_in_bucket(&commit.run) {
            return Ok(uses_bucket);
        }
        let head = self.reconcile(&commit.run).await?.head();
        let starts_in_bucket = || commit.document.is_some() && document_key(&commit.run).is_some();
        Ok(if head.exists() { head.document_entry.is_some() } else { starts_in_bucket() })
    }

    /// Commits, and retries until there is an answer. `unanswered` is the sequence after which an unacknowledged
    /// message may still land: a retry after the same sequence cannot land twice.
    async fn commit_to_journal(
        &self,
        commit: Commit,
        options: &CommitOptions,
        unanswered: &mut Option<u64>,
    ) -> Result<Position, CommitError> {
        let subject = subject(&commit.run);
        let mut cached = self.cache.take(&commit.run, commit.expected.token);
        let (mut outage, mut conflicts) =
            (self.journal.write_backoff("commit to"), self.journal.conflict_backoff("commit to"));
        loop {
            let tip = match cached.take() {
                Some(tip) => tip,
                None => JournalEnd::of(self.last_journal_record(&commit.run).await?.as_ref()),
            };
            if let Some(after) = *unanswered
                && tip.sequence != after
            {
                if let Some(position) = self.landed_after(&commit.run, commit.write_id, after).await? {
                    self.journal.record_write();
                    return Ok(position);
                }
                *unanswered = None;
            }
            check(&commit, &tip.head)?;
            let encoded = self.encode_message(&commit, options, tip).await?;
            let after = encoded.plan.tip.sequence;
            let failure = match self.journal.append_once(&subject, after, encoded.payload.clone()).await {
                Ok(sequence) => return Ok(self.cache_commit(&commit.run, encoded.plan, sequence)),
                Err(failure) => failure,
            };
            match failure {
                RequestFailure::WrongSequence(source) => {
                    let tip = JournalEnd::of(self.last_journal_record(&commit.run).await?.as_ref());
                    if tip.sequence == after {
                        // Refused although the subject has not changed: retry like an outage.
                        outage.wait(RequestFailure::Temporary(source)).await?;
                    } else if tip.head.token() == commit.expected.token {
                        // No commit came between, only a message of another kind, such as a new engine.
                        conflicts.wait(RequestFailure::Temporary(source)).await?;
                    }
                    cached = Some(tip);
                }
                failure => {
                    if matches!(failure, RequestFailure::Unanswered(_)) {
                        *unanswered = Some(after);
                    }
                    outage.wait(failure).await?;
                }
            }
        }
    }

    /// Returns the position of `write_id` if it is the message right after `after`.
    pub(super) async fn landed_after(
        &self,
        run: &RunId,
        write_id: WriteId,
        after: u64,
    ) -> Result<Option<Position>, Unavailable> {
        let next = self.first_record_from(run, after + 1).await?;
        Ok(next
            .filter(|record| record.commit().is_some_and(|c| c.write_id == write_id))
            .map(|r| r.position()))
    }

    /// Computes the head and delta of the commit after `tip`.
    pub(in crate::nats) async fn plan(
        &self,
        commit: &Commit,
        options: &CommitOptions,
        mut tip: JournalEnd,
    ) -> Result<CommitPlan, CommitError> {
        let mut delta = Delta::of(commit);
        if let Some(snapshot) = &commit.snapshot {
            let index = match &tip.index {
                Some(index) => index,
                None => {
                    let index =
                        self.index_at(&commit.run, &tip).await.map_err(|error| self.as_unavailable(error))?;
                    tip.index.insert(index)
                }
            };
            delta.checkpoint = Some(index.checkpoint(&delta, snapshot.clone()));
        }
        let revision = tip.head.revision.next();
        let head = Head {
            protocol: if tip.head.has_commits() {
                tip.head.protocol.clone()
            } else {
                commit.protocol.clone()
            },
            created: match options.created {
                _ if tip.head.has_commits() => tip.head.created,
                Some(created) => created,
                None => Timestamp::now(),
            },
            revision,
            summary: commit.summary.clone(),
            importing: options.importing,
            ..tip.head.clone()
        };
        Ok(CommitPlan { tip, head, delta })
    }

    /// Encodes the message that follows `tip`.
    async fn encode_message(
        &self,
        commit: &Commit,
        options: &CommitOptions,
        tip: JournalEnd,
    ) -> Result<EncodedCommit, CommitError> {
        let plan = self.plan(commit, options, tip).await?;
        let CommitPlan { head, delta, .. } = &plan;
        let mut outgoing = plan.outgoing(commit);
        let mut payload = encode_commit(head, &outgoing, commit.size());
        if payload.len() > MAX_INLINE_DELTA.min(self.journal_max_payload) {
            outgoing.delta = OutgoingDelta::Blob(self.put_blob(&json(delta)).await?);
            payload = encode_commit(head, &outgoing, commit.summary.len());
        }
        match payload.len() {
            size if size > self.journal_max_payload => {
                Err(CommitError::TooLarge { size, limit: self.journal_max_payload })
            }
            _ => Ok(EncodedCommit { payload, plan }),
        }
    }

    /// Converts the error of a read that a commit needs.
    pub(in crate::nats) fn as_unavailable(&self, error: ReadError) -> Unavailable {
        match error {
            ReadError::Unavailable(unavailable) => unavailable,
            ReadError::DamagedBlob { .. } => {
                let server = self.journal.server.clone();
                Unavailable::Server { server, doing: "read the past of the run from", source: error.into() }
            }
        }
    }

    /// Caches the run as it is after our commit.
    pub(in crate::nats) fn cache_commit(&self, run: &RunId, plan: CommitPlan, sequence: u64) -> Position {
        let CommitPlan { tip, mut head, delta } = plan;
        head.commit = sequence;
        if delta.checkpoint.is_some() {
            head.checkpoint = Some(sequence);
        }
        let index = tip.index.map(|mut index| {
            index.apply(sequence, &delta);
            index
        });
        let position = Position { revision: head.revision, token: head.token() };
        self.cache.put(run, JournalEnd { sequence, head, index });
        position
    }
}

/// What differs in the commits of an import. The default is for all other commits.
#[derive(Debug, Default)]
pub(in crate::nats) struct CommitOptions {
    /// When the run was created, if not now.
    pub(in crate::nats) created: Option<Timestamp>,
    /// More commits follow. Until the last one the run does not exist.
    pub(super) importing: bool,
}

/// An encoded message, and the commit that it encodes.
struct EncodedCommit {
    payload: bytes::Bytes,
    plan: CommitPlan,
}

/// A commit before it is encoded: the tip that it follows, the run's head after it, and its delta.
pub(in crate::nats) struct CommitPlan {
    pub(in crate::nats) tip: JournalEnd,
    pub(in crate::nats) head: Head,
    pub(in crate::nats) delta: Delta,
}

impl CommitPlan {
    pub(in crate::nats) fn outgoing(&self, commit: &Commit) -> OutgoingCommit<'_> {
        let Self { head, delta, .. } = self;
        OutgoingCommit {
            write_id: commit.write_id,
            checksum: checksum(&commit.run, head.revision, commit.write_id, &delta.entry),
            checkpoint: delta.checkpoint.is_some(),
            delta: OutgoingDelta::Inline(delta),
        }
    }
}

/// Fails if the engine was replaced, or the run is not at the expected position.
fn check(commit: &Commit, head: &Head) -> Result<(), CommitError> {
    check_epoch(commit, head)?;
    if head.token() != commit.expected.token {
        let (run, expected) = (commit.run.clone(), commit.expected.revision);
        return Err(CommitError::Conflict { run, expected, found: head.revision });
    }
    Ok(())
}

/// Fails if the engine was replaced. Checked before conflicts: such an engine must stop, not read again.
pub(in crate::nats) fn check_epoch(commit: &Commit, head: &Head) -> Result<(), CommitError> {
    match commit.epoch {
        Some(held) if head.epoch > held => Err(CommitError::Fenced { held, by: head.epoch }),
        Some(_) | None => Ok(()),
    }
}

impl Record {
    /// Returns the position of the run after this message.
    pub(in crate::nats) fn position(&self) -> Position {
        Position { revision: self.head.revision, token: self.head.token() }
    }
}
