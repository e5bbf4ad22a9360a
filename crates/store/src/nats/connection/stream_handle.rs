//! One stream: reads from its leader and compare-and-set writes. Every wait is bounded.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use bytes::Bytes;
use futures_util::{StreamExt as _, TryFutureExt as _, TryStreamExt as _};

use super::failure::RequestFailure;
use super::identity::StoreIdentity;
use super::outage::OutageTracker;
use super::timeouts::{Backoff, Timeouts};
use crate::error::Unavailable;

/// A message of a stream.
#[derive(Debug, Clone)]
pub(in crate::nats) struct StoredMessage {
    /// Its number in the stream. The `sequence` of a peer document is another number.
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) payload: Bytes,
    pub(in crate::nats) headers: HeaderMap,
}

/// Which message of a subject to read.
#[derive(Debug, Clone, Copy)]
pub(in crate::nats) enum Lookup {
    Last,
    /// The first one at or after this sequence.
    From(u64),
}

/// Another client wrote to the subject first.
#[derive(Debug)]
pub(in crate::nats) struct Conflict;

/// An open stream, with what requests to it need.
#[derive(Debug, Clone)]
pub(in crate::nats) struct StreamHandle {
    pub(in crate::nats) server: String,
    pub(in crate::nats) context: Context,
    pub(in crate::nats) stream: Stream,
    pub(in crate::nats) name: String,
    pub(in crate::nats) timeouts: Timeouts,
    pub(in crate::nats) outages: Arc<OutageTracker>,
    /// Checks that the servers still hold the opened store. `None` if no store is open, as for a bucket that is read alone.
    pub(in crate::nats) identity: Option<Arc<StoreIdentity>>,
}

/// How many messages are read one by one. For more a consumer is created, which costs about as many requests.
const SINGLE_READS: usize = 6;
const FETCH_BATCH: usize = 500;
/// The server removes a consumer that we could not delete.
const CONSUMER_EXPIRY: Duration = Duration::from_secs(30);

impl StreamHandle {
    /// Retries a read until the store answers, bounded by the outage timeout, which all requests share.
    pub(in crate::nats) async fn retry_read<T, A: Future<Output = Result<T, RequestFailure>>>(
        &self,
        doing: &'static str,
        mut request: impl FnMut() -> A,
    ) -> Result<T, Unavailable> {
        self.outages.reads(&self.name).retry(doing, || self.on_same_store(request())).await
    }

    /// Performs a request, and fails if the connection leads to another store.
    pub(in crate::nats) async fn on_same_store<T>(
        &self,
        answer: impl Future<Output = Result<T, RequestFailure>>,
    ) -> Result<T, RequestFailure> {
        self.check_connection().await?;
        let answer = answer.await;
        self.check_identity().await.and(answer)
    }

    /// Removes the messages of a subject up to and including `sequence`. Later ones stay, even if the request is late.
    pub(in crate::nats) async fn purge_through(
        &self,
        subject: String,
        sequence: u64,
    ) -> Result<(), RequestFailure> {
        let purge = self.stream.purge().filter(subject).sequence(sequence + 1);
        let purge = async { purge.await.map_err(|error| RequestFailure::from_request(error, &self.name)) };
        self.on_same_store(purge).await.map(drop)
    }

    /// Returns a back-off for reads that are not retried by [`StreamHandle::retry_read`].
    pub(in crate::nats) fn read_backoff(&self, doing: &'static str) -> Backoff {
        self.outages.reads(&self.name).backoff(doing)
    }

    /// Returns a back-off for writes.
    pub(in crate::nats) fn write_backoff(&self, doing: &'static str) -> Backoff {
        self.outages.writes(&self.name).backoff(doing)
    }

    /// Records that the stream was readable just now.
    pub(in crate::nats) fn record_answer(&self) {
        self.outages.record_answer(&self.name, false);
    }

    /// Records that the stream answers writes: it acknowledged or refused one, or a read found one that had no answer.
    pub(in crate::nats) fn record_write(&self) {
        self.outages.record_answer(&self.name, true);
    }

    /// Returns a back-off for retries after conflicts with other writers, bounded by the conflict timeout.
    pub(in crate::nats) fn conflict_backoff(&self, doing: &'static str) -> Backoff {
        Backoff::with_own_timeout(&self.server, doing, self.timeouts.conflict)
    }

