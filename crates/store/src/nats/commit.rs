//! One change of one run: a message on its subject, by compare-and-set.

use jiff::Timestamp;
use protocol::RunId;

use super::bucket::key_of;
use super::fault::Fault;
use super::known::{Seen, Unsettled};
use super::message::{Committing, Delta, Going, Head, Record, seal};
use super::server::Server;
use super::wire::{encode_commit, json};
use crate::commit::{Commit, Position, WriteId};
use crate::error::{CommitError, ReadError, Unavailable};
use crate::nats::journal::subject;

/// The delta of a larger message goes into a blob, so that the journal stays quick to read.
pub(super) const LARGEST_HERE: usize = 100 * 1024;

impl Server {
    pub(super) async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        self.commit_so(commit, &Manner::default()).await
    }

    pub(super) async fn commit_so(&self, commit: Commit, manner: &Manner) -> Result<Position, CommitError> {
        let write_id = commit.write_id;
        let is_entry = self.is_entry(&commit).await?;
        let mut unheard = None;
        let outcome = if is_entry {
            Box::pin(self.enter_until_heard(commit, manner, &mut unheard)).await
        } else {
            Box::pin(self.commit_until_heard(commit, manner, &mut unheard)).await
        };
        match outcome {
            // Something of ours may still be on its way, whatever went wrong since.
            Err(CommitError::Unavailable(trouble)) if let Some(after) = unheard => {
                let goes_to = if is_entry { Unsettled::Bucket(after) } else { Unsettled::Journal(after) };
                self.known.is_unsettled(write_id, goes_to);
                Err(CommitError::Unknown { write_id, source: trouble.into() })
            }
            outcome => outcome,
        }
    }

    /// Whether a commit is an entry of a bucket: so it is from the first one on, or never.
    async fn is_entry(&self, commit: &Commit) -> Result<bool, Unavailable> {
        if let Some(is_entry) = self.known.is_entered(&commit.run) {
            return Ok(is_entry);
        }
        let head = self.look(&commit.run).await?.head();
        let first = || commit.document.is_some() && key_of(&commit.run).is_some();
        Ok(if head.exists() { head.entered.is_some() } else { first() })
    }

    /// Tries until there is an answer. `unheard` is the sequence after which an attempt without one may yet land: a second
    /// try after the same sequence cannot double it.
    async fn commit_until_heard(
        &self,
        commit: Commit,
        manner: &Manner,
        unheard: &mut Option<u64>,
    ) -> Result<Position, CommitError> {
        let subject = subject(&commit.run);
        let mut known = self.known.take(&commit.run, commit.expected.token);
        let (mut outage, mut race) = (self.journal.writing("commit to"), self.journal.race("commit to"));
        loop {
            let seen = match known.take() {
                Some(seen) => seen,
                None => Seen::of(self.last(&commit.run).await?.as_ref()),
            };
            if let Some(after) = *unheard
                && seen.sequence != after
            {
                if let Some(position) = self.landed(&commit.run, commit.write_id, after).await? {
                    self.journal.took();
                    return Ok(position);
                }
                *unheard = None;
            }
            check(&commit, &seen.head)?;
            let composed = self.compose(&commit, manner, seen).await?;
            let after = composed.draft.seen.sequence;
            let fault = match self.journal.append_once(&subject, after, composed.payload.clone()).await {
                Ok(sequence) => return Ok(self.remember_commit(&commit.run, composed.draft, sequence)),
                Err(fault) => fault,
            };
            match fault {
                Fault::Sequence(source) => {
                    let seen = Seen::of(self.last(&commit.run).await?.as_ref());
                    if seen.sequence == after {
                        // Refused although what we expected is still there: the server is in trouble, nobody was faster.
                        outage.bear(Fault::Passing(source)).await?;
                    } else if seen.head.token() == commit.expected.token {
                        // The run stands where it stood; somebody became its engine, or marked its views.
                        race.bear(Fault::Passing(source)).await?;
                    }
                    known = Some(seen);
                }
                fault => {
                    if matches!(fault, Fault::Unanswered(_)) {
                        *unheard = Some(after);
                    }
                    outage.bear(fault).await?;
                }
            }
        }
    }

    /// Where a write is that was to come right after a sequence, now that something did.
    pub(super) async fn landed(
        &self,
        run: &RunId,
        write_id: WriteId,
        after: u64,
    ) -> Result<Option<Position>, Unavailable> {
        let next = self.from(run, after + 1).await?;
        Ok(next
            .filter(|record| record.committed().is_some_and(|c| c.write_id == write_id))
            .map(|r| r.position()))
    }

    /// Works out what shall follow what was seen.
    pub(super) async fn draft(
        &self,
        commit: &Commit,
        manner: &Manner,
        mut seen: Seen,
    ) -> Result<Draft, CommitError> {
        let mut delta = Delta::of(commit);
        if let Some(snapshot) = &commit.snapshot {
            let fold = match &seen.fold {
                Some(fold) => fold,
                None => {
                    let fold = self.fold(&commit.run, &seen).await.map_err(|error| self.unreadable(error))?;
                    seen.fold.insert(fold)
                }
            };
            delta.checkpoint = Some(fold.checkpoint(&delta, snapshot.clone()));
        }
        let revision = seen.head.revision.next();
        let head = Head {
            protocol: if seen.head.has_begun() {
                seen.head.protocol.clone()
            } else {
                commit.protocol.clone()
            },
            created: match manner.created {
                _ if seen.head.has_begun() => seen.head.created,
                Some(created) => created,
                None => Timestamp::now(),
            },
            revision,
            summary: commit.summary.clone(),
            arriving: manner.arriving,
            ..seen.head.clone()
        };
        Ok(Draft { seen, head, delta })
    }

    /// Builds the message that shall follow what was seen.
    async fn compose(&self, commit: &Commit, manner: &Manner, seen: Seen) -> Result<Composed, CommitError> {
        let draft = self.draft(commit, manner, seen).await?;
        let Draft { head, delta, .. } = &draft;
        let mut committing = draft.committing(commit);
        let mut payload = encode_commit(head, &committing, commit.size());
        if payload.len() > LARGEST_HERE.min(self.largest) {
            committing.delta = Going::Blob(self.put_blob(&json(delta)).await?);
            payload = encode_commit(head, &committing, commit.summary.len());
        }
        match payload.len() {
            size if size > self.largest => Err(CommitError::TooLarge { size, limit: self.largest }),
            _ => Ok(Composed { payload, draft }),
        }
    }

    /// A commit with a checkpoint must know what came before it.
    pub(super) fn unreadable(&self, error: ReadError) -> Unavailable {
        match error {
            ReadError::Unavailable(unavailable) => unavailable,
            ReadError::DamagedBlob { .. } => {
                let server = self.journal.server.clone();
                Unavailable::Server { server, doing: "read the past of the run from", source: error.into() }
            }
        }
    }

    /// Remembers the run as it is after our commit.
    pub(super) fn remember_commit(&self, run: &RunId, draft: Draft, sequence: u64) -> Position {
        let Draft { seen, mut head, delta } = draft;
        head.commit = sequence;
        if delta.checkpoint.is_some() {
            head.checkpoint = Some(sequence);
        }
        let fold = seen.fold.map(|mut fold| {
            fold.absorb(sequence, &delta);
            fold
        });
        let position = Position { revision: head.revision, token: head.token() };
        self.known.put(run, Seen { sequence, head, fold });
        position
    }
}

