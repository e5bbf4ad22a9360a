//! One change of one run: a message on its subject, by compare-and-set.

use jiff::Timestamp;
use protocol::RunId;

use super::fault::Fault;
use super::known::Seen;
use super::message::{Committing, Delta, Going, Head, Record, encode_commit, json, seal};
use super::server::Server;
use crate::commit::{Commit, Position, Token, WriteId};
use crate::error::{CommitError, ReadError, Unavailable};
use crate::nats::journal::subject;

/// The delta of a larger message goes into a blob, so that the journal stays quick to read.
const LARGEST_HERE: usize = 100 * 1024;

impl Server {
    pub(super) async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        self.commit_so(commit, &Manner::default()).await
    }

    pub(super) async fn commit_so(&self, commit: Commit, manner: &Manner) -> Result<Position, CommitError> {
        let write_id = commit.write_id;
        let mut unheard = None;
        match self.commit_until_heard(commit, manner, &mut unheard).await {
            // Something of ours may still be on its way, whatever went wrong since.
            Err(CommitError::Unavailable(trouble)) if let Some(after) = unheard => {
                self.known.is_unsettled(write_id, after);
                Err(CommitError::Unknown { write_id, source: trouble.into() })
            }
            outcome => outcome,
        }
    }

    /// Tries until there is an answer. `unheard` is the sequence after which a try without one may yet land: a second
    /// try after the same sequence cannot double it.
    async fn commit_until_heard(
        &self,
        commit: Commit,
        manner: &Manner,
        unheard: &mut Option<u64>,
    ) -> Result<Position, CommitError> {
        let subject = subject(&commit.run);
        let mut known = self.known.take(&commit.run, commit.expected.token);
        let (mut outage, mut race) = (self.journal.outage("commit to"), self.journal.race("commit to"));
        loop {
            let seen = match known.take() {
                Some(seen) => seen,
                None => Seen::of(self.last(&commit.run).await?.as_ref()),
            };
            if let Some(after) = *unheard
                && seen.sequence != after
            {
                if let Some(position) = self.landed(&commit.run, commit.write_id, after).await? {
                    return Ok(position);
                }
                *unheard = None;
            }
            check(&commit, &seen.head)?;
            let composed = self.compose(&commit, manner, seen).await?;
            let after = composed.seen.sequence;
            let fault = match self.journal.append_once(&subject, after, composed.payload.clone()).await {
                Ok(sequence) => return Ok(self.remember(&commit.run, composed, sequence)),
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

    /// Builds the message that shall follow what was seen.
    async fn compose(
        &self,
        commit: &Commit,
        manner: &Manner,
        mut seen: Seen,
    ) -> Result<Composed, CommitError> {
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
        let mut committing = Committing {
            write_id: commit.write_id,
            seal: seal(&commit.run, revision, commit.write_id, &delta.entry),
            checkpoint: delta.checkpoint.is_some(),
            delta: Going::Here(&delta),
        };
        let mut payload = encode_commit(&head, &committing, commit.size());
        if payload.len() > LARGEST_HERE.min(self.largest) {
            committing.delta = Going::Blob(self.put_blob(&json(&delta)).await?);
            payload = encode_commit(&head, &committing, commit.summary.len());
        }
        match payload.len() {
            size if size > self.largest => Err(CommitError::TooLarge { size, limit: self.largest }),
            _ => Ok(Composed { payload, seen, head, delta }),
        }
    }

    /// A commit with a checkpoint must know what came before it.
    fn unreadable(&self, error: ReadError) -> Unavailable {
        match error {
            ReadError::Unavailable(unavailable) => unavailable,
            ReadError::DamagedBlob { .. } => {
                let server = self.journal.server.clone();
                Unavailable::Server { server, doing: "read the past of the run from", source: error.into() }
            }
        }
    }

    /// Remembers the run as it is after our commit.
    fn remember(&self, run: &RunId, composed: Composed, sequence: u64) -> Position {
        let Composed { seen, mut head, delta, .. } = composed;
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
    seen: Seen,
    head: Head,
    delta: Delta,
}

fn check(commit: &Commit, head: &Head) -> Result<(), CommitError> {
    // Deposed before conflict: an engine that was replaced must stop, not read again.
    if let Some(held) = commit.epoch
        && head.epoch > held
    {
        return Err(CommitError::Deposed { held, by: head.epoch });
    }
    if head.token() != commit.expected.token {
        let (run, expected) = (commit.run.clone(), commit.expected.revision);
        return Err(CommitError::Conflict { run, expected, found: head.revision });
    }
    Ok(())
}

impl Record {
    /// Where the run stands after it.
    pub(super) fn position(&self) -> Position {
        Position { revision: self.head.revision, token: Token(self.head.commit) }
    }
}