    /// Checks before a request that the connection is up and leads to our store.
    async fn check_connection(&self) -> Result<(), RequestFailure> {
        match &self.identity {
            Some(identity) => identity.check_connection().await,
            None => Ok(()),
        }
    }

    /// Checks before an answer is used that it came from our store.
    pub(in crate::nats) async fn check_identity(&self) -> Result<(), RequestFailure> {
        match &self.identity {
            Some(identity) => identity.check().await,
            None => Ok(()),
        }
    }

    /// Reads a message from the stream's leader. Never a direct get: decisions must not depend on a replica that lags.
    pub(in crate::nats) async fn find(
        &self,
        subject: &str,
        lookup: Lookup,
    ) -> Result<Option<StoredMessage>, Unavailable> {
        self.retry_read("read from", || self.find_once(subject, lookup)).await
    }

    async fn find_once(
        &self,
        subject: &str,
        lookup: Lookup,
    ) -> Result<Option<StoredMessage>, RequestFailure> {
        let request = self.stream.raw_message_builder();
        let request = match lookup {
            Lookup::Last => request.last_by_subject(subject),
            Lookup::From(sequence) => request.sequence(sequence.max(1)).next_by_subject(subject),
        };
        match request.send().await {
            Ok(StreamMessage { sequence, payload, headers, .. }) => {
                Ok(Some(StoredMessage { sequence, payload, headers }))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(RequestFailure::from_request(error, &self.name)),
        }
    }

    /// Appends if the last sequence of the subject is `expected`. Does not retry.
    pub(in crate::nats) async fn append_once(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
    ) -> Result<u64, RequestFailure> {
        self.append_with(subject, expected, payload, HeaderMap::new()).await
    }

    /// Appends with additional headers. Does not retry.
    pub(in crate::nats) async fn append_with(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
        mut headers: HeaderMap,
    ) -> Result<u64, RequestFailure> {
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(expected));
        self.check_connection().await?;
        let publish = async {
            let answer = self.context.publish_with_headers(subject.to_owned(), headers, payload).await?;
            answer.await
        };
        let acknowledged = publish.await;
        // If the identity cannot be confirmed, the write may be in our store or in the one that replaced it.
        self.check_identity().await.map_err(|failure| RequestFailure::Unanswered(failure.into_source()))?;
        match acknowledged {
            Ok(acknowledgement) => {
                self.record_write();
                Ok(acknowledgement.sequence)
            }
            Err(error) => {
                let failure =
                    self.detect_deleted_stream(RequestFailure::from_publish(error, &self.name)).await;
                // A refusal shows that the stream answers writes, too.
                if matches!(failure, RequestFailure::WrongSequence(_)) {
                    self.record_write();
                }
                Err(failure)
            }
        }
    }

    /// Tells a stream without a leader from a deleted one: neither acknowledges a write.
    async fn detect_deleted_stream(&self, failure: RequestFailure) -> RequestFailure {
        match failure {
            RequestFailure::Temporary(source) => match self.stream.get_info().await {
                Err(error) => match RequestFailure::from_request(error, &self.name) {
                    deleted @ RequestFailure::StreamDeleted { .. } => deleted,
                    _ => RequestFailure::Temporary(source),
                },
                Ok(_) => RequestFailure::Temporary(source),
            },
            failure => failure,
        }
    }

    /// Appends, and retries until there is an answer.
    ///
    /// A write that landed without an acknowledgement is recognised by its payload, which must therefore be unique to
    /// this writer.
    pub(in crate::nats) async fn append(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
    ) -> Result<Result<u64, Conflict>, Unavailable> {
        let mut outage = self.write_backoff("write to");
        loop {
            let failure = match self.append_once(subject, expected, payload.clone()).await {
                Ok(sequence) => return Ok(Ok(sequence)),
                Err(failure) => failure,
            };
            if matches!(failure, RequestFailure::WrongSequence(_)) {
                let last = self.find(subject, Lookup::Last).await?;
                match last {
                    Some(last) if last.sequence != expected && last.payload == payload => {
                        return Ok(Ok(last.sequence));
                    }
                    last if last.as_ref().map_or(0, |last| last.sequence) != expected => {
                        return Ok(Err(Conflict));
                    }
                    // Refused although the subject has not changed: retried below, like an outage.
                    _ => {}
                }
            }
            outage.wait(failure).await?;
        }
    }

