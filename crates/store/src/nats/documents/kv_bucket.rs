//! A bucket that is opened without opening or creating a store. `import` reads the bucket of another program and deletes
//! keys from it. `recover` reads the documents of a store that has lost a stream.

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Map, Value};

use super::bucket::{key_subject, stream_name};
use super::entry::{ENGINE_PART, deletion_headers};
use super::large_values::blob_references;
use crate::error::{ReadError, Unavailable};
use crate::nats::connection::{BLOB_STREAM, Lookup, NatsSettings, NoticeHandler, StreamHandle, StreamSetup};
use crate::nats::journal::json;

/// A KV bucket on servers that need not have a store.
#[derive(Debug)]
pub struct KvBucket {
    name: String,
    handle: StreamHandle,
    /// The blobs of a store on the same servers, if there is one.
    blobs: Option<StreamHandle>,
}

/// The newest entry of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    pub key: String,
    /// The revision of the entry in the bucket, for compare-and-set. Not a revision of a run.
    pub revision: u64,
    pub value: Vec<u8>,
}

/// How many requests run concurrently.
const CONCURRENCY: usize = 32;

impl KvBucket {
    /// Finds the bucket of the settings. `None` if it does not exist.
    pub async fn find(settings: &NatsSettings, notify: NoticeHandler) -> Result<Option<Self>, Unavailable> {
        let (setup, _client) = StreamSetup::connect(settings, notify).await?;
        let Some(stream) = setup.find(&stream_name(&settings.bucket)).await? else { return Ok(None) };
        let blobs = setup.find(BLOB_STREAM).await?.map(|stream| setup.handle(stream));
        Ok(Some(Self { name: settings.bucket.clone(), handle: setup.handle(stream), blobs }))
    }

    fn subject(&self, key: &str) -> String {
        key_subject(&self.name, key)
    }

    /// Returns the newest entry of every key, sorted by key, without deleted keys.
    pub async fn entries(&self) -> Result<Vec<KvEntry>, Unavailable> {
        let subjects = self.handle.subjects(&self.subject(">")).await?;
        let prefix = self.subject("");
        let requests = subjects.iter().filter_map(|subject| subject.strip_prefix(&prefix)).map(async |key| {
            let found = self.handle.find(&self.subject(key), Lookup::Last).await?;
            // Deleting a key leaves an entry without a value.
            let found = found.filter(|found| !found.payload.is_empty());
            Ok::<_, Unavailable>(found.map(|found| KvEntry {
                key: key.to_owned(),
                revision: found.sequence,
                value: found.payload.to_vec(),
            }))
        });
        let entries = futures_util::stream::iter(requests).buffer_unordered(CONCURRENCY);
        let mut entries: Vec<_> = entries.try_filter_map(async |entry| Ok(entry)).try_collect().await?;
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(entries)
    }

    /// Returns an entry that Callboard wrote, with its large values in place of their references. The reference to a missing or
    /// damaged blob stays. An entry of another program is returned unchanged.
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

    /// Deletes a key as NATS clients do; its history stays. Returns false if another client has written to it since.
    pub async fn delete(&self, entry: &KvEntry) -> Result<bool, Unavailable> {
        let subject = self.subject(&entry.key);
        let mut outage = self.handle.write_backoff("delete a key at");
        loop {
            let deleted = self.handle.append_with(&subject, entry.revision, Bytes::new(), deletion_headers());
            let Err(failure) = deleted.await else { return Ok(true) };
            match self.handle.find(&subject, Lookup::Last).await? {
                // The deletion landed without an acknowledgement.
                Some(last) if last.payload.is_empty() => return Ok(true),
                Some(last) if last.sequence != entry.revision => return Ok(false),
                _ => outage.wait(failure).await?,
            }
        }
    }
}
