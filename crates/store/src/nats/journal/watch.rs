//! Following a run: an ordered consumer of its subject from the last known revision on, and one of its document's key
//! for external writes.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig, OrderedError};
use futures_util::StreamExt as _;
use protocol::{Revision, RunId};
use tokio::time::Instant;

use super::message::Head;
use super::records::subject;
use super::wire::decode;
use crate::error::{ReadError, Unavailable};
use crate::nats::connection::{RequestFailure, Session, StoredMessage, StreamHandle};
use crate::nats::documents::{ParsedEntry, document_key, key_subject, parse_entry};
use crate::store::StoredEntry;

/// Follows the journal of a run.
pub(crate) struct Watch {
    session: Arc<Session>,
    run: RunId,
    after: Revision,
    consumer: Option<Ordered>,
    /// Messages that were received and not decoded, each with the number of messages that the server has after it.
    received: VecDeque<(StoredMessage, u64)>,
    /// Entries that were decoded and not returned.
    ready: Vec<StoredEntry>,
    document: Option<DocumentConsumer>,
    /// Another client wrote to the document, and `next` has not reported it yet.
    has_external_write: bool,
    /// When a message last arrived, or a check found none. Dropping the future of `next` does not reset it.
    last_checked: Instant,
}

/// The consumer of the document's key.
struct DocumentConsumer {
    bucket: String,
    subject: String,
    /// The sequence after the last message received.
    next: u64,
    /// The newest revision seen in the bucket.
    highest: Revision,
    consumer: Option<Ordered>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("run", &self.run).field("after", &self.after).finish_non_exhaustive()
    }
}

/// After this time without messages `next` reads the newest commit, because a consumer of a deleted stream waits for ever.
const CHECK_INTERVAL: Duration = Duration::from_secs(20);
/// How long to wait for messages that the server has announced, if there are entries to return already.
const BATCH_WAIT: Duration = Duration::from_millis(200);

type Delivery = Option<Result<Message, OrderedError>>;

impl Watch {
    pub(in crate::nats) async fn subscribe(
        session: Arc<Session>,
        run: RunId,
        after: Revision,
    ) -> Result<Self, Unavailable> {
        let (received, ready) = (VecDeque::new(), Vec::new());
        let (consumer, document, has_external_write, last_checked) = (None, None, false, Instant::now());
        let mut watch = Self {
            session,
            run,
            after,
            consumer,
            received,
            ready,
            document,
            has_external_write,
            last_checked,
        };
        watch.open_consumers().await?;
        Ok(watch)
    }

    pub(crate) fn after(&self) -> Revision {
        self.after
    }