    /// Returns the messages of a subject between two sequences, inclusive. `to` must be a message of this subject.
    pub(in crate::nats) async fn scan(
        &self,
        subject: &str,
        from: u64,
        to: u64,
    ) -> Result<Vec<StoredMessage>, Unavailable> {
        let mut found: Vec<StoredMessage> = Vec::new();
        let mut next = from;
        while next <= to && found.len() < SINGLE_READS {
            match self.find(subject, Lookup::From(next)).await? {
                Some(message) if message.sequence <= to => {
                    next = message.sequence + 1;
                    found.push(message);
                }
                _ => return Ok(found),
            }
        }
        let mut outage = self.read_backoff("read from");
        while next <= to {
            let before = next;
            let failure = match self.fetch(subject, &mut next, to, &mut found).await {
                Ok(()) => RequestFailure::temporary("some messages have not arrived"),
                Err(failure) => failure,
            };
            if next > before {
                self.record_answer();
                outage = self.read_backoff("read from");
            }
            if next <= to {
                outage.wait(failure).await?;
            }
        }
        Ok(found)
    }

    /// Reads with a consumer until it has no more messages or `to` is reached.
    async fn fetch(
        &self,
        subject: &str,
        next: &mut u64,
        to: u64,
        found: &mut Vec<StoredMessage>,
    ) -> Result<(), RequestFailure> {
        self.check_connection().await?;
        let consumer = self
            .stream
            .create_consumer(pull::Config {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *next },
                ack_policy: AckPolicy::None,
                filter_subject: subject.to_owned(),
                inactive_threshold: CONSUMER_EXPIRY,
                num_replicas: 1,
                memory_storage: true,
                ..pull::Config::default()
            })
            .await
            .map_err(|error| RequestFailure::from_request(error, &self.name))?;
        let (old_next, old_count) = (*next, found.len());
        let mut fetched = self.fetch_from(&consumer, next, to, found).await;
        if let Err(failure) = self.check_identity().await {
            // These messages may be from another store.
            *next = old_next;
            found.truncate(old_count);
            fetched = Err(failure);
        }
        let (stream, name) = (self.stream.clone(), consumer.cached_info().name.clone());
        tokio::spawn(async move { stream.delete_consumer(&name).await.is_ok() });
        fetched
    }

    async fn fetch_from(
        &self,
        consumer: &async_nats::jetstream::consumer::Consumer<pull::Config>,
        next: &mut u64,
        to: u64,
        found: &mut Vec<StoredMessage>,
    ) -> Result<(), RequestFailure> {
        loop {
            let before = *next;
            let batch = consumer.fetch().max_messages(FETCH_BATCH).messages().await;
            let mut batch = pin!(batch.map_err(|error| RequestFailure::from_request(error, &self.name))?);
            while *next <= to {
                let message = tokio::time::timeout(self.timeouts.request, batch.next()).await;
                match message.map_err(RequestFailure::temporary)? {
                    Some(message) => {
                        let message = message.map_err(RequestFailure::Temporary)?;
                        let sequence = message.info().map_err(RequestFailure::Temporary)?.stream_sequence;
                        // A reconnect may deliver a message twice.
                        if sequence >= *next {
                            *next = sequence + 1;
                            let (payload, headers) =
                                (message.payload.clone(), message.headers.clone().unwrap_or_default());
                            found.push(StoredMessage { sequence, payload, headers });
                        }
                    }
                    None => break,
                }
            }
            if *next > to || *next == before {
                return Ok(());
            }
        }
    }

    /// Returns the subjects that have messages.
    pub(in crate::nats) async fn subjects(&self, filter: &str) -> Result<Vec<String>, Unavailable> {
        let list = || async {
            let subjects = self.stream.info_with_subjects(filter).await?;
            subjects.map_ok(|(subject, _)| subject).try_collect::<Vec<_>>().await
        };
        self.retry_read("list the runs of", || {
            list().map_err(|error| RequestFailure::from_request(error, &self.name))
        })
        .await
    }
}
