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

use super::fault::Fault;
use super::outage::Outages;
use super::patience::{Budget, Patience};
use super::same::Same;
use crate::error::Unavailable;

/// A message of a stream.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) sequence: u64,
    pub(super) payload: Bytes,
    pub(super) headers: HeaderMap,
}

/// Which message of a subject.
#[derive(Debug, Clone, Copy)]
pub(super) enum Which {
    Last,
    /// The first one that has this sequence or a later one.
    From(u64),
}

/// Others wrote to the subject first.
#[derive(Debug)]
pub(super) struct Overtaken;

#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) server: String,
    pub(super) context: Context,
    pub(super) stream: Stream,
    pub(super) name: String,
    pub(super) patience: Patience,
    pub(super) outages: Arc<Outages>,
    /// None for what is no store of ours.
    pub(super) same: Option<Arc<Same>>,
}

/// How many messages are asked for one by one before a consumer is made, which costs as much as that.
const ONE_BY_ONE: usize = 6;
const PER_FETCH: usize = 500;
/// The server forgets a consumer that we could not delete.
const FORGOTTEN: Duration = Duration::from_secs(30);

impl Channel {
    /// Asks for something until our store has answered.
    pub(super) async fn read<T, A: Future<Output = Result<T, Fault>>>(
        &self,
        doing: &'static str,
        mut ask: impl FnMut() -> A,
    ) -> Result<T, Unavailable> {
        self.outages.reads(&self.name).insist(doing, || self.asked(ask())).await
    }

    /// An answer, if it is our store that gave it.
    pub(super) async fn asked<T>(&self, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.before().await?;
        let answer = answer.await;
        self.still().await.and(answer)
    }

    /// Our patience with reads that are not just asked again.
    pub(super) fn reading(&self, doing: &'static str) -> Budget {
        self.outages.reads(&self.name).budget(doing)
    }

    /// Our patience with writes that are not just asked again.
    pub(super) fn writing(&self, doing: &'static str) -> Budget {
        self.outages.writes(&self.name).budget(doing)
    }

    /// Something was heard of it that nobody had to ask for.
    pub(super) fn answered(&self) {
        self.outages.answered(&self.name, false);
    }

    /// It has taken a write, whether we heard that or found it there.
    pub(super) fn took(&self) {
        self.outages.answered(&self.name, true);
    }

    pub(super) fn race(&self, doing: &'static str) -> Budget {
        Budget::new(&self.server, doing, self.patience.conflict)
    }

    /// Before a question: whether it will be our store that hears it.
    async fn before(&self) -> Result<(), Fault> {
        match &self.same {
            Some(same) => same.before().await,
            None => Ok(()),
        }
    }

    /// Before an answer is believed: whether it was our store that gave it.
    pub(super) async fn still(&self) -> Result<(), Fault> {
        match &self.same {
            Some(same) => same.still().await,
            None => Ok(()),
        }
    }

    /// Asks the leader, never a replica that may be behind: what is decided rests on this.
    pub(super) async fn find(&self, subject: &str, which: Which) -> Result<Option<Found>, Unavailable> {
        self.read("read from", || self.find_once(subject, which)).await
    }

    async fn find_once(&self, subject: &str, which: Which) -> Result<Option<Found>, Fault> {
        let question = self.stream.raw_message_builder();
        let question = match which {
            Which::Last => question.last_by_subject(subject),
            Which::From(sequence) => question.sequence(sequence.max(1)).next_by_subject(subject),
        };
        match question.send().await {
            Ok(StreamMessage { sequence, payload, headers, .. }) => {
                Ok(Some(Found { sequence, payload, headers }))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(Fault::of_question(error, &self.name)),
        }
    }

    /// The stream as it is now: its settings, and who keeps it.
    pub(super) async fn info(&self) -> Result<Info, Unavailable> {
        let ask = || self.stream.get_info().map_err(|error| Fault::of_question(error, &self.name));
        self.read("read from", ask).await
    }

    /// Appends if the subject's last sequence is the expected one. Tries once.
    pub(super) async fn append_once(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
    ) -> Result<u64, Fault> {
        self.append_with(subject, expected, payload, HeaderMap::new()).await
    }

    /// The same with headers of its own.
    pub(super) async fn append_with(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
        mut headers: HeaderMap,
    ) -> Result<u64, Fault> {
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, HeaderValue::from(expected));
        self.before().await?;
        let publish = async {
            let answer = self.context.publish_with_headers(subject.to_owned(), headers, payload).await?;
            answer.await
        };
        let done = publish.await;
        // It may have been written, to our store before or to another one now; whoever asks next is told which is there.
        self.still().await.map_err(|fault| Fault::Unanswered(fault.into_source()))?;
        match done {
            Ok(done) => {
                self.took();
                Ok(done.sequence)
            }
            Err(error) => {
                let fault = self.deleted(Fault::of_write(error, &self.name)).await;
                // To be refused is to be heard.
                if matches!(fault, Fault::Sequence(_)) {
                    self.took();
                }
                Err(fault)
            }
        }
    }

