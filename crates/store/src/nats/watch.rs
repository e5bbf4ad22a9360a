//! News from other processes and machines: an ordered consumer from the revision on that was seen last.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::pull::{Ordered, OrderedConfig};
use futures_util::StreamExt as _;
use protocol::{Revision, RunId};

use super::channel::Found;
use super::fault::Fault;
use super::journal::subject;
use super::message::decode;
use super::server::Server;
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

impl Watch {
    pub(super) async fn subscribe(
        server: Arc<Server>,
        run: RunId,
        after: Revision,
    ) -> Result<Self, Unavailable> {
        let mut watch = Self { server, run, after, feed: None, heard: VecDeque::new(), news: Vec::new() };
        watch.feed().await?;
        Ok(watch)
    }

    pub(crate) fn after(&self) -> Revision {
        self.after
    }

    /// A call that is dropped half-way loses nothing: whatever was heard is kept until it is given.
    pub(crate) async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        let mut outage = self.server.journal.outage("watch");
        loop {
            let behind = self.read().await?;
            if !self.news.is_empty() && behind == 0 {
                return Ok(self.give());
            }
            let wait = if self.news.is_empty() { SILENCE } else { MORE };
            match tokio::time::timeout(wait, self.feed().await?.next()).await {
                Ok(Some(Ok(message))) => match message.info() {
                    Ok(info) => {
                        let (sequence, pending) = (info.stream_sequence, info.pending);
                        self.heard.push_back((Found { sequence, payload: message.payload.clone() }, pending));
                    }
                    Err(error) => outage.bear(Fault::Passing(error)).await?,
                },
                Ok(Some(Err(error))) => {
                    self.feed = None;
                    outage.bear(Fault::passing(error)).await?;
                }
                Ok(None) => self.feed = None,
                Err(_) if !self.news.is_empty() => return Ok(self.give()),
                Err(_) => self.look().await?,
            }
        }
    }

    fn give(&mut self) -> Vec<StoredEntry> {
        let news = std::mem::take(&mut self.news);
        self.after = news.last().map_or(self.after, |entry| entry.revision);
        news
    }

    /// Reads what was heard, and says how much there is still to hear.
    async fn read(&mut self) -> Result<u64, ReadError> {
        let mut behind = 0;
        while let Some((found, pending)) = self.heard.front() {
            let record = decode(found).map_err(|error| self.server.bad_message(error))?;
            behind = *pending;
            let newest = self.news.last().map_or(self.after, |entry| entry.revision);
            if let Some(committed) = record.committed()
                && record.head.revision > newest
            {
                let delta = self.server.delta(record.sequence, committed).await?;
                self.news.push(StoredEntry { revision: record.head.revision, body: delta.entry });
            }
            self.heard.pop_front();
        }
        Ok(behind)
    }

    /// Makes sure that silence means that nothing happened.
    async fn look(&mut self) -> Result<(), Unavailable> {
        let newest = self.server.newest(&self.run).await?;
        if newest.is_some_and(|newest| newest.head.revision > self.after) {
            self.feed = None;
        }
        Ok(())
    }

    async fn feed(&mut self) -> Result<&mut Ordered, Unavailable> {
        if self.feed.is_none() {
            let start = self.start().await?;
            let mut outage = self.server.journal.outage("watch");
            let feed = loop {
                match open(&self.server, &self.run, start).await {
                    Ok(feed) => break feed,
                    Err(fault) => outage.bear(fault).await?,
                }
            };
            self.feed = Some(feed);
        }
        Ok(self.feed.as_mut().expect("BUG: it was just opened"))
    }

    /// The sequence from which on there may be news. Too early a one does no harm.
    async fn start(&mut self) -> Result<u64, Unavailable> {
        let newest = self.news.last().map_or(self.after, |entry| entry.revision);
        match self.server.newest(&self.run).await? {
            Some(record) if newest >= record.head.revision => Ok(record.head.commit + 1),
            Some(record) if newest > Revision(0) => {
                let last = self.server.commit_of(&self.run, newest, &record).await?;
                Ok(last.map_or(1, |last| last.sequence + 1))
            }
            _ => Ok(1),
        }
    }
}

async fn open(server: &Server, run: &RunId, start: u64) -> Result<Ordered, Fault> {
    let journal = &server.journal;
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: start },
        filter_subject: subject(run),
        ..OrderedConfig::default()
    };
    let consumer = journal.stream.create_consumer(config).await;
    let consumer = consumer.map_err(|error| Fault::of_question(error, &journal.name))?;
    consumer.messages().await.map_err(Fault::passing)
}
