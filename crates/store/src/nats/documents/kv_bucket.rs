//! A bucket that other programs have made, as it is: to be read from, and to be tidied. Nothing of ours need be on its
//! servers, and nothing is put there.

use std::sync::Arc;

use async_nats::header::{HeaderMap, HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Map, Value};

use super::entry::ENGINE_PART;
use super::large_values::blob_references;
use crate::error::{ReadError, Unavailable};
use crate::nats::connection::{
    BLOB_STREAM, Lookup, NatsSettings, Notify, OutageTracker, RequestFailure, StreamHandle, connect,
    find_stream,
};
use crate::nats::journal::json;

/// A bucket on servers that may have nothing else of ours.
#[derive(Debug)]
pub struct KvBucket {
    name: String,
    handle: StreamHandle,
    /// Where large pieces of our own documents are, if there are any.
    blobs: Option<StreamHandle>,
}

/// The newest entry of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    pub key: String,
    /// By which a change of it is noticed.
    pub revision: u64,
    pub value: Vec<u8>,
}

/// How many questions are under way at once.
const CONCURRENCY: usize = 32;

impl KvBucket {
    /// Looks for the bucket that the settings name; `None` if there is none.
    pub async fn find(settings: &NatsSettings, notify: Notify) -> Result<Option<Self>, Unavailable> {
        let server = settings.server();
        let (_client, context) = connect(settings, notify).await?;
        let stream_name = format!("KV_{}", settings.bucket);
        let (timeouts, outages) = (settings.timeouts, OutageTracker::new(settings, notify));
        let found = find_stream(&context, &outages, &stream_name, "look for a bucket at").await?;
        let Some(stream) = found else { return Ok(None) };
        let blobs = find_stream(&context, &outages, BLOB_STREAM, "look for blobs at").await?;
        let handle = |stream, name| {
            let (server, context, outages) = (server.clone(), context.clone(), Arc::clone(&outages));
            StreamHandle { server, context, stream, name, timeouts, outages, identity: None }
        };
        let blobs = blobs.map(|stream| handle(stream, BLOB_STREAM.to_owned()));
        Ok(Some(Self { name: settings.bucket.clone(), handle: handle(stream, stream_name), blobs }))
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.name)
    }

    /// The newest entry of every key, in the order of keys. What was deleted has none.
    pub async fn entries(&self) -> Result<Vec<KvEntry>, Unavailable> {
        let subjects = self.handle.subjects(&self.subject(">")).await?;
        let before = self.subject("");
        let questions =
            subjects.iter().filter_map(|subject| subject.strip_prefix(&before)).map(async |key| {
                let found = self.handle.find(&self.subject(key), Lookup::Last).await?;
                // Whoever deletes a key leaves an entry without a value.
                let found = found.filter(|found| !found.payload.is_empty());
                Ok::<_, Unavailable>(found.map(|found| KvEntry {
                    key: key.to_owned(),
                    revision: found.sequence,
                    value: found.payload.to_vec(),
                }))
            });
        let entries = futures_util::stream::iter(questions).buffer_unordered(CONCURRENCY);
        let mut entries: Vec<_> = entries.try_filter_map(async |entry| Ok(entry)).try_collect().await?;
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(entries)
    }

    /// An entry of ours with its large pieces in their places again, as far as they are there; any other as it is.
    pub async fn inline_blobs(&self, entry: &KvEntry) -> Result<KvEntry, Unavailable> {
        let Some(blobs) = &self.blobs else { return Ok(entry.clone()) };
        let Ok(mut document) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else {
            return Ok(entry.clone());
        };
        if !document.contains_key(ENGINE_PART) {
            return Ok(entry.clone());
        }
        for (slot, digest) in blob_references(&mut document) {
            let blob = match blobs.blob(&digest).await {
                Ok(blob) => blob,
                Err(ReadError::DamagedBlob { .. }) => None,
                Err(ReadError::Unavailable(unavailable)) => return Err(unavailable),
            };
            if let Some(value) = blob.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                *slot = value;
            }
        }
        Ok(KvEntry { value: json(&document).into(), ..entry.clone() })
    }

    /// Deletes a key as the clients of NATS do: its history stays. Says whether it did: it does not if somebody has written
    /// since.
    pub async fn delete(&self, entry: &KvEntry) -> Result<bool, Unavailable> {
        let subject = self.subject(&entry.key);
        let mut outage = self.handle.write_backoff("delete a key at");
        loop {
            let mut headers = HeaderMap::new();
            headers.insert("KV-Operation", "DEL");
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(entry.revision));
            let publish = async {
                let sent = self.handle.context.publish_with_headers(subject.clone(), headers, Bytes::new());
                sent.await?.await
            };
            match publish.await {
                Ok(_) => {
                    self.handle.record_write();
                    return Ok(true);
                }
                Err(error) => {
                    let failure = RequestFailure::from_publish(error, &self.handle.name);
                    let last = self.handle.find(&subject, Lookup::Last).await?;
                    match last {
                        // It landed, and nobody heard.
                        Some(last) if last.payload.is_empty() => return Ok(true),
                        Some(last) if last.sequence != entry.revision => return Ok(false),
                        _ => outage.wait(failure).await?,
                    }
                }
            }
        }
    }
}