    /// A stream that nobody listens for has no leader now, or was deleted.
    async fn deleted(&self, fault: Fault) -> Fault {
        match fault {
            Fault::Passing(source) => match self.stream.get_info().await {
                Err(error) => match Fault::of_question(error, &self.name) {
                    gone @ Fault::Gone { .. } => gone,
                    _ => Fault::Passing(source),
                },
                Ok(_) => Fault::Passing(source),
            },
            fault => fault,
        }
    }

    /// Appends, and asks again until there is an answer. What landed unheard is recognised by its bytes, so they must be
    /// of this writer alone.
    pub(super) async fn append(
        &self,
        subject: &str,
        expected: u64,
        payload: Bytes,
    ) -> Result<Result<u64, Overtaken>, Unavailable> {
        let mut outage = self.writing("write to");
        loop {
            let fault = match self.append_once(subject, expected, payload.clone()).await {
                Ok(sequence) => return Ok(Ok(sequence)),
                Err(fault) => fault,
            };
            if matches!(fault, Fault::Sequence(_)) {
                let last = self.find(subject, Which::Last).await?;
                match last {
                    Some(last) if last.sequence != expected && last.payload == payload => {
                        return Ok(Ok(last.sequence));
                    }
                    last if last.as_ref().map_or(0, |last| last.sequence) != expected => {
                        return Ok(Err(Overtaken));
                    }
                    // Refused although nobody was faster: a server in trouble.
                    _ => {}
                }
            }
            outage.bear(fault).await?;
        }
    }

    /// The messages of a subject between two sequences, both included. The last one must be of this subject.
    pub(super) async fn scan(&self, subject: &str, from: u64, to: u64) -> Result<Vec<Found>, Unavailable> {
        let mut found: Vec<Found> = Vec::new();
        let mut next = from;
        while next <= to && found.len() < ONE_BY_ONE {
            match self.find(subject, Which::From(next)).await? {
                Some(message) if message.sequence <= to => {
                    next = message.sequence + 1;
                    found.push(message);
                }
                _ => return Ok(found),
            }
        }
        let mut outage = self.reading("read from");
        while next <= to {
            let before = next;
            let fault = match self.fetch(subject, &mut next, to, &mut found).await {
                Ok(()) => Fault::passing("it has not all messages yet"),
                Err(fault) => fault,
            };
            if next > before {
                self.answered();
                outage = self.reading("read from");
            }
            if next <= to {
                outage.bear(fault).await?;
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
        found: &mut Vec<Found>,
    ) -> Result<(), Fault> {
        self.before().await?;
        let consumer = self
            .stream
            .create_consumer(pull::Config {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: *next },
                ack_policy: AckPolicy::None,
                filter_subject: subject.to_owned(),
                inactive_threshold: FORGOTTEN,
                num_replicas: 1,
                memory_storage: true,
                ..pull::Config::default()
            })
            .await
            .map_err(|error| Fault::of_question(error, &self.name))?;
        let before = (*next, found.len());
        let mut fetched = self.fetch_from(&consumer, next, to, found).await;
        if let Err(fault) = self.still().await {
            *next = before.0;
            found.truncate(before.1);
            fetched = Err(fault);
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
        found: &mut Vec<Found>,
    ) -> Result<(), Fault> {
        loop {
            let before = *next;
            let batch = consumer.fetch().max_messages(PER_FETCH).messages().await;
            let mut batch = pin!(batch.map_err(|error| Fault::of_question(error, &self.name))?);
            while *next <= to {
                let message = tokio::time::timeout(self.patience.answer, batch.next()).await;
                match message.map_err(Fault::passing)? {
                    Some(message) => {
                        let message = message.map_err(Fault::Passing)?;
                        let sequence = message.info().map_err(Fault::Passing)?.stream_sequence;
                        // Nothing is lost on one connection, but it may have been another one for a run_at.
                        if sequence >= *next {
                            *next = sequence + 1;
                            let (payload, headers) =
                                (message.payload.clone(), message.headers.clone().unwrap_or_default());
                            found.push(Found { sequence, payload, headers });
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
    pub(super) async fn subjects(&self, filter: &str) -> Result<Vec<String>, Unavailable> {
        let list = || async {
            let subjects = self.stream.info_with_subjects(filter).await?;
            subjects.map_ok(|(subject, _)| subject).try_collect::<Vec<_>>().await
        };
        self.read("list the runs of", || list().map_err(|error| Fault::of_question(error, &self.name))).await
    }
}
