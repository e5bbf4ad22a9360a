//! News from other processes and machines: an ordered consumer from the revision on that was seen last, and one more for
//! what others write in the place of the document.

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

use super::bucket::{key_of, subject_of};
use super::channel::{Channel, Found};
use super::entry::{self, Read};
use super::fault::Fault;
use super::journal::subject;
use super::message::Head;
use super::server::Server;
use super::wire::decode;
use crate::error::{ReadError, Unavailable};
use crate::store::StoredEntry;

/// Follows a run's journal.
pub(crate) struct Watch {
    server: Arc<Server>,
    run: RunId,
    after: Revision,
    feed: Option<Ordered>,
    /// What the feed gave and we have not read yet, and how much the server has behind it.
    heard: VecDeque<(Found, u64)>,
    /// What we have read and not given yet.
    news: Vec<StoredEntry>,
    place: Option<Place>,
    /// Somebody else wrote in the place of the document, and we have not said so.
    is_foreign: bool,
    /// When we last heard something, or made sure that there was nothing: calls that are dropped are one silence.
    certain: Instant,
}

/// The place of the run's document.
struct Place {
    bucket: String,
    subject: String,
    /// From here on we have not heard.
    next: u64,
    /// The newest revision that was there.
    highest: Revision,
    feed: Option<Ordered>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("run", &self.run).field("after", &self.after).finish_non_exhaustive()
    }
}

/// After so long a silence we ask whether it is true: the feed waits without end for a stream that was deleted.
const SILENCE: Duration = Duration::from_secs(20);
/// How long we wait for what the server says is coming, when we have something to give already.
const MORE: Duration = Duration::from_millis(200);

type Heard = Option<Result<Message, OrderedError>>;

impl Watch {
    pub(super) async fn subscribe(
        server: Arc<Server>,
        run: RunId,
        after: Revision,
    ) -> Result<Self, Unavailable> {
        let (heard, news) = (VecDeque::new(), Vec::new());
        let (feed, place, is_foreign, certain) = (None, None, false, Instant::now());
        let mut watch = Self { server, run, after, feed, heard, news, place, is_foreign, certain };
        watch.open().await?;
        Ok(watch)
    }

    pub(crate) fn after(&self) -> Revision {
        self.after
    }

