//! A bucket that other programs have made, as it is: to be read from, and to be tidied. Nothing of ours need be on its
//! servers, and nothing is put there.

use std::sync::Arc;

use async_nats::header::{HeaderMap, HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::{Map, Value};

use super::channel::{Channel, Which};
use super::connect::connect;
use super::entry::PART;
use super::fault::Fault;
use super::outage::{Outages, Tell};
use super::settings::NatsSettings;
use super::spill::taken_out;
use super::streams::{BLOB_STREAM, find_stream};
use super::wire::json;
use crate::error::{ReadError, Unavailable};

/// A bucket on servers that may have nothing else of ours.
#[derive(Debug)]
pub struct LiveBucket {
    name: String,
    channel: Channel,
    /// Where large pieces of our own documents are, if there are any.
    blobs: Option<Channel>,
}

/// The newest entry of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEntry {
    pub key: String,
    /// By which a change of it is noticed.
    pub revision: u64,
    pub value: Vec<u8>,
}

/// How many questions are under way at once.
const AT_ONCE: usize = 32;

impl LiveBucket {
    /// Looks for the bucket that the settings name; `None` if there is none.
    pub async fn find(settings: &NatsSettings, tell: Tell) -> Result<Option<Self>, Unavailable> {
        let server = settings.server();
        let (_client, context) = connect(settings, tell).await?;
        let stream_name = format!("KV_{}", settings.bucket);
        let (patience, outages) = (settings.patience, Outages::new(settings, tell));
        let found = find_stream(&context, &outages, &stream_name, "look for a bucket at").await?;
        let Some(stream) = found else { return Ok(None) };
        let blobs = find_stream(&context, &outages, BLOB_STREAM, "look for blobs at").await?;
        let channel = |stream, name| {
            let (server, context, outages) = (server.clone(), context.clone(), Arc::clone(&outages));
            Channel { server, context, stream, name, patience, outages, same: None }
        };
        let blobs = blobs.map(|stream| channel(stream, BLOB_STREAM.to_owned()));
        Ok(Some(Self { name: settings.bucket.clone(), channel: channel(stream, stream_name), blobs }))
    }

    fn subject(&self, key: &str) -> String {
        format!("$KV.{}.{key}", self.name)
    }

    /// The newest entry of every key, in the order of keys. What was deleted has none.
    pub async fn entries(&self) -> Result<Vec<LiveEntry>, Unavailable> {
        let subjects = self.channel.subjects(&self.subject(">")).await?;
        let before = self.subject("");
        let questions =
            subjects.iter().filter_map(|subject| subject.strip_prefix(&before)).map(async |key| {
                let found = self.channel.find(&self.subject(key), Which::Last).await?;
                // Whoever deletes a key leaves an entry without a value.
                let found = found.filter(|found| !found.payload.is_empty());
                Ok::<_, Unavailable>(found.map(|found| LiveEntry {
                    key: key.to_owned(),
                    revision: found.sequence,
                    value: found.payload.to_vec(),
                }))
            });
        let entries = futures_util::stream::iter(questions).buffer_unordered(AT_ONCE);
        let mut entries: Vec<_> = entries.try_filter_map(async |entry| Ok(entry)).try_collect().await?;
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(entries)
    }

    /// An entry of ours with its large pieces in their places again, as far as they are there; any other as it is.
    pub async fn whole(&self, entry: &LiveEntry) -> Result<LiveEntry, Unavailable> {
        let Some(blobs) = &self.blobs else { return Ok(entry.clone()) };
        let Ok(mut document) = serde_json::from_slice::<Map<String, Value>>(&entry.value) else {
            return Ok(entry.clone());
        };
        if !document.contains_key(PART) {
            return Ok(entry.clone());
        }
        for (place, digest) in taken_out(&mut document) {
            let blob = match blobs.blob(&digest).await {
                Ok(blob) => blob,
                Err(ReadError::DamagedBlob { .. }) => None,
                Err(ReadError::Unavailable(unavailable)) => return Err(unavailable),
            };
            if let Some(value) = blob.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                *place = value;
            }
        }
        Ok(LiveEntry { value: json(&document).into(), ..entry.clone() })
    }

    /// Deletes a key as the clients of NATS do: its history stays. Says whether it did: it does not if somebody has written
    /// since.
    pub async fn delete(&self, entry: &LiveEntry) -> Result<bool, Unavailable> {
        let subject = self.subject(&entry.key);
        let mut outage = self.channel.writing("delete a key at");
        loop {
            let mut headers = HeaderMap::new();
            headers.insert("KV-Operation", "DEL");
            headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(entry.revision));
            let publish = async {
                let sent = self.channel.context.publish_with_headers(subject.clone(), headers, Bytes::new());
                sent.await?.await
            };
            match publish.await {
                Ok(_) => {
                    self.channel.took();
                    return Ok(true);
                }
                Err(error) => {
                    let fault = Fault::of_write(error, &self.channel.name);
                    let last = self.channel.find(&subject, Which::Last).await?;
                    match last {
                        // It landed, and nobody heard.
                        Some(last) if last.payload.is_empty() => return Ok(true),
                        Some(last) if last.sequence != entry.revision => return Ok(false),
                        _ => outage.bear(fault).await?,
                    }
                }
            }
        }
    }
}
