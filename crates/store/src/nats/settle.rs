//! Whether a write landed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use protocol::RunId;

use super::journal::subject;
use super::known::Seen;
use super::message::{Content, encode};
use super::server::Server;
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
            Some(after) => self.settle_ours(run, write_id, after).await,
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
        let mut outage = self.journal.outage("settle a write at");
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

    async fn settle_by_reading(&self, run: &RunId, write_id: WriteId) -> Result<Option<Position>, ReadError> {
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
