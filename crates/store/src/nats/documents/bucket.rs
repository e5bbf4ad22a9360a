//! The bucket of documents: a key-value store of NATS, as its own tools make them, that any client can read.
//!
//! It is made when the first document is kept. The journal remembers that there was one, so that a bucket that was deleted
//! is missed, and not made again as if nothing had been in it. It does so by a message, not by a setting of its stream: a
//! server that is killed while it changes the settings of a stream begins without it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::stream::{self, Stream};
use protocol::RunId;

use crate::error::Unavailable;
use crate::nats::connection::{
    Lookup, NatsNotice, Session, StreamHandle, StreamSetup, durable_config, max_payload,
};
use crate::nats::health::NatsWarning;
use crate::nats::journal::{RUNS, is_unreadable};

/// How many entries of a document the bucket keeps. The journal has them all.
const HISTORY: i64 = 50;

/// What somebody else wrote is kept under keys that begin so.
pub(in crate::nats) const RECOVERY: &str = "recovery.";

/// The stream below a bucket.
pub(in crate::nats) fn stream_name(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// The key of a run's document; `None` if its name cannot be one. Such a run is kept in the journal alone.
pub(in crate::nats) fn document_key(run: &RunId) -> Option<&str> {
    let name = run.as_str();
    let is_key = name.split('.').all(|token| !token.is_empty()) && !name.starts_with(RECOVERY);
    is_key.then_some(name)
}

/// The subject of a key.
pub(in crate::nats) fn key_subject(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// Buckets that this process has found.
#[derive(Debug, Default)]
pub(in crate::nats) struct Buckets(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone)]
pub(in crate::nats) struct Bucket {
    pub(in crate::nats) name: String,
    pub(in crate::nats) handle: StreamHandle,
    /// The largest entry it takes.
    pub(in crate::nats) largest: usize,
    /// The journal knows of it.
    is_marked: bool,
}

impl Session {
    fn setup(&self) -> StreamSetup<'_> {
        let context = self.journal.context.clone();
        StreamSetup {
            settings: &self.settings,
            outages: Arc::clone(&self.journal.outages),
            context,
            clustered: self.clustered,
            warnings: Vec::new(),
            is_new: false,
            identity: self.journal.identity.clone(),
        }
    }

    /// The bucket of this name, if there is one.
    pub(in crate::nats) async fn bucket(&self, name: &str) -> Result<Option<Bucket>, Unavailable> {
        let known = self.buckets.get(name);
        if known.is_some() {
            return Ok(known);
        }
        let setup = self.setup();
        let stream = setup.find(&stream_name(name)).await?;
        Ok(stream.map(|stream| self.register_bucket(&setup, name, stream, false)))
    }

    /// The bucket of a document that was kept there.
    pub(in crate::nats) async fn existing_bucket(&self, name: &str) -> Result<Bucket, Unavailable> {
        self.bucket(name).await?.ok_or_else(|| self.setup().stream_deleted(&stream_name(name)))
    }

    /// The bucket that documents are kept in from now on. It is made if there never was one.
    pub(in crate::nats) async fn bucket_for_writing(&self) -> Result<Bucket, Unavailable> {
        let name = &self.settings.bucket;
        if let Some(known) = self.buckets.get(name).filter(|bucket| bucket.is_marked) {
            return Ok(known);
        }
        let setup = self.setup();
        let had_one = was_created(&self.journal, name).await?;
        let stream = match setup.find(&stream_name(name)).await? {
            Some(stream) => stream,
            None if had_one => return Err(setup.stream_deleted(&stream_name(name))),
            None => self.create_bucket(&setup, config(name)).await?,
        };
        if !had_one {
            // Whoever remembers it at the same time does it for us.
            let _by_whom = self.journal.append(&marker_subject(name), 0, MARKER.into()).await?;
        }
        Ok(self.register_bucket(&setup, name, stream, true))
    }

    /// Makes those buckets again that were deleted, with numbers that go on after all that were ever given. What was in them
    /// is for whoever can put documents together; until then each of their runs finds its own missing.
    pub(in crate::nats) async fn rebuild_buckets(&self) -> Result<Vec<String>, Unavailable> {
        let setup = self.setup();
        let (mut made, mut highest) = (Vec::new(), None);
        for subject in self.journal.subjects(&format!("{RUNS}*")).await? {
            let Some(name) = subject.strip_prefix(MARKER_PREFIX) else { continue };
            if setup.find(&stream_name(name)).await?.is_some() {
                continue;
            }
            let highest = match highest {
                Some(highest) => highest,
                None => *highest.insert(self.highest_sequence().await?),
            };
            let config = stream::Config { first_sequence: Some(highest + 1), ..config(name) };
            let stream = self.create_bucket(&setup, config).await?;
            self.register_bucket(&setup, name, stream, true);
            made.push(name.to_owned());
        }
        Ok(made)
    }

    /// Makes a bucket. If it is kept less often than the journal, people are told: of the journal they were told before.
    async fn create_bucket(
        &self,
        setup: &StreamSetup<'_>,
        config: stream::Config,
    ) -> Result<Stream, Unavailable> {
        let bucket = setup.create(config).await?;
        let (made, stream) = (&bucket.cached_info().config, bucket.cached_info().config.name.clone());
        let (wanted, found) = (self.settings.replicas, made.num_replicas);
        if found < wanted && found < self.journal.stream.cached_info().config.num_replicas {
            let note = NatsWarning::FewerReplicas { stream, wanted, found, single_server: !self.clustered };
            self.journal.outages.notify(&NatsNotice::Warning(note));
        }
        Ok(bucket)
    }

    /// The highest sequence of an entry that the journal knows of.
    async fn highest_sequence(&self) -> Result<u64, Unavailable> {
        let mut highest = 0;
        for run in self.run_names().await? {
            let document_entry = match self.last_record(&run).await {
                Ok(last) => last.and_then(|record| record.head.document_entry),
                Err(error) if is_unreadable(&error) => None,
                Err(error) => return Err(error),
            };
            highest = highest.max(document_entry.map_or(0, |document_entry| document_entry.sequence));
        }
        Ok(highest)
    }

    fn register_bucket(
        &self,
        setup: &StreamSetup<'_>,
        name: &str,
        stream: Stream,
        is_marked: bool,
    ) -> Bucket {
        let (name, largest) = (name.to_owned(), max_payload(&stream, self.server_max_payload));
        let bucket = Bucket { name, handle: setup.handle(stream), largest, is_marked };
        self.buckets.put(bucket.clone());
        bucket
    }
}

