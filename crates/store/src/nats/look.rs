//! A run as journal and bucket have it together.
//!
//! Of a run whose document is kept in a bucket, the entry there is the commit, and the journal has a copy of what it
//! changed. Whoever looks and finds a copy missing makes it; then what is newest in the bucket is what the journal says, or
//! somebody else wrote it.

use std::time::Instant;

use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use protocol::RunId;
use serde_json::{Map, Value};

use super::bucket::{Bucket, key_of, subject_of};
use super::channel::{Found, Overtaken, Which};
use super::entry::{self, Entry, Read};
use super::journal::subject;
use super::known::Seen;
use super::message::{Content, Entered, Head, Record};
use super::server::Server;
use super::wire::{BadMessage, encode};
use crate::Token;
use crate::commit::Position;
use crate::error::Unavailable;
use crate::external_write::{ExternalChange, ExternalWrite, Rewritten};

/// A run at one instant.
#[derive(Debug)]
pub(super) struct Look {
    /// The newest message of its journal, if there is one.
    pub(super) record: Option<Record>,
    /// Where its document is, or could be.
    pub(super) place: Option<Box<Place>>,
}

/// The place of a document.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) bucket: Bucket,
    pub(super) subject: String,
    /// The sequence of what stands there, 0 if nothing does.
    pub(super) last: u64,
    /// The document that stands there, if it is ours.
    pub(super) shown: Option<Map<String, Value>>,
    pub(super) foreign: Option<ExternalWrite>,
}

impl Look {
    pub(super) fn head(&self) -> Head {
        self.record.as_ref().map_or_else(Head::absent, |record| record.head.clone())
    }

    pub(super) fn seen(&self) -> Seen {
        Seen::of(self.record.as_ref())
    }

    pub(super) fn foreign(&self) -> Option<&ExternalWrite> {
        self.place.as_ref()?.foreign.as_ref()
    }

    /// Where the run stands. Whoever has read a foreign write has another token than whoever has not.
    pub(super) fn position(&self) -> Position {
        let head = self.head();
        let token = self.foreign().map_or_else(|| head.token(), |foreign| Token(foreign.sequence));
        Position { revision: head.revision, token }
    }
}

/// What is found in the place of a document.
enum Stands {
    /// All that the journal should have, it has.
    Copied(Box<Place>),
    Beyond(Beyond),
}

/// What the journal had not when we asked it. Others may have copied it since.
enum Beyond {
    /// The next commit, and the bucket it is in.
    Next(Box<Entry>, String),
    /// A later one. The bucket keeps some entries only: while we looked, more may have been made than it keeps.
    Later(BadMessage),
}

impl Server {
    /// Looks at a run, and makes the copies that are missing.
    pub(super) async fn look(&self, run: &RunId) -> Result<Look, Unavailable> {
        // Whoever pauses loses again, so nobody does; but not for ever.
        let mut end = None;
        let mut lost_again = || {
            let now = Instant::now();
            if now < *end.get_or_insert(now + self.journal.patience.outage) {
                return Ok(());
            }
            let (server, source) =
                (self.journal.server.clone(), "others write to the run without pause".into());
            Err(Unavailable::Server { server, doing: "look at a run of", source })
        };
        // The journal first: an entry that is newer than what it says has then been there.
        let mut record = self.last(run).await?;
        loop {
            let head = record.as_ref().map_or_else(Head::absent, |record| record.head.clone());
            let Some((bucket, subject)) = self.place(run, &head).await? else {
                return Ok(Look { record, place: None });
            };
            let beyond = match Box::pin(self.stands(run, &head, bucket, subject)).await? {
                Stands::Copied(place) => return Ok(Look { record, place: Some(place) }),
                Stands::Beyond(beyond) => beyond,
            };
            // Among many writers the journal has mostly moved on while the bucket was asked.
            let seen = Seen::of(record.as_ref());
            record = self.last(run).await?;
            if record.as_ref().map_or(0, |record| record.sequence) != seen.sequence {
                lost_again()?;
                continue;
            }
            match beyond {
                Beyond::Next(entry, bucket) => {
                    // Somebody else may have made it; either way we look again.
                    if let Err(Overtaken) = self.copy(run, &seen, &entry, &bucket).await? {
                        lost_again()?;
                    }
                    record = self.last(run).await?;
                }
                Beyond::Later(ahead) => return Err(self.bad_message(run, ahead)),
            }
        }
    }

    /// Where the document of a run is kept, or would be. A run that has none has no place.
    async fn place(&self, run: &RunId, head: &Head) -> Result<Option<(Bucket, String)>, Unavailable> {
        let Some(key) = key_of(run) else { return Ok(None) };
        let bucket = match &head.entered {
            Some(entered) => Some(self.bucket_of(&entered.bucket).await?),
            None if head.exists() => None,
            None => self.bucket(&self.settings.bucket).await?,
        };
        Ok(bucket.map(|bucket| {
            let subject = subject_of(&bucket.name, key);
            (bucket, subject)
        }))
    }

