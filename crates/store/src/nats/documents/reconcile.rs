//! A run as journal and bucket have it together.
//!
//! Of a run whose document is kept in a bucket, the entry there is the commit, and the journal has a copy of what it
//! changed. Whoever looks and finds a copy missing makes it; then what is newest in the bucket is what the journal says, or
//! somebody else wrote it.

use std::time::Instant;

use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use protocol::RunId;
use serde_json::{Map, Value};

use super::bucket::{Bucket, document_key, key_subject};
use super::entry::{DocumentEntry, ParsedEntry, parse_entry};
use crate::Token;
use crate::commit::Position;
use crate::error::Unavailable;
use crate::external::{ExternalChange, ExternalWrite, Rewritten};
use crate::nats::connection::{Conflict, Lookup, Session, StoredMessage};
use crate::nats::journal::{Content, EntryRef, Head, MessageError, Record, RunTip, encode, subject};

/// A run at one instant.
#[derive(Debug)]
pub(in crate::nats) struct CurrentRun {
    /// The newest message of its journal, if there is one.
    pub(in crate::nats) record: Option<Record>,
    /// Where its document is, or could be.
    pub(in crate::nats) slot: Option<Box<DocumentSlot>>,
}

/// The place of a document.
#[derive(Debug)]
pub(in crate::nats) struct DocumentSlot {
    pub(in crate::nats) bucket: Bucket,
    pub(in crate::nats) subject: String,
    /// The sequence of what stands there, 0 if nothing does.
    pub(in crate::nats) last: u64,
    /// The document that stands there, if it is ours.
    pub(in crate::nats) document: Option<Map<String, Value>>,
    pub(in crate::nats) foreign: Option<ExternalWrite>,
}

impl CurrentRun {
    pub(in crate::nats) fn head(&self) -> Head {
        self.record.as_ref().map_or_else(Head::absent, |record| record.head.clone())
    }

    pub(in crate::nats) fn tip(&self) -> RunTip {
        RunTip::of(self.record.as_ref())
    }

    pub(in crate::nats) fn foreign(&self) -> Option<&ExternalWrite> {
        self.slot.as_ref()?.foreign.as_ref()
    }

    /// Where the run stands. Whoever has read a foreign write has another token than whoever has not.
    pub(in crate::nats) fn position(&self) -> Position {
        let head = self.head();
        let token = self.foreign().map_or_else(|| head.token(), |foreign| Token(foreign.sequence));
        Position { revision: head.revision, token }
    }
}

/// What is found in the place of a document.
enum SlotState {
    /// All that the journal should have, it has.
    Copied(Box<DocumentSlot>),
    Uncopied(Uncopied),
}

/// What the journal had not when we asked it. Others may have copied it since.
enum Uncopied {
    /// The next commit, and the bucket it is in.
    Next(Box<DocumentEntry>, String),
    /// A later one. The bucket keeps some entries only: while we looked, more may have been made than it keeps.
    Gap(MessageError),
}

impl Session {
    /// Looks at a run, and makes the copies that are missing.
    pub(in crate::nats) async fn reconcile(&self, run: &RunId) -> Result<CurrentRun, Unavailable> {
        // Whoever pauses loses again, so nobody does; but not for ever.
        let mut end = None;
        let mut lost_again = || {
            let now = Instant::now();
            if now < *end.get_or_insert(now + self.journal.timeouts.outage) {
                return Ok(());
            }
            let (server, source) =
                (self.journal.server.clone(), "others write to the run without pause".into());
            Err(Unavailable::Server { server, doing: "look at a run of", source })
        };
        // The journal first: an entry that is newer than what it says has then been there.
        let mut record = self.last_record(run).await?;
        loop {
            let head = record.as_ref().map_or_else(Head::absent, |record| record.head.clone());
            let Some((bucket, subject)) = self.document_slot(run, &head).await? else {
                return Ok(CurrentRun { record, slot: None });
            };
            let uncopied = match Box::pin(self.read_slot(run, &head, bucket, subject)).await? {
                SlotState::Copied(slot) => return Ok(CurrentRun { record, slot: Some(slot) }),
                SlotState::Uncopied(uncopied) => uncopied,
            };
            // Among many writers the journal has mostly moved on while the bucket was asked.
            let tip = RunTip::of(record.as_ref());
            record = self.last_record(run).await?;
            if record.as_ref().map_or(0, |record| record.sequence) != tip.sequence {
                lost_again()?;
                continue;
            }
            match uncopied {
                Uncopied::Next(entry, bucket) => {
                    // Somebody else may have made it; either way we look again.
                    if let Err(Conflict) = self.copy(run, &tip, &entry, &bucket).await? {
                        lost_again()?;
                    }
                    record = self.last_record(run).await?;
                }
                Uncopied::Gap(ahead) => return Err(self.message_error(run, ahead)),
            }
        }
    }