    /// A call that is dropped half-way loses nothing: whatever was heard is kept until it is given.
    pub(crate) async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        let mut outage = self.server.journal.reading("watch");
        loop {
            if let Err(fault) = self.server.journal.still().await {
                outage.bear(fault).await?;
                continue;
            }
            let behind = self.read().await?;
            if behind == 0 && (!self.news.is_empty() || self.is_foreign) {
                return Ok(self.give());
            }
            self.open().await?;
            let silence = SILENCE.saturating_sub(self.certain.elapsed());
            let wait = if self.news.is_empty() { silence } else { MORE };
            let feed = self.feed.as_mut().expect("BUG: it was just opened");
            let place = self.place.as_mut();
            let heard = tokio::time::timeout(wait, async {
                tokio::select! {
                    journal = feed.next() => (Some(journal), None),
                    place = next_of(place) => (None, Some(place)),
                }
            });
            let trouble = match heard.await {
                Ok((Some(journal), _)) => self.hear(journal),
                Ok((None, Some(place))) => self.hear_place(place),
                Ok((None, None)) => None,
                Err(_) if !self.news.is_empty() => return Ok(self.give()),
                Err(_) => {
                    self.look().await?;
                    None
                }
            };
            match trouble {
                Some(fault) => outage.bear(fault).await?,
                // It has answered: what comes now is another outage.
                None => {
                    self.certain = Instant::now();
                    outage = self.server.journal.reading("watch");
                }
            }
        }
    }

    /// Takes in what the journal's feed says.
    fn hear(&mut self, heard: Heard) -> Option<Fault> {
        match heard {
            Some(Ok(message)) => match found(&message) {
                Ok(found) => {
                    self.server.journal.answered();
                    self.heard.push_back(found);
                    None
                }
                Err(fault) => Some(fault),
            },
            Some(Err(error)) => {
                self.feed = None;
                Some(Fault::passing(error))
            }
            None => {
                self.feed = None;
                None
            }
        }
    }

    /// Takes in what the feed of the document's place says. Our own entries come by the journal.
    fn hear_place(&mut self, heard: Heard) -> Option<Fault> {
        let place = self.place.as_mut()?;
        match heard {
            Some(Ok(message)) => match found(&message) {
                Ok((found, _)) => {
                    place.next = found.sequence + 1;
                    self.is_foreign |= match entry::read(&self.run, &found) {
                        Ok(Read::Ours(entry)) => {
                            // One that was there before undoes what came after it.
                            let is_older = entry.revision() < place.highest;
                            place.highest = entry.revision().max(place.highest);
                            is_older
                        }
                        Ok(Read::Rewritten(_) | Read::Unfit(_)) | Err(_) => true,
                    };
                    None
                }
                Err(fault) => Some(fault),
            },
            Some(Err(error)) => {
                place.feed = None;
                Some(Fault::passing(error))
            }
            None => {
                place.feed = None;
                None
            }
        }
    }

    fn give(&mut self) -> Vec<StoredEntry> {
        self.is_foreign = false;
        let news = std::mem::take(&mut self.news);
        self.after = news.last().map_or(self.after, |entry| entry.revision);
        news
    }

    /// Reads what was heard, and says how much there is still to hear.
    async fn read(&mut self) -> Result<u64, ReadError> {
        let mut behind = 0;
        while let Some((found, pending)) = self.heard.front() {
            let record = decode(found).map_err(|error| self.server.bad_message(&self.run, error))?;
            behind = *pending;
            let newest = self.news.last().map_or(self.after, |entry| entry.revision);
            if let Some(committed) = record.committed()
                && record.head.revision > newest
            {
                let delta = self.server.delta(&self.run, record.sequence, committed).await?;
                self.news.push(StoredEntry { revision: record.head.revision, body: delta.entry });
            }
            self.watch_place(&record.head);
            self.heard.pop_front();
        }
        Ok(behind)
    }

    /// Follows the place of the document as well, from what this head knows on.
    fn watch_place(&mut self, head: &Head) {
        if self.place.is_none()
            && let (Some(entered), Some(key)) = (&head.entered, key_of(&self.run))
        {
            let (bucket, subject) = (entered.bucket.clone(), subject_of(&entered.bucket, key));
            let (next, highest) = (entered.sequence + 1, head.revision);
            self.place = Some(Place { bucket, subject, next, highest, feed: None });
        }
    }

    /// Makes sure that silence means that nothing happened.
    async fn look(&mut self) -> Result<(), Unavailable> {
        let newest = self.server.newest(&self.run).await?;
        if newest.is_some_and(|newest| newest.head.revision > self.after) {
            self.feed = None;
        }
        Ok(())
    }

    /// Opens what is to be followed and is not.
    async fn open(&mut self) -> Result<(), Unavailable> {
        if self.feed.is_none() {
            let start = self.start().await?;
            self.feed = Some(open(&self.server.journal, subject(&self.run), start).await?);
        }
        if let Some(place) = self.place.as_mut().filter(|place| place.feed.is_none()) {
            let channel = self.server.bucket_of(&place.bucket).await?.channel;
            place.feed = Some(open(&channel, place.subject.clone(), place.next).await?);
        }
        Ok(())
    }

    /// The sequence from which on there may be news. Too early a one does no harm.
    async fn start(&mut self) -> Result<u64, Unavailable> {
        let newest = self.news.last().map_or(self.after, |entry| entry.revision);
        let record = self.server.newest(&self.run).await?;
        if let Some(record) = &record {
            self.watch_place(&record.head);
        }
        match record {
            Some(record) if newest >= record.head.revision => Ok(record.head.commit + 1),
            Some(record) if newest > Revision(0) => {
                let last = self.server.commit_of(&self.run, newest, &record).await?;
                Ok(last.map_or(1, |last| last.sequence + 1))
            }
            _ => Ok(1),
        }
    }
}

/// The next thing that is heard of a place; never comes back where there is none.
async fn next_of(place: Option<&mut Place>) -> Heard {
    match place.and_then(|place| place.feed.as_mut()) {
        Some(feed) => feed.next().await,
        None => std::future::pending().await,
    }
}

/// A message of a feed, and how many there are behind it.
fn found(message: &Message) -> Result<(Found, u64), Fault> {
    let info = message.info().map_err(Fault::Passing)?;
    let (sequence, pending) = (info.stream_sequence, info.pending);
    let (payload, headers) = (message.payload.clone(), message.headers.clone().unwrap_or_default());
    Ok((Found { sequence, payload, headers }, pending))
}

async fn open(channel: &Channel, subject: String, start: u64) -> Result<Ordered, Unavailable> {
    channel.read("watch", || open_once(channel, subject.clone(), start)).await
}

async fn open_once(channel: &Channel, subject: String, start: u64) -> Result<Ordered, Fault> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start },
        filter_subject: subject,
        ..OrderedConfig::default()
    };
    let consumer = channel.stream.create_consumer(config).await;
    let consumer = consumer.map_err(|error| Fault::of_question(error, &channel.name))?;
    consumer.messages().await.map_err(Fault::passing)
}