impl StreamSetup<'_> {
    /// Says what is not as it should be with the bucket, if there is or was one.
    pub(in crate::nats) async fn check_bucket(&mut self, journal: &Stream) -> Result<(), Unavailable> {
        let (name, stream) = (&self.settings.bucket, stream_name(&self.settings.bucket));
        match self.find(&stream).await? {
            Some(found) => {
                let config = &found.cached_info().config;
                self.check_config(config);
                if config.max_messages_per_subject != HISTORY {
                    let found = config.max_messages_per_subject.to_string();
                    self.warnings.push(NatsWarning::ConfigDiffers { stream, setting: "history", found });
                }
            }
            None if was_created(&self.handle(journal.clone()), name).await? => {
                self.warnings.push(NatsWarning::StreamDeleted { stream });
            }
            None => {}
        }
        Ok(())
    }
}

/// What the journal has where there is a bucket. A run's subject has an `=` only where something is escaped.
const MARKER_PREFIX: &str = "callboard.run.=bucket-";
const MARKER: &str = "documents are kept in this bucket";

fn marker_subject(bucket: &str) -> String {
    format!("{MARKER_PREFIX}{bucket}")
}

async fn was_created(journal: &StreamHandle, bucket: &str) -> Result<bool, Unavailable> {
    Ok(journal.find(&marker_subject(bucket), Lookup::Last).await?.is_some())
}

/// As the clients of NATS make a bucket.
fn config(bucket: &str) -> stream::Config {
    stream::Config {
        name: stream_name(bucket),
        subjects: vec![key_subject(bucket, ">")],
        max_messages_per_subject: HISTORY,
        allow_rollup: true,
        deny_delete: true,
        allow_direct: true,
        ..durable_config()
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
            assert_eq!(document_key(&RunId::new(name).unwrap()).is_some(), is_key, "{name}");
        }
    }
}