    /// Returns the next entries; an empty list after an external write to the document. Cancel-safe, because received
    /// messages are kept until they are returned.
    pub(crate) async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        let mut outage = self.session.journal.read_backoff("watch");
        loop {
            if let Err(failure) = self.session.journal.check_identity().await {
                outage.wait(failure).await?;
                continue;
            }
            let pending = self.decode_received().await?;
            if pending == 0 && (!self.ready.is_empty() || self.has_external_write) {
                return Ok(self.take_ready());
            }
            self.open_consumers().await?;
            let until_check = CHECK_INTERVAL.saturating_sub(self.last_checked.elapsed());
            let wait = if self.ready.is_empty() { until_check } else { BATCH_WAIT };
            let consumer = self.consumer.as_mut().expect("BUG: the consumer was just opened");
            let document = self.document.as_mut();
            let received = tokio::time::timeout(wait, async {
                tokio::select! {
                    journal = consumer.next() => (Some(journal), None),
                    document = next_document(document) => (None, Some(document)),
                }
            });
            let failure = match received.await {
                Ok((Some(journal), _)) => self.receive_journal_message(journal),
                Ok((None, Some(document))) => self.receive_document(document),
                Ok((None, None)) => None,
                Err(_) if !self.ready.is_empty() => return Ok(self.take_ready()),
                Err(_) => {
                    self.check_for_missed_commits().await?;
                    None
                }
            };
            match failure {
                Some(failure) => outage.wait(failure).await?,
                // An answer ends the outage.
                None => {
                    self.last_checked = Instant::now();
                    outage = self.session.journal.read_backoff("watch");
                }
            }
        }
    }

    /// Queues a message of the journal.
    fn receive_journal_message(&mut self, received: Delivery) -> Option<RequestFailure> {
        match received {
            Some(Ok(message)) => match stored_message(&message) {
                Ok(message) => {
                    self.session.journal.record_answer();
                    self.received.push_back(message);
                    None
                }
                Err(failure) => Some(failure),
            },
            Some(Err(error)) => {
                self.consumer = None;
                Some(RequestFailure::temporary(error))
            }
            None => {
                self.consumer = None;
                None
            }
        }
    }

    /// Handles a message of the document's key. Our own entries arrive through the journal.
    fn receive_document(&mut self, received: Delivery) -> Option<RequestFailure> {
        let document = self.document.as_mut()?;
        match received {
            Some(Ok(message)) => match stored_message(&message) {
                Ok((message, _)) => {
                    document.next = message.sequence + 1;
                    self.has_external_write |= match parse_entry(&self.run, &message) {
                        Ok(ParsedEntry::Intact(entry)) => {
                            // An older entry of ours was written again, which undoes later ones.
                            let is_older = entry.revision() < document.highest;
                            document.highest = entry.revision().max(document.highest);
                            is_older
                        }
                        Ok(ParsedEntry::DocumentChanged(_) | ParsedEntry::Invalid(_)) | Err(_) => true,
                    };
                    None
                }
                Err(failure) => Some(failure),
            },
            Some(Err(error)) => {
                document.consumer = None;
                Some(RequestFailure::temporary(error))
            }
            None => {
                document.consumer = None;
                None
            }
        }
    }

    fn take_ready(&mut self) -> Vec<StoredEntry> {
        self.has_external_write = false;
        let ready = std::mem::take(&mut self.ready);
        self.after = ready.last().map_or(self.after, |entry| entry.revision);
        ready
    }

    /// Decodes received messages, and returns how many the server still has.
    async fn decode_received(&mut self) -> Result<u64, ReadError> {
        let mut remaining = 0;
        while let Some((message, pending)) = self.received.front() {
            let record = decode(message).map_err(|error| self.session.message_error(&self.run, error))?;
            remaining = *pending;
            let newest = self.ready.last().map_or(self.after, |entry| entry.revision);
            if let Some(committed) = record.commit()
                && record.head.revision > newest
            {
                let delta = self.session.delta(&self.run, record.sequence, committed).await?;
                self.ready.push(StoredEntry { revision: record.head.revision, body: delta.entry });
            }
            self.watch_document(&record.head);
            self.received.pop_front();
        }
        Ok(remaining)
    }

    /// Starts to follow the document's key as well.
    fn watch_document(&mut self, head: &Head) {
        if self.document.is_none()
            && let (Some(document_entry), Some(key)) = (&head.document_entry, document_key(&self.run))
        {
            let (bucket, subject) = (document_entry.bucket.clone(), key_subject(&document_entry.bucket, key));
            let (next, highest) = (document_entry.sequence + 1, head.revision);
            self.document = Some(DocumentConsumer { bucket, subject, next, highest, consumer: None });
        }
    }

    /// Restarts the consumer if it missed a commit.
    async fn check_for_missed_commits(&mut self) -> Result<(), Unavailable> {
        let newest = self.session.reconcile_and_read_last(&self.run).await?;
        if newest.is_some_and(|newest| newest.head.revision > self.after) {
            self.consumer = None;
        }
        Ok(())
    }

    /// Creates the consumers that are missing.
    async fn open_consumers(&mut self) -> Result<(), Unavailable> {
        if self.consumer.is_none() {
            let start = self.start_sequence().await?;
            self.consumer = Some(open_consumer(&self.session.journal, subject(&self.run), start).await?);
        }
        if let Some(document) = self.document.as_mut().filter(|document| document.consumer.is_none()) {
            let handle = self.session.existing_bucket(&document.bucket).await?.handle;
            document.consumer = Some(open_consumer(&handle, document.subject.clone(), document.next).await?);
        }
        Ok(())
    }

    /// Returns the sequence from which to read. Too early a sequence does no harm.
    async fn start_sequence(&mut self) -> Result<u64, Unavailable> {
        let newest = self.ready.last().map_or(self.after, |entry| entry.revision);
        let record = self.session.reconcile_and_read_last(&self.run).await?;
        if let Some(record) = &record {
            self.watch_document(&record.head);
        }
        match record {
            Some(record) if newest >= record.head.revision => Ok(record.head.commit + 1),
            Some(record) if newest > Revision(0) => {
                let last = self.session.find_commit(&self.run, newest, &record).await?;
                Ok(last.map_or(1, |last| last.sequence + 1))
            }
            _ => Ok(1),
        }
    }
}

/// Returns the next message of a document's key. Pending for ever without one.
async fn next_document(document: Option<&mut DocumentConsumer>) -> Delivery {
    match document.and_then(|document| document.consumer.as_mut()) {
        Some(consumer) => consumer.next().await,
        None => std::future::pending().await,
    }
}

/// Converts a message of a consumer, and returns how many messages the server has after it.
fn stored_message(message: &Message) -> Result<(StoredMessage, u64), RequestFailure> {
    let info = message.info().map_err(RequestFailure::Temporary)?;
    let (sequence, pending) = (info.stream_sequence, info.pending);
    let (payload, headers) = (message.payload.clone(), message.headers.clone().unwrap_or_default());
    Ok((StoredMessage { sequence, payload, headers }, pending))
}

async fn open_consumer(handle: &StreamHandle, subject: String, start: u64) -> Result<Ordered, Unavailable> {
    handle.retry_read("watch", || open_consumer_once(handle, subject.clone(), start)).await
}

async fn open_consumer_once(
    handle: &StreamHandle,
    subject: String,
    start: u64,
) -> Result<Ordered, RequestFailure> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start },
        filter_subject: subject,
        ..OrderedConfig::default()
    };
    let consumer = handle.stream.create_consumer(config).await;
    let consumer = consumer.map_err(|error| RequestFailure::from_request(error, &handle.name))?;
    consumer.messages().await.map_err(RequestFailure::temporary)
}
