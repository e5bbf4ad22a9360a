//! The bucket of documents: a key-value store of NATS, as its own tools make them, that any client can read.
//!
//! It is made when the first document is kept. The journal remembers that there was one, so that a bucket that was deleted
//! is missed, and not made again as if nothing had been in it. It does so by a message, not by a setting of its stream: a
//! server that is killed while it changes the settings of a stream begins without it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::stream::{self, Stream};
use protocol::RunId;

use super::channel::{Channel, Which};
use super::journal::{RUNS, is_not_understood};
use super::note::Note;
use super::outage::Waiting;
use super::server::Server;
use super::streams::{Opening, endless, largest};
use crate::error::Unavailable;

/// How many entries of a document the bucket keeps. The journal has them all.
const HISTORY: i64 = 50;

/// What somebody else wrote is kept under keys that begin so.
pub(super) const RECOVERY: &str = "recovery.";

/// The stream below a bucket.
pub(super) fn stream_of(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// The key of a run's document; `None` if its name cannot be one. Such a run is kept in the journal alone.
pub(super) fn key_of(run: &RunId) -> Option<&str> {
    let name = run.as_str();
    let is_key = name.split('.').all(|token| !token.is_empty()) && !name.starts_with(RECOVERY);
    is_key.then_some(name)
}

/// The subject of a key.
pub(super) fn subject_of(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// Buckets that this process has found.
#[derive(Debug, Default)]
pub(super) struct Buckets(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) channel: Channel,
    /// The largest entry it takes.
    pub(super) largest: usize,
    /// The journal knows of it.
    is_remembered: bool,
}

impl Server {
    fn opening(&self) -> Opening<'_> {
        let context = self.journal.context.clone();
        Opening {
            settings: &self.settings,
            outages: Arc::clone(&self.journal.outages),
            context,
            clustered: self.clustered,
            notes: Vec::new(),
            is_new: false,
            same: self.journal.same.clone(),
        }
    }

    /// The bucket of this name, if there is one.
    pub(super) async fn bucket(&self, name: &str) -> Result<Option<Bucket>, Unavailable> {
        let known = self.buckets.get(name);
        if known.is_some() {
            return Ok(known);
        }
        let opening = self.opening();
        let stream = opening.find(&stream_of(name)).await?;
        Ok(stream.map(|stream| self.keep(&opening, name, stream, false)))
    }

    /// The bucket of a document that was kept there.
    pub(super) async fn bucket_of(&self, name: &str) -> Result<Bucket, Unavailable> {
        self.bucket(name).await?.ok_or_else(|| self.opening().gone(&stream_of(name)))
    }

    /// The bucket that documents are kept in from now on. It is made if there never was one.
    pub(super) async fn bucket_to_keep(&self) -> Result<Bucket, Unavailable> {
        let name = &self.settings.bucket;
        if let Some(known) = self.buckets.get(name).filter(|bucket| bucket.is_remembered) {
            return Ok(known);
        }
        let opening = self.opening();
        let had_one = remembers(&self.journal, name).await?;
        let stream = match opening.find(&stream_of(name)).await? {
            Some(stream) => stream,
            None if had_one => return Err(opening.gone(&stream_of(name))),
            None => self.make(&opening, config(name)).await?,
        };
        if !had_one {
            // Whoever remembers it at the same time does it for us.
            let _by_whom = self.journal.append(&memory_of(name), 0, MEMORY.into()).await?;
        }
        Ok(self.keep(&opening, name, stream, true))
    }

    /// Makes those buckets again that were deleted, with numbers that go on after all that were ever given. What was in them
    /// is for whoever can put documents together; until then each of their runs finds its own missing.
    pub(super) async fn rebuild_buckets(&self) -> Result<Vec<String>, Unavailable> {
        let opening = self.opening();
        let (mut made, mut highest) = (Vec::new(), None);
        for subject in self.journal.subjects(&format!("{RUNS}*")).await? {
            let Some(name) = subject.strip_prefix(MEMORIES) else { continue };
            if opening.find(&stream_of(name)).await?.is_some() {
                continue;
            }
            let highest = match highest {
                Some(highest) => highest,
                None => *highest.insert(self.highest_entry().await?),
            };
            let config = stream::Config { first_sequence: Some(highest + 1), ..config(name) };
            let stream = self.make(&opening, config).await?;
            self.keep(&opening, name, stream, true);
            made.push(name.to_owned());
        }
        Ok(made)
    }

    /// Makes a bucket. If it is kept less often than the journal, people are told: of the journal they were told before.
    async fn make(&self, opening: &Opening<'_>, config: stream::Config) -> Result<Stream, Unavailable> {
        let bucket = opening.create(config).await?;
        let (made, stream) = (&bucket.cached_info().config, bucket.cached_info().config.name.clone());
        let (wanted, found) = (self.settings.replicas, made.num_replicas);
        if found < wanted && found < self.journal.stream.cached_info().config.num_replicas {
            let note = Note::FewerReplicas { stream, wanted, found, alone: !self.clustered };
            self.journal.outages.tell(&Waiting::Made(note));
        }
        Ok(bucket)
    }

    /// The highest sequence of an entry that the journal knows of.
    async fn highest_entry(&self) -> Result<u64, Unavailable> {
        let mut highest = 0;
        for run in self.names().await? {
            let entered = match self.last(&run).await {
                Ok(last) => last.and_then(|record| record.head.entered),
                Err(error) if is_not_understood(&error) => None,
                Err(error) => return Err(error),
            };
            highest = highest.max(entered.map_or(0, |entered| entered.sequence));
        }
        Ok(highest)
    }

    fn keep(&self, opening: &Opening<'_>, name: &str, stream: Stream, is_remembered: bool) -> Bucket {
        let (name, largest) = (name.to_owned(), largest(&stream, self.of_server));
        let bucket = Bucket { name, channel: opening.channel(stream), largest, is_remembered };
        self.buckets.put(bucket.clone());
        bucket
    }
}

