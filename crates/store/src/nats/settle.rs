//! Whether a write landed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use protocol::RunId;

use async_nats::HeaderMap;
use bytes::Bytes;

use super::channel::Which;
use super::entry::{deletion, is_deleted};
use super::fault::Fault;
use super::journal::subject;
use super::known::{Seen, Unsettled};
use super::look::Place;
use super::message::Content;
use super::server::Server;
use super::spill::blob_note;
use super::wire::{encode, json};
use crate::Digest;
use crate::commit::{Position, WriteId};
use crate::error::ReadError;

/// The write ids of runs, as far as somebody asked: who asks twice reads the journal once.
#[derive(Debug, Default)]
pub(super) struct Writes(Mutex<HashMap<RunId, Read>>);

/// The write ids up to a sequence.
#[derive(Debug, Default)]
struct Read {
    up_to: u64,
    positions: HashMap<WriteId, Position>,
}

impl Server {
    pub(super) async fn settle(&self, run: &RunId, write_id: WriteId) -> Result<Option<Position>, ReadError> {
        match self.known.unsettled(write_id) {
            Some(Unsettled::Journal(after)) => self.settle_ours(run, write_id, after).await,
            Some(Unsettled::Bucket(after)) => self.settle_entry(run, write_id, after).await,
            None => self.settle_by_reading(run, write_id).await,
        }
    }

    /// A write of ours that nobody answered can land as long as nothing else comes after the sequence it was made for:
    /// so we put something there, and then it is certain.
    async fn settle_ours(
        &self,
        run: &RunId,
        write_id: WriteId,
        after: u64,
    ) -> Result<Option<Position>, ReadError> {
        let mut outage = self.journal.writing("settle a write at");
        loop {
            let seen = Seen::of(self.last(run).await?.as_ref());
            if seen.sequence != after {
                let landed = self.landed(run, write_id, after).await?;
                self.known.is_settled(write_id);
                return Ok(landed);
            }
            let fence = encode(&seen.head, &Content::Fence { against: write_id });
            match self.journal.append_once(&subject(run), after, fence).await {
                // The next round finds it in the way.
                Ok(_) => {}
                Err(fault) => outage.bear(fault).await?,
            }
        }
    }

    /// The same for an entry of a bucket. What stands in its place is put there once more: that says nothing new, and is in
    /// the way. Where nothing stands, the entry of a deleted key says that.
    async fn settle_entry(
        &self,
        run: &RunId,
        write_id: WriteId,
        after: u64,
    ) -> Result<Option<Position>, ReadError> {
        let (mut outage, mut race) = (None, self.journal.race("settle a write at"));
        loop {
            let look = self.look(run).await?;
            let place = look.place.filter(|place| place.last == after);
            let Some(place) = place else {
                let landed = self.settle_by_reading(run, write_id).await?;
                self.known.is_settled(write_id);
                return Ok(landed);
            };
            let Place { bucket, subject, foreign, .. } = *place;
            let outage = outage.get_or_insert_with(|| bucket.channel.writing("settle a write at"));
            let (payload, headers) = match bucket.channel.find(&subject, Which::Last).await? {
                Some(found) if found.sequence == after => {
                    (found.payload, if is_deleted(&found.headers) { deletion() } else { HeaderMap::new() })
                }
                None if after == 0 => (Bytes::new(), deletion()),
                Some(_) | None => {
                    race.bear(Fault::passing("somebody is just writing there")).await?;
                    continue;
                }
            };
            let payload = match foreign {
                // Ours are smaller. With our headers it would not fit: it is kept, and its name put in its place.
                Some(foreign) if payload.len() > bucket.largest => {
                    self.set_aside(run, &foreign).await?;
                    json(&blob_note(&Digest::of(&payload), payload.len()))
                }
                Some(_) | None => payload,
            };
            match bucket.channel.append_with(&subject, after, payload, headers).await {
                // The next round finds it in the way.
                Ok(_) => {}
                Err(fault) => outage.bear(fault).await?,
            }
        }
    }

    pub(super) async fn settle_by_reading(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        let Some(newest) = self.newest(run).await? else { return Ok(None) };
        let mut read = self.writes.lock().remove(run).unwrap_or_default();
        for record in self.records(run, read.up_to + 1, newest.sequence).await? {
            read.up_to = record.sequence;
            if let Some(committed) = record.committed() {
                read.positions.insert(committed.write_id, record.position());
            }
        }
        let position = read.positions.get(&write_id).copied();
        self.writes.lock().insert(run.clone(), read);
        Ok(position)
    }
}

impl Writes {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RunId, Read>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