/// How a commit differs from one that is made as it happens.
#[derive(Debug, Default)]
pub(super) struct Manner {
    /// When the run was created, if not now.
    pub(super) created: Option<Timestamp>,
    /// More of the run follows, and it is no run before.
    pub(super) arriving: bool,
}

/// A message, and what the run will be like once it has landed.
struct Composed {
    payload: bytes::Bytes,
    draft: Draft,
}

/// A change that is not a message yet.
pub(super) struct Draft {
    pub(super) seen: Seen,
    pub(super) head: Head,
    pub(super) delta: Delta,
}

impl Draft {
    pub(super) fn committing(&self, commit: &Commit) -> Committing<'_> {
        let Self { head, delta, .. } = self;
        Committing {
            write_id: commit.write_id,
            seal: seal(&commit.run, head.revision, commit.write_id, &delta.entry),
            checkpoint: delta.checkpoint.is_some(),
            delta: Going::Workspace(delta),
        }
    }
}

fn check(commit: &Commit, head: &Head) -> Result<(), CommitError> {
    check_epoch(commit, head)?;
    if head.token() != commit.expected.token {
        let (run, expected) = (commit.run.clone(), commit.expected.revision);
        return Err(CommitError::Conflict { run, expected, found: head.revision });
    }
    Ok(())
}

/// Fenced before conflict: an engine that was replaced must stop, not read again.
pub(super) fn check_epoch(commit: &Commit, head: &Head) -> Result<(), CommitError> {
    match commit.epoch {
        Some(held) if head.epoch > held => Err(CommitError::Fenced { held, by: head.epoch }),
        Some(_) | None => Ok(()),
    }
}

impl Record {
    /// Where the run stands after it.
    pub(super) fn position(&self) -> Position {
        Position { revision: self.head.revision, token: self.head.token() }
    }
}
