//! One change of a run whose document is kept in a bucket: an entry there, by compare-and-set, and a copy of what it
//! changed on the run's subject.
//!
//! The entry is the commit. The copy is made before the commit is acknowledged, so that the journal has all that anybody
//! acts on; should we die in between, whoever looks next makes it.

use bytes::Bytes;
use protocol::RunId;
use serde_json::{Map, Value};

use super::channel::{Found, Overtaken};
use super::commit::{Draft, LARGEST_HERE, Manner, check_epoch};
use super::entry::{self, Read};
use super::fault::Fault;
use super::look::{Look, Place, copied};
use super::message::Going;
use super::server::Server;
use super::spill::{LARGE, LARGE_TOGETHER, spill};
use super::wire::json;
use crate::commit::{Commit, Position, WriteId};
use crate::error::{CommitError, Unavailable};

impl Server {
    /// Tries until there is an answer. `unheard` is the sequence of the place after which an attempt without one may yet land, or
    /// has landed and waits for its copy.
    pub(super) async fn enter_until_heard(
        &self,
        commit: Commit,
        manner: &Manner,
        unheard: &mut Option<u64>,
    ) -> Result<Position, CommitError> {
        let (mut outage, mut race) = (None, self.journal.race("commit to"));
        let mut refused: Option<(u64, _)> = None;
        loop {
            let look = self.look(&commit.run).await?;
            let place = match &look.place {
                Some(place) if look.head().exists() => place,
                // It is about to be kept for the first time: the journal must know that there is a bucket.
                Some(place) => {
                    self.bucket_to_keep().await?;
                    place
                }
                None if look.head().exists() => return Err(conflict(&commit, &look)),
                None => {
                    self.bucket_to_keep().await?;
                    continue;
                }
            };
            let (channel, after) = (&place.bucket.channel, place.last);
            let outage = outage.get_or_insert_with(|| channel.writing("commit to"));
            if unheard.is_some_and(|unheard| unheard != after) {
                if let Some(position) = self.landed_entry(&commit.run, commit.write_id).await? {
                    channel.took();
                    check_epoch(&commit, &look.head())?;
                    return Ok(position);
                }
                *unheard = None;
            }
            check(&commit, &look)?;
            if let Some((expected, source)) = refused.take() {
                // The run stands where it stood. If what we expected is still there the server is in trouble, nobody was
                // faster; else somebody has said again what was there.
                let budget = if expected == after { &mut *outage } else { &mut race };
                budget.bear(Fault::Passing(source)).await?;
            }
            let entering = self.compose_entry(&commit, manner, &look, place).await?;
            let fault = match channel.append_once(&place.subject, after, entering.payload.clone()).await {
                Ok(sequence) => {
                    *unheard = Some(after);
                    return self.acknowledge(&commit, place, entering, sequence).await;
                }
                Err(fault) => fault,
            };
            match fault {
                Fault::Sequence(source) => refused = Some((after, source)),
                fault => {
                    if matches!(fault, Fault::Unanswered(_)) {
                        *unheard = Some(after);
                    }
                    outage.bear(fault).await?;
                }
            }
        }
    }

    /// Copies the entry that has landed. An engine that was replaced meanwhile is told so: then the commit is true, and not
    /// for it to act on.
    async fn acknowledge(
        &self,
        commit: &Commit,
        place: &Place,
        entering: Entering,
        sequence: u64,
    ) -> Result<Position, CommitError> {
        let Entering { payload, mut draft } = entering;
        let run = &commit.run;
        let found = Found { sequence, payload, headers: async_nats::HeaderMap::new() };
        let Read::Ours(entry) = self.read_entry(run, &found)? else {
            unreachable!("BUG: what we write is ours");
        };
        let bucket = &place.bucket.name;
        match self.copy(run, &draft.seen, &entry, bucket).await? {
            Ok(copy) => {
                draft.head = copied(&draft.seen, &entry, bucket);
                Ok(self.remember_commit(run, draft, copy))
            }
            Err(Overtaken) => {
                let look = self.look(run).await?;
                check_epoch(commit, &look.head())?;
                let landed = self.landed_entry(run, commit.write_id).await?;
                // Others may have written more entries over it than the bucket keeps, before anybody could copy it.
                landed.ok_or_else(|| conflict(commit, &look))
            }
        }
    }

    /// Where a write is, now that all entries have their copies.
    async fn landed_entry(&self, run: &RunId, write_id: WriteId) -> Result<Option<Position>, Unavailable> {
        self.settle_by_reading(run, write_id).await.map_err(|error| self.unreadable(error))
    }

    async fn compose_entry(
        &self,
        commit: &Commit,
        manner: &Manner,
        look: &Look,
        place: &Place,
    ) -> Result<Entering, CommitError> {
        let mut seen = look.seen();
        let known = self.known.take(&commit.run, seen.head.token());
        seen.fold = known.filter(|known| known.sequence == seen.sequence).and_then(|known| known.fold);
        let draft = self.draft(commit, manner, seen).await?;
        let mut document = self.shown(commit, look, place).await?;
        let mut committing = draft.committing(commit);
        // The journal has to take its copy, too, with the head of the run.
        if json(&draft.delta).len() > LARGEST_HERE.min(self.largest / 2) {
            committing.delta = Going::Blob(self.put_blob(&json(&draft.delta)).await?);
        }
        let mut payload = entry::encode(&commit.run, &document, &draft.head, &committing);
        let limit = place.bucket.largest;
        if payload.len() > limit && matches!(committing.delta, Going::Workspace(_)) {
            committing.delta = Going::Blob(self.put_blob(&json(&draft.delta)).await?);
            payload = entry::encode(&commit.run, &document, &draft.head, &committing);
        }
        for longer in LARGE_TOGETHER {
            if payload.len() > limit {
                self.spill(&mut document, longer).await?;
                payload = entry::encode(&commit.run, &document, &draft.head, &committing);
            }
        }
        match payload.len() {
            size if size > limit => Err(CommitError::TooLarge { size, limit }),
            _ => Ok(Entering { payload, draft }),
        }
    }

    /// The document as it shall stand in the bucket. What is large goes into blobs first.
    async fn shown(
        &self,
        commit: &Commit,
        look: &Look,
        place: &Place,
    ) -> Result<Map<String, Value>, CommitError> {
        let Some(document) = &commit.document else {
            // It stays as it is; if that is not there to be seen, its writer has to say what it is.
            return place.shown.clone().ok_or_else(|| conflict(commit, look));
        };
        let document = serde_json::from_str(document).expect("BUG: a document is an object as JSON text");
        let mut document = entry::shown(document);
        self.spill(&mut document, LARGE).await?;
        Ok(document)
    }

    async fn spill(&self, document: &mut Map<String, Value>, longer: usize) -> Result<(), Unavailable> {
        for blob in spill(document, longer) {
            self.put_blob(&blob).await?;
        }
        Ok(())
    }
}

/// An entry, and what the run will be like once it has landed.
struct Entering {
    payload: Bytes,
    draft: Draft,
}

fn check(commit: &Commit, look: &Look) -> Result<(), CommitError> {
    check_epoch(commit, &look.head())?;
    if look.position() == commit.expected { Ok(()) } else { Err(conflict(commit, look)) }
}

fn conflict(commit: &Commit, look: &Look) -> CommitError {
    let (run, expected) = (commit.run.clone(), commit.expected.revision);
    CommitError::Conflict { run, expected, found: look.head().revision }
}
