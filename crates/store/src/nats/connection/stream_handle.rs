//! One stream as we use it: ask the leader, append by compare-and-set, read on from a sequence. Every wait has an end.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::header::{HeaderMap, HeaderValue, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use async_nats::jetstream::Context;
use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Info, LastRawMessageErrorKind, Stream};
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
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) payload: Bytes,
    pub(in crate::nats) headers: HeaderMap,
}

/// Which message of a subject.
#[derive(Debug, Clone, Copy)]
pub(in crate::nats) enum Lookup {
    Last,
    /// The first one that has this sequence or a later one.
    From(u64),
}

/// Others wrote to the subject first.
#[derive(Debug)]
pub(in crate::nats) struct Conflict;

#[derive(Debug, Clone)]
pub(in crate::nats) struct StreamHandle {
    pub(in crate::nats) server: String,
    pub(in crate::nats) context: Context,
    pub(in crate::nats) stream: Stream,
    pub(in crate::nats) name: String,
    pub(in crate::nats) timeouts: Timeouts,
    pub(in crate::nats) outages: Arc<OutageTracker>,
    /// None for what is no store of ours.
    pub(in crate::nats) identity: Option<Arc<StoreIdentity>>,
}

/// How many messages are asked for one by one before a consumer is made, which costs as much as that.
const SINGLE_READS: usize = 6;
const PER_FETCH: usize = 500;
/// The server forgets a consumer that we could not delete.
const CONSUMER_EXPIRY: Duration = Duration::from_secs(30);

impl StreamHandle {
    /// Asks for something until our store has answered.
    pub(in crate::nats) async fn retry_read<T, A: Future<Output = Result<T, RequestFailure>>>(
        &self,
        doing: &'static str,
        mut ask: impl FnMut() -> A,
    ) -> Result<T, Unavailable> {
        self.outages.reads(&self.name).retry(doing, || self.verified(ask())).await
    }

    /// An answer, if it is our store that gave it.
    pub(in crate::nats) async fn verified<T>(
        &self,
        answer: impl Future<Output = Result<T, RequestFailure>>,
    ) -> Result<T, RequestFailure> {
        self.check_connection().await?;
        let answer = answer.await;
        self.check_identity().await.and(answer)
    }

    /// Our patience with reads that are not just asked again.
    pub(in crate::nats) fn read_backoff(&self, doing: &'static str) -> Backoff {
        self.outages.reads(&self.name).backoff(doing)
    }

    /// Our patience with writes that are not just asked again.
    pub(in crate::nats) fn write_backoff(&self, doing: &'static str) -> Backoff {
        self.outages.writes(&self.name).backoff(doing)
    }

    /// Something was heard of it that nobody had to ask for.
    pub(in crate::nats) fn record_answer(&self) {
        self.outages.record_answer(&self.name, false);
    }

    /// It has taken a write, whether we heard that or found it there.
    pub(in crate::nats) fn record_write(&self) {
        self.outages.record_answer(&self.name, true);
    }

    pub(in crate::nats) fn conflict_backoff(&self, doing: &'static str) -> Backoff {
        Backoff::for_conflict(&self.server, doing, self.timeouts.conflict)
    }

    /// Before a question: whether it will be our store that hears it.
    async fn check_connection(&self) -> Result<(), RequestFailure> {
        match &self.identity {
            Some(identity) => identity.check_connection().await,
            None => Ok(()),
        }
    }

    /// Before an answer is believed: whether it was our store that gave it.
    pub(in crate::nats) async fn check_identity(&self) -> Result<(), RequestFailure> {
        match &self.identity {
            Some(identity) => identity.check_identity().await,
            None => Ok(()),
        }
    }

    /// Asks the leader, never a replica that may be behind: what is decided rests on this.
    pub(in crate::nats) async fn find(
        &self,
        subject: &str,
        which: Lookup,
    ) -> Result<Option<StoredMessage>, Unavailable> {
        self.retry_read("read from", || self.find_once(subject, which)).await
    }

    async fn find_once(&self, subject: &str, which: Lookup) -> Result<Option<StoredMessage>, RequestFailure> {
        let question = self.stream.raw_message_builder();
        let question = match which {
            Lookup::Last => question.last_by_subject(subject),
            Lookup::From(sequence) => question.sequence(sequence.max(1)).next_by_subject(subject),
        };
        match question.send().await {
            Ok(StreamMessage { sequence, payload, headers, .. }) => {
                Ok(Some(StoredMessage { sequence, payload, headers }))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(RequestFailure::from_request(error, &self.name)),
        }
    }

    /// The stream as it is now: its settings, and who keeps it.
    pub(in crate::nats) async fn info(&self) -> Result<Info, Unavailable> {
        let ask = || self.stream.get_info().map_err(|error| RequestFailure::from_request(error, &self.name));
        self.retry_read("read from", ask).await
    }

    /// Appends if the subject's last sequence is the expected one. Tries once.
    pub(in crate::nats) async fn append_once(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
    ) -> Result<u64, RequestFailure> {
        self.append_with(subject, expected, payload, HeaderMap::new()).await
    }

    /// The same with headers of its own.
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
        let done = publish.await;
        // It may have been written, to our store before or to another one now; whoever asks next is told which is there.
        self.check_identity().await.map_err(|failure| RequestFailure::Unanswered(failure.into_source()))?;
        match done {
            Ok(done) => {
                self.record_write();
                Ok(done.sequence)
            }
            Err(error) => {
                let failure =
                    self.detect_deleted_stream(RequestFailure::from_publish(error, &self.name)).await;
                // To be refused is to be heard.
                if matches!(failure, RequestFailure::WrongSequence(_)) {
                    self.record_write();
                }
                Err(failure)
            }
        }
    }

    /// A stream that nobody listens for has no leader now, or was deleted.
    async fn detect_deleted_stream(&self, failure: RequestFailure) -> RequestFailure {
        match failure {
            RequestFailure::Temporary(source) => match self.stream.get_info().await {
                Err(error) => match RequestFailure::from_request(error, &self.name) {
                    gone @ RequestFailure::StreamDeleted { .. } => gone,
                    _ => RequestFailure::Temporary(source),
                },
                Ok(_) => RequestFailure::Temporary(source),
            },
            failure => failure,
        }
    }

    /// Appends, and asks again until there is an answer. What landed unheard is recognised by its bytes, so they must be
    /// of this writer alone.
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
                    // Refused although nobody was faster: a server in trouble.
                    _ => {}
                }
            }
            outage.wait(failure).await?;
        }
    }

    /// The messages of a subject between two sequences, both included. The last one must be of this subject.
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
                Ok(()) => RequestFailure::temporary("it has not all messages yet"),
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

    /// Reads on with a consumer until it has no more, or all that was asked for.
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
        let before = (*next, found.len());
        let mut fetched = self.fetch_from(&consumer, next, to, found).await;
        if let Err(failure) = self.check_identity().await {
            *next = before.0;
            found.truncate(before.1);
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
            let batch = consumer.fetch().max_messages(PER_FETCH).messages().await;
            let mut batch = pin!(batch.map_err(|error| RequestFailure::from_request(error, &self.name))?);
            while *next <= to {
                let message = tokio::time::timeout(self.timeouts.request, batch.next()).await;
                match message.map_err(RequestFailure::temporary)? {
                    Some(message) => {
                        let message = message.map_err(RequestFailure::Temporary)?;
                        let sequence = message.info().map_err(RequestFailure::Temporary)?.stream_sequence;
                        // Nothing is lost on one connection, but it may have been another one for a run_at.
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

    /// The subjects that have messages, as the leader knows them.
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