    async fn stands(
        &self,
        run: &RunId,
        head: &Head,
        bucket: Bucket,
        subject: String,
    ) -> Result<Stands, Unavailable> {
        let found = bucket.channel.find(&subject, Which::Last).await?;
        let last = found.as_ref().map_or(0, |found| found.sequence);
        let mut place = Box::new(Place { bucket, subject, last, shown: None, foreign: None });
        let Some(found) = found else {
            if head.entered.is_some() {
                place.foreign = Some(place.foreign(None, Err(ExternalChange::Deleted)));
            }
            return Ok(Stands::Copied(place));
        };
        let newest = self.read_entry(run, &found)?;
        if let (Read::Ours(entry), Some(entered)) = (&newest, &head.entered)
            && entry.is(entered)
        {
            place.shown = Some(entry.document.clone());
            return Ok(Stands::Copied(place));
        }
        let since = self.since(run, head, &place, &found).await?;
        if let Some(ahead) = since.ahead {
            return Ok(Stands::Beyond(Beyond::Later(ahead)));
        }
        if let Some(entry) = since.uncopied {
            return Ok(Stands::Beyond(Beyond::Next(entry, place.bucket.name)));
        }
        place.foreign = match (&head.entered, newest) {
            (None, Read::Unfit(ExternalChange::Deleted)) => None,
            (None, _) => Some(place.foreign(Some(&found), Err(ExternalChange::NoPart))),
            (Some(entered), newest) => {
                let unseen = since.foreign > 1 && came_after(&found).is_none();
                let change = self.judge(run, entered, &place, newest, unseen).await?;
                Some(place.foreign(Some(&found), change))
            }
        };
        Ok(Stands::Copied(place))
    }

    pub(super) fn read_entry(&self, run: &RunId, found: &Found) -> Result<Read, Unavailable> {
        entry::read(run, found).map_err(|error| self.bad_message(run, error))
    }

    /// What was written to the place since the newest copy was made.
    async fn since(
        &self,
        run: &RunId,
        head: &Head,
        place: &Place,
        newest: &Found,
    ) -> Result<Since, Unavailable> {
        let mut since = Since { uncopied: None, ahead: None, foreign: 0 };
        let after = head.entered.as_ref().map_or(0, |entered| entered.sequence);
        if place.last <= after {
            return Ok(since);
        }
        let written = if came_after(newest) == Some(after) {
            vec![newest.clone()]
        } else {
            place.bucket.channel.scan(&place.subject, after + 1, place.last).await?
        };
        for found in written {
            match self.read_entry(run, &found)? {
                Read::Ours(entry) if entry.revision() == head.revision.next() => {
                    since.uncopied = Some(entry);
                    return Ok(since);
                }
                Read::Ours(entry) if entry.revision() > head.revision && head.exists() => {
                    let (found, newest) = (entry.revision(), head.revision);
                    since.ahead = Some(BadMessage::Ahead { sequence: entry.sequence, found, newest });
                    return Ok(since);
                }
                Read::Ours(entry) if head.entered.as_ref().is_some_and(|entered| entry.is(entered)) => {}
                Read::Ours(_) | Read::Rewritten(_) | Read::Unfit(_) => since.foreign += 1,
            }
        }
        Ok(since)
    }

    /// Whether a foreign write changed the newest document and nothing else.
    async fn judge(
        &self,
        run: &RunId,
        entered: &Entered,
        place: &Place,
        newest: Read,
        unseen: bool,
    ) -> Result<Result<Rewritten, ExternalChange>, Unavailable> {
        let entry = match newest {
            Read::Unfit(external) => return Ok(Err(external)),
            Read::Ours(entry) | Read::Rewritten(entry) => entry,
        };
        if entry.write_id() != entered.write_id {
            return Ok(Err(ExternalChange::Stale { from: entry.revision() }));
        }
        if entry.digest != entered.digest {
            return Ok(Err(ExternalChange::PartChanged));
        }
        if unseen {
            return Ok(Err(ExternalChange::Overwrote));
        }
        let ours = place.bucket.channel.find(&place.subject, Which::From(entered.sequence)).await?;
        let Some(ours) = ours.filter(|found| found.sequence == entered.sequence) else {
            return Ok(Err(ExternalChange::Unproven));
        };
        Ok(match self.read_entry(run, &ours)? {
            Read::Ours(ours) => Ok(Rewritten { ours: text(ours.document), theirs: text(entry.document) }),
            Read::Rewritten(_) | Read::Unfit(_) => Err(ExternalChange::Unproven),
        })
    }

    /// Copies a commit from the bucket to the journal, after what was seen there. Whoever does it, it is the same copy.
    pub(super) async fn copy(
        &self,
        run: &RunId,
        seen: &Seen,
        entry: &Entry,
        bucket: &str,
    ) -> Result<Result<u64, Overtaken>, Unavailable> {
        let head = copied(seen, entry, bucket);
        let payload = encode(&head, &Content::Commit(entry.committed.clone()));
        self.journal.append(&subject(run), seen.sequence, payload).await
    }
}

/// Where the run stands after a copy: as the entry says, but for what only the journal knows.
pub(super) fn copied(seen: &Seen, entry: &Entry, bucket: &str) -> Head {
    Head {
        commit: seen.head.commit,
        checkpoint: seen.head.checkpoint,
        epoch: seen.head.epoch,
        entered: Some(entry.entered(bucket)),
        ..entry.head.clone()
    }
}

/// A server that finds it compares with the last message of that subject instead. The client has no name for it.
const OF_ANOTHER_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// What stood in the place before, if its writer had to know it.
fn came_after(found: &Found) -> Option<u64> {
    if found.headers.get(OF_ANOTHER_SUBJECT).is_some() {
        return None;
    }
    found.headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE)?.as_str().parse().ok()
}

fn text(document: Map<String, Value>) -> String {
    Value::Object(document).to_string()
}

/// What was written to a place.
struct Since {
    uncopied: Option<Box<Entry>>,
    /// The oldest that is left there is newer than what could follow.
    ahead: Option<BadMessage>,
    /// How many entries that are not ours.
    foreign: usize,
}

impl Place {
    fn foreign(&self, found: Option<&Found>, change: Result<Rewritten, ExternalChange>) -> ExternalWrite {
        ExternalWrite {
            bucket: self.bucket.name.clone(),
            sequence: self.last,
            body: found.map(|found| found.payload.to_vec()).filter(|body| !body.is_empty()),
            change,
        }
    }
}