    /// Where the document of a run is kept, or would be. A run that has none has no place.
    async fn document_slot(&self, run: &RunId, head: &Head) -> Result<Option<(Bucket, String)>, Unavailable> {
        let Some(key) = document_key(run) else { return Ok(None) };
        let bucket = match &head.document_entry {
            Some(document_entry) => Some(self.existing_bucket(&document_entry.bucket).await?),
            None if head.exists() => None,
            None => self.bucket(&self.settings.bucket).await?,
        };
        Ok(bucket.map(|bucket| {
            let subject = key_subject(&bucket.name, key);
            (bucket, subject)
        }))
    }

    async fn read_slot(
        &self,
        run: &RunId,
        head: &Head,
        bucket: Bucket,
        subject: String,
    ) -> Result<SlotState, Unavailable> {
        let found = bucket.handle.find(&subject, Lookup::Last).await?;
        let last = found.as_ref().map_or(0, |found| found.sequence);
        let mut slot = Box::new(DocumentSlot { bucket, subject, last, document: None, foreign: None });
        let Some(found) = found else {
            if head.document_entry.is_some() {
                slot.foreign = Some(slot.foreign(None, Err(ExternalChange::Deleted)));
            }
            return Ok(SlotState::Copied(slot));
        };
        let newest = self.parse_entry(run, &found)?;
        if let (ParsedEntry::Intact(entry), Some(document_entry)) = (&newest, &head.document_entry)
            && entry.matches(document_entry)
        {
            slot.document = Some(entry.document.clone());
            return Ok(SlotState::Copied(slot));
        }
        let since = self.changes_since_copy(run, head, &slot, &found).await?;
        if let Some(ahead) = since.ahead {
            return Ok(SlotState::Uncopied(Uncopied::Gap(ahead)));
        }
        if let Some(entry) = since.uncopied {
            return Ok(SlotState::Uncopied(Uncopied::Next(entry, slot.bucket.name)));
        }
        slot.foreign = match (&head.document_entry, newest) {
            (None, ParsedEntry::Invalid(ExternalChange::Deleted)) => None,
            (None, _) => Some(slot.foreign(Some(&found), Err(ExternalChange::NoPart))),
            (Some(document_entry), newest) => {
                let unseen = since.foreign > 1 && expected_sequence(&found).is_none();
                let change = self.classify(run, document_entry, &slot, newest, unseen).await?;
                Some(slot.foreign(Some(&found), change))
            }
        };
        Ok(SlotState::Copied(slot))
    }

    pub(in crate::nats) fn parse_entry(
        &self,
        run: &RunId,
        found: &StoredMessage,
    ) -> Result<ParsedEntry, Unavailable> {
        parse_entry(run, found).map_err(|error| self.message_error(run, error))
    }

    /// What was written to the place since the newest copy was made.
    async fn changes_since_copy(
        &self,
        run: &RunId,
        head: &Head,
        slot: &DocumentSlot,
        newest: &StoredMessage,
    ) -> Result<SlotChanges, Unavailable> {
        let mut since = SlotChanges { uncopied: None, ahead: None, foreign: 0 };
        let after = head.document_entry.as_ref().map_or(0, |document_entry| document_entry.sequence);
        if slot.last <= after {
            return Ok(since);
        }
        let written = if expected_sequence(newest) == Some(after) {
            vec![newest.clone()]
        } else {
            slot.bucket.handle.scan(&slot.subject, after + 1, slot.last).await?
        };
        for found in written {
            match self.parse_entry(run, &found)? {
                ParsedEntry::Intact(entry) if entry.revision() == head.revision.next() => {
                    since.uncopied = Some(entry);
                    return Ok(since);
                }
                ParsedEntry::Intact(entry) if entry.revision() > head.revision && head.exists() => {
                    let (found, newest) = (entry.revision(), head.revision);
                    since.ahead = Some(MessageError::Gap { sequence: entry.sequence, found, newest });
                    return Ok(since);
                }
                ParsedEntry::Intact(entry)
                    if head
                        .document_entry
                        .as_ref()
                        .is_some_and(|document_entry| entry.matches(document_entry)) => {}
                ParsedEntry::Intact(_) | ParsedEntry::DocumentChanged(_) | ParsedEntry::Invalid(_) => {
                    since.foreign += 1
                }
            }
        }
        Ok(since)
    }

