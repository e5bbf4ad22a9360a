//! Another client of the bucket. It reads and writes the KV entry of one peer cycle: its document, with the engine's
//! part in the member `callboard`.

use async_nats::jetstream::{self, stream::Stream};
use async_nats::{HeaderMap, HeaderValue};
use protocol::RunId;
use serde_json::Value;

use testkit::nats::Server;

pub(crate) const BUCKET: &str = "agent-os-peer-state";

pub(crate) struct Client {
    context: jetstream::Context,
    key: String,
}

impl Client {
    pub(crate) async fn of(server: &Server, run: &RunId) -> Self {
        Self::at(&server.address(), run).await
    }

    pub(crate) async fn at(address: &str, run: &RunId) -> Self {
        let client = async_nats::connect(address).await.unwrap();
        Self { context: jetstream::new(client), key: run.to_string() }
    }

    pub(crate) async fn stream(&self) -> Stream {
        self.context.get_stream(format!("KV_{BUCKET}")).await.unwrap()
    }

    pub(crate) async fn delete_bucket(&self) {
        self.context.delete_stream(format!("KV_{BUCKET}")).await.unwrap();
    }

    /// Returns the newest entry with its stream sequence: NATS's number, not the `sequence` in the document.
    pub(crate) async fn get(&self) -> (u64, Value) {
        let (sequence, bytes) = self.bytes(&self.key).await;
        (sequence, serde_json::from_slice(&bytes).unwrap())
    }

    pub(crate) async fn bytes(&self, key: &str) -> (u64, Vec<u8>) {
        let subject = format!("$KV.{BUCKET}.{key}");
        let message = self.stream().await.get_last_raw_message_by_subject(&subject).await.unwrap();
        (message.sequence, message.payload.to_vec())
    }

    /// Writes the entry if the newest one has this stream sequence. Returns the new stream sequence.
    pub(crate) async fn update(&self, entry: &Value, sequence: u64) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", HeaderValue::from(sequence));
        self.publish(serde_json::to_vec_pretty(entry).unwrap(), headers).await
    }

    /// Writes the entry whatever the newest one is. Returns the new stream sequence.
    pub(crate) async fn put(&self, bytes: impl Into<Vec<u8>>) -> u64 {
        self.publish(bytes.into(), HeaderMap::new()).await
    }

    pub(crate) async fn delete(&self) -> u64 {
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        self.publish(Vec::new(), headers).await
    }

    async fn publish(&self, bytes: Vec<u8>, headers: HeaderMap) -> u64 {
        let subject = format!("$KV.{BUCKET}.{}", self.key);
        let answer = self.context.publish_with_headers(subject, headers, bytes.into()).await.unwrap();
        answer.await.unwrap().sequence
    }
}
