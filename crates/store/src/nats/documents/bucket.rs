//! The KV bucket of documents, which any NATS client can read.
//!
//! It is created with the first document. A marker in the journal records that, so that a deleted bucket is not created
//! again as if it had been empty. The marker is a message and not stream metadata, because a server that is killed
//! while it updates the configuration of a stream loses the stream.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::stream::{self, Stream};
use protocol::RunId;

use crate::error::Unavailable;
use crate::nats::connection::{
    Lookup, NatsNotice, Session, StreamHandle, StreamSetup, durable_config, max_payload,
};
use crate::nats::health::NatsWarning;
use crate::nats::journal::{RUN_SUBJECT_PREFIX, is_unreadable};

/// How many entries of a key the bucket keeps. The journal keeps a copy of every commit.
const HISTORY: i64 = 50;

/// Prefix of the keys that keep entries of other clients which Callboard replaced.
pub(super) const RECOVERY_PREFIX: &str = "recovery.";

/// The stream of a bucket.
pub(super) fn stream_name(bucket: &str) -> String {
    format!("KV_{bucket}")
}

/// Returns the key of a run's document, or `None` if its name is not a valid key. Such a run is stored in the journal
/// only.
pub(in crate::nats) fn document_key(run: &RunId) -> Option<&str> {
    let name = run.as_str();
    let is_key = name.split('.').all(|token| !token.is_empty()) && !name.starts_with(RECOVERY_PREFIX);
    is_key.then_some(name)
}

/// The subject of a key.
pub(in crate::nats) fn key_subject(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// The buckets that this process has opened.
#[derive(Debug, Default)]
pub(in crate::nats) struct Buckets(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone)]
pub(in crate::nats) struct Bucket {
    pub(in crate::nats) name: String,
    pub(in crate::nats) handle: StreamHandle,
    /// The largest payload of an entry.
    pub(in crate::nats) max_payload: usize,
    /// Whether the journal has its marker.
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

    /// Returns a bucket, if it exists.
    pub(in crate::nats) async fn bucket(&self, name: &str) -> Result<Option<Bucket>, Unavailable> {
        let cached = self.buckets.get(name);
        if cached.is_some() {
            return Ok(cached);
        }
        let setup = self.setup();
        let stream = setup.find(&stream_name(name)).await?;
        Ok(stream.map(|stream| self.cache_bucket(&setup, name, stream, false)))
    }

    /// Returns a bucket that holds a document. Fails if it was deleted.
    pub(in crate::nats) async fn existing_bucket(&self, name: &str) -> Result<Bucket, Unavailable> {
        self.bucket(name).await?.ok_or_else(|| self.setup().stream_deleted(&stream_name(name)))
    }

    /// Returns the bucket for new documents. Creates it once; fails if it was deleted.
    pub(super) async fn bucket_for_writing(&self) -> Result<Bucket, Unavailable> {
        let name = &self.settings.bucket;
        if let Some(cached) = self.buckets.get(name).filter(|bucket| bucket.is_marked) {
            return Ok(cached);
        }
        let setup = self.setup();
        let was_created_before = was_created(&self.journal, name).await?;
        let stream = match setup.find(&stream_name(name)).await? {
            Some(stream) => stream,
            None if was_created_before => return Err(setup.stream_deleted(&stream_name(name))),
            None => self.create_bucket(&setup, bucket_config(name)).await?,
        };
        if !was_created_before {
            // A conflict means that another process wrote the marker.
            let _conflict_is_fine = self.journal.append(&marker_subject(name), 0, MARKER.into()).await?;
        }
        Ok(self.cache_bucket(&setup, name, stream, true))
    }

    /// Creates deleted buckets again and returns their names. Their sequences continue after every sequence the journal knows,
    /// so that tokens stay unique.
    pub(in crate::nats) async fn rebuild_buckets(&self) -> Result<Vec<String>, Unavailable> {
        let setup = self.setup();
        let (mut rebuilt, mut highest) = (Vec::new(), None);
        for subject in self.journal.subjects(&format!("{RUN_SUBJECT_PREFIX}*")).await? {
            let Some(name) = subject.strip_prefix(MARKER_PREFIX) else { continue };
            if setup.find(&stream_name(name)).await?.is_some() {
                continue;
            }
            let highest = match highest {
                Some(highest) => highest,
                None => *highest.insert(self.highest_sequence().await?),
            };
            let config = stream::Config { first_sequence: Some(highest + 1), ..bucket_config(name) };
            let stream = self.create_bucket(&setup, config).await?;
            self.cache_bucket(&setup, name, stream, true);
            rebuilt.push(name.to_owned());
        }
        Ok(rebuilt)
    }

    /// Creates a bucket. Warns if it has fewer replicas than the journal; the journal's own warning was given before.
    async fn create_bucket(
        &self,
        setup: &StreamSetup<'_>,
        config: stream::Config,
    ) -> Result<Stream, Unavailable> {
        let bucket = setup.create(config).await?;
        let (created, stream) = (&bucket.cached_info().config, bucket.cached_info().config.name.clone());
        let (wanted, found) = (self.settings.replicas, created.num_replicas);
        if found < wanted && found < self.journal.stream.cached_info().config.num_replicas {
            let warning =
                NatsWarning::FewerReplicas { stream, wanted, found, single_server: !self.clustered };
            self.journal.outages.notify(&NatsNotice::Warning(warning));
        }
        Ok(bucket)
    }

    /// The highest sequence of an entry that the journal refers to.
    async fn highest_sequence(&self) -> Result<u64, Unavailable> {
        let mut highest = 0;
        for run in self.run_names().await? {
            let document_entry = match self.last_journal_record(&run).await {
                Ok(last) => last.and_then(|record| record.head.document_entry),
                Err(error) if is_unreadable(&error) => None,
                Err(error) => return Err(error),
            };
            highest = highest.max(document_entry.map_or(0, |document_entry| document_entry.sequence));
        }
        Ok(highest)
    }

    fn cache_bucket(&self, setup: &StreamSetup<'_>, name: &str, stream: Stream, is_marked: bool) -> Bucket {
        let (name, max_payload) = (name.to_owned(), max_payload(&stream, self.server_max_payload));
        let bucket = Bucket { name, handle: setup.handle(stream), max_payload, is_marked };
        self.buckets.put(bucket.clone());
        bucket
    }
}

impl StreamSetup<'_> {
    /// Adds warnings about the bucket, if there is or was one.
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

/// The marker of a bucket. The subject of a run has `=` only in an escape, so the two cannot collide.
const MARKER_PREFIX: &str = "callboard.run.=bucket-";
const MARKER: &str = "documents are kept in this bucket";

fn marker_subject(bucket: &str) -> String {
    format!("{MARKER_PREFIX}{bucket}")
}

/// Whether the bucket has ever been created, according to its marker.
async fn was_created(journal: &StreamHandle, bucket: &str) -> Result<bool, Unavailable> {
    Ok(journal.find(&marker_subject(bucket), Lookup::Last).await?.is_some())
}

/// The configuration that NATS clients use for a bucket.
fn bucket_config(bucket: &str) -> stream::Config {
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
    fn a_run_whose_name_is_not_a_valid_key_has_no_key() {
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