    /// Whether a foreign write changed the newest document and nothing else.
    async fn classify(
        &self,
        run: &RunId,
        document_entry: &EntryRef,
        slot: &DocumentSlot,
        newest: ParsedEntry,
        unseen: bool,
    ) -> Result<Result<Rewritten, ExternalChange>, Unavailable> {
        let entry = match newest {
            ParsedEntry::Invalid(external) => return Ok(Err(external)),
            ParsedEntry::Intact(entry) | ParsedEntry::DocumentChanged(entry) => entry,
        };
        if entry.write_id() != document_entry.write_id {
            return Ok(Err(ExternalChange::Stale { from: entry.revision() }));
        }
        if entry.digest != document_entry.digest {
            return Ok(Err(ExternalChange::PartChanged));
        }
        if unseen {
            return Ok(Err(ExternalChange::Overwrote));
        }
        let ours = slot.bucket.handle.find(&slot.subject, Lookup::From(document_entry.sequence)).await?;
        let Some(ours) = ours.filter(|found| found.sequence == document_entry.sequence) else {
            return Ok(Err(ExternalChange::Unproven));
        };
        Ok(match self.parse_entry(run, &ours)? {
            ParsedEntry::Intact(ours) => {
                Ok(Rewritten { ours: text(ours.document), theirs: text(entry.document) })
            }
            ParsedEntry::DocumentChanged(_) | ParsedEntry::Invalid(_) => Err(ExternalChange::Unproven),
        })
    }

    /// Copies a commit from the bucket to the journal, after what was seen there. Whoever does it, it is the same copy.
    pub(in crate::nats) async fn copy(
        &self,
        run: &RunId,
        tip: &RunTip,
        entry: &DocumentEntry,
        bucket: &str,
    ) -> Result<Result<u64, Conflict>, Unavailable> {
        let head = copied_head(tip, entry, bucket);
        let payload = encode(&head, &Content::Commit(entry.committed.clone()));
        self.journal.append(&subject(run), tip.sequence, payload).await
    }
}

/// Where the run stands after a copy: as the entry says, but for what only the journal knows.
pub(in crate::nats) fn copied_head(tip: &RunTip, entry: &DocumentEntry, bucket: &str) -> Head {
    Head {
        commit: tip.head.commit,
        checkpoint: tip.head.checkpoint,
        epoch: tip.head.epoch,
        document_entry: Some(entry.entry_ref(bucket)),
        ..entry.head.clone()
    }
}

/// A server that finds it compares with the last message of that subject instead. The client has no name for it.
const OF_ANOTHER_SUBJECT: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// What stood in the place before, if its writer had to know it.
fn expected_sequence(found: &StoredMessage) -> Option<u64> {
    if found.headers.get(OF_ANOTHER_SUBJECT).is_some() {
        return None;
    }
    found.headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE)?.as_str().parse().ok()
}

fn text(document: Map<String, Value>) -> String {
    Value::Object(document).to_string()
}

/// What was written to a place.
struct SlotChanges {
    uncopied: Option<Box<DocumentEntry>>,
    /// The oldest that is left there is newer than what could follow.
    ahead: Option<MessageError>,
    /// How many entries that are not ours.
    foreign: usize,
}

impl DocumentSlot {
    fn foreign(
        &self,
        found: Option<&StoredMessage>,
        change: Result<Rewritten, ExternalChange>,
    ) -> ExternalWrite {
        ExternalWrite {
            bucket: self.bucket.name.clone(),
            sequence: self.last,
            body: found.map(|found| found.payload.to_vec()).filter(|body| !body.is_empty()),
            change,
        }
    }
}