impl Opening<'_> {
    /// Says what is not as it should be with the bucket, if there is or was one.
    pub(super) async fn look_at_bucket(&mut self, journal: &Stream) -> Result<(), Unavailable> {
        let (name, stream) = (&self.settings.bucket, stream_of(&self.settings.bucket));
        match self.find(&stream).await? {
            Some(found) => {
                let config = &found.cached_info().config;
                self.note(config);
                if config.max_messages_per_subject != HISTORY {
                    let found = config.max_messages_per_subject.to_string();
                    self.notes.push(Note::OtherSettings { stream, setting: "history", found });
                }
            }
            None if remembers(&self.channel(journal.clone()), name).await? => {
                self.notes.push(Note::Gone { stream });
            }
            None => {}
        }
        Ok(())
    }
}

/// What the journal has where there is a bucket. A run's subject has an `=` only where something is escaped.
const MEMORIES: &str = "callboard.run.=bucket-";
const MEMORY: &str = "documents are kept in this bucket";

fn memory_of(bucket: &str) -> String {
    format!("{MEMORIES}{bucket}")
}

async fn remembers(journal: &Channel, bucket: &str) -> Result<bool, Unavailable> {
    Ok(journal.find(&memory_of(bucket), Which::Last).await?.is_some())
}

/// As the clients of NATS make a bucket.
fn config(bucket: &str) -> stream::Config {
    stream::Config {
        name: stream_of(bucket),
        subjects: vec![subject_of(bucket, ">")],
        max_messages_per_subject: HISTORY,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..endless()
    }
}

impl Buckets {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, name: &str) -> Option<Bucket> {
        self.lock().get(name).cloned()
    }

    fn put(&self, bucket: Bucket) {
        self.lock().insert(bucket.name.clone(), bucket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_name_no_client_could_ask_for_has_no_key() {
        for (name, is_key) in [
            ("peer.spec.=E6=97=A5.cycle.1", true),
            ("a", true),
            ("a.", false),
            ("a..b", false),
            ("recovery.a.1", false),
            ("recovery", true),
        ] {
            assert_eq!(key_of(&RunId::new(name).unwrap()).is_some(), is_key, "{name}");
        }
    }
}
