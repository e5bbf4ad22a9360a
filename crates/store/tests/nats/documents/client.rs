//! Another NATS client, which knows nothing of Callboard.

use async_nats::jetstream::{self, stream::Stream};
use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use protocol::RunId;
use serde_json::Value;

use testkit::nats::Server;

pub(crate) const BUCKET: &str = "agent-os-peer-state";

pub(crate) struct Client {
    pub(crate) context: jetstream::Context,
}

impl Client {
    pub(crate) async fn of(server: &Server) -> Self {
        let client = async_nats::connect(server.address()).await.unwrap();
        Self { context: jetstream::new(client) }
    }

    pub(crate) async fn bucket(&self) -> Stream {
        self.context.get_stream(format!("KV_{BUCKET}")).await.unwrap()
    }

    /// Returns the newest value of a key and its sequence.
    pub(crate) async fn get(&self, key: &str) -> (u64, Bytes) {
        let subject = format!("$KV.{BUCKET}.{key}");
        let message = self.bucket().await.get_last_raw_message_by_subject(&subject).await.unwrap();
        (message.sequence, message.payload)
    }

    pub(crate) async fn get_json(&self, run: &RunId) -> (u64, Value) {
        let (sequence, bytes) = self.get(run.as_str()).await;
        (sequence, serde_json::from_slice(&bytes).unwrap())
    }

    /// Writes without compare-and-set.
    pub(crate) async fn put(&self, run: &RunId, bytes: impl Into<Bytes>) -> u64 {
        self.publish(run, bytes.into(), HeaderMap::new()).await
    }

    /// Writes if `sequence` is the newest.
    pub(crate) async fn update(&self, run: &RunId, bytes: impl Into<Bytes>, sequence: u64) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", HeaderValue::from(sequence));
        self.publish(run, bytes.into(), headers).await
    }

    pub(crate) async fn delete(&self, run: &RunId) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        self.publish(run, Bytes::new(), headers).await
    }

    async fn publish(&self, run: &RunId, bytes: Bytes, headers: HeaderMap) -> u64 {
        let subject = format!("$KV.{BUCKET}.{run}");
        let answer = self.context.publish_with_headers(subject, headers, bytes).await.unwrap();
        answer.await.unwrap().sequence
    }

    /// Returns how many messages the journal has of a run.
    pub(crate) async fn messages(&self, run: &RunId) -> usize {
        let journal = self.context.get_stream("callboard-journal").await.unwrap();
        let subject = format!("callboard.run.{}", run.as_str().replace('.', "=2E"));
        let subjects = journal.info_with_subjects(subject).await.unwrap();
        use futures_util::TryStreamExt as _;
        let counts: Vec<(String, usize)> = subjects.try_collect().await.unwrap();
        counts.iter().map(|(_, count)| count).sum()
    }
}
