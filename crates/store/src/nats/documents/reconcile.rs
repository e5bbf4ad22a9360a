//! A run as journal and bucket together describe it.
//!
//! The entry in the bucket is the commit, and the journal has a copy of what it changed. A reader that finds a copy
//! missing writes it. After that the newest entry is the journal's newest commit, or an external write: one that another
//! program made at the document's key.

use std::time::Instant;

use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use protocol::RunId;
use serde_json::{Map, Value};

use super::bucket::{Bucket, document_key, key_subject};
use super::entry::{DocumentEntry, ParsedEntry, parse_entry};
use crate::Token;
use crate::commit::Position;
use crate::error::Unavailable;
use crate::external_write::{DocumentEdit, ExternalWrite, ExternalWriteRefusal};
use crate::nats::connection::{Conflict, Lookup, Session, StoredMessage};
use crate::nats::journal::{Content, EntryRef, Head, JournalEnd, MessageError, Record, encode, subject};

/// A run at one instant.
#[derive(Debug)]
pub(in crate::nats) struct CurrentRun {
    /// The last message of its journal, if there is one.
    pub(in crate::nats) record: Option<Record>,
    /// The key of its document, if it has or could have one.
    pub(in crate::nats) slot: Option<Box<DocumentSlot>>,
}

/// The key of a document and what is stored there.
#[derive(Debug)]
pub(in crate::nats) struct DocumentSlot {
    pub(in crate::nats) bucket: Bucket,
    pub(in crate::nats) subject: String,
    /// The sequence of the newest entry, 0 if there is none.
    pub(in crate::nats) last: u64,
    /// The document, if the newest entry is a commit.
    pub(in crate::nats) document: Option<Map<String, Value>>,
    pub(in crate::nats) external_write: Option<ExternalWrite>,
}

impl CurrentRun {
    pub(in crate::nats) fn head(&self) -> Head {
        self.record.as_ref().map_or_else(Head::absent, |record| record.head.clone())
    }

    pub(in crate::nats) fn journal_end(&self) -> JournalEnd {
        JournalEnd::of(self.record.as_ref())
    }

    pub(in crate::nats) fn external_write(&self) -> Option<&ExternalWrite> {
        self.slot.as_ref()?.external_write.as_ref()
    }

    /// Returns the position of the run. Its token changes with an external write, so that a commit shows whether its
    /// writer has seen it.
    pub(in crate::nats) fn position(&self) -> Position {
        let head = self.head();
        let token = self.external_write().map_or_else(|| head.token(), |write| Token(write.sequence));
        Position { revision: head.revision, token }
    }
}

/// The entry at a document's key, compared with the journal.
enum SlotState {
    /// The journal has every commit.
    Copied(Box<DocumentSlot>),
    Uncopied(UncopiedCommit),
}

/// A commit that the journal did not have when it was read. Another process may have copied it since.
enum UncopiedCommit {
    /// The next commit, and its bucket.
    Next(Box<DocumentEntry>, String),
    /// A later commit: the next one is no longer in the bucket, which keeps a limited number of entries.
    Gap(MessageError),
}

impl Session {
    /// Reads a run, and writes copies that are missing.
    pub(in crate::nats) async fn reconcile(&self, run: &RunId) -> Result<CurrentRun, Unavailable> {
        // No back-off here: a pause only loses the next race. Bounded by the outage timeout.
        let mut deadline = None;
        let mut check_deadline = || {
            let now = Instant::now();
            if now < *deadline.get_or_insert(now + self.journal.timeouts.outage) {
                return Ok(());
            }
            let (server, source) =
                (self.journal.server.clone(), "too many conflicts with other writers of the run".into());
            Err(Unavailable::Server { server, doing: "read a run from", source })
        };
        // The journal is read first, so that an entry newer than the journal is a missing copy and not a race.
        let mut record = self.last_journal_record(run).await?;
        loop {
            let head = record.as_ref().map_or_else(Head::absent, |record| record.head.clone());
            let Some((bucket, subject)) = self.document_slot(run, &head).await? else {
                return Ok(CurrentRun { record, slot: None });
            };
            let uncopied = match Box::pin(self.read_slot(run, &head, bucket, subject)).await? {
                SlotState::Copied(slot) => return Ok(CurrentRun { record, slot: Some(slot) }),
                SlotState::Uncopied(uncopied) => uncopied,
            };
            // With many writers, another process has usually written the copy meanwhile.
            let tip = JournalEnd::of(record.as_ref());
            record = self.last_journal_record(run).await?;
            if record.as_ref().map_or(0, |record| record.sequence) != tip.sequence {
                check_deadline()?;
                continue;
            }
            match uncopied {
                UncopiedCommit::Next(entry, bucket) => {
                    // Another process may have written the same copy. Read again in both cases.
                    if let Err(Conflict) = self.copy(run, &tip, &entry, &bucket).await? {
                        check_deadline()?;
                    }
                    record = self.last_journal_record(run).await?;
                }
                UncopiedCommit::Gap(gap) => return Err(self.message_error(run, gap)),
            }
        }
    }

    /// Returns the bucket and subject of a run's document, or `None` if the run has no document.
    async fn document_slot(&self, run: &RunId, head: &Head) -> Result<Option<(Bucket, String)>, Unavailable> {
        let Some(key) = document_key(run) else { return Ok(None) };
        let bucket = match &head.document_entry {
            Some(entry) => Some(self.existing_bucket(&entry.bucket).await?),
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
        let mut slot = Box::new(DocumentSlot { bucket, subject, last, document: None, external_write: None });
        let Some(found) = found else {
            if head.document_entry.is_some() {
                slot.external_write = Some(slot.external_write(None, Err(ExternalWriteRefusal::Deleted)));
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
        let changes = self.changes_since_copy(run, head, &slot, &found).await?;
        if let Some(gap) = changes.gap {
            return Ok(SlotState::Uncopied(UncopiedCommit::Gap(gap)));
        }
        if let Some(entry) = changes.uncopied {
            return Ok(SlotState::Uncopied(UncopiedCommit::Next(entry, slot.bucket.name)));
        }
        slot.external_write = match (&head.document_entry, newest) {
            (None, ParsedEntry::Invalid(ExternalWriteRefusal::Deleted)) => None,
            (None, _) => {
                Some(slot.external_write(Some(&found), Err(ExternalWriteRefusal::EnginePartMissing)))
            }
            (Some(document_entry), newest) => {
                let overwrote_unseen = changes.external_writes > 1 && expected_sequence(&found).is_none();
                let change = self.classify(run, document_entry, &slot, newest, overwrote_unseen).await?;
                Some(slot.external_write(Some(&found), change))
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

    /// Reads what was written to the key since the newest commit that the journal has. Stops at the first commit that it lacks.
    async fn changes_since_copy(
        &self,
        run: &RunId,
        head: &Head,
        slot: &DocumentSlot,
        newest: &StoredMessage,
    ) -> Result<SlotChanges, Unavailable> {
        let mut changes = SlotChanges { uncopied: None, gap: None, external_writes: 0 };
        let after = head.document_entry.as_ref().map_or(0, |entry| entry.sequence);
        if slot.last <= after {
            return Ok(changes);
        }
        let written = if expected_sequence(newest) == Some(after) {
            // By compare-and-set, so nothing was written in between.
            vec![newest.clone()]
        } else {
            slot.bucket.handle.scan(&slot.subject, after + 1, slot.last).await?
        };
        for found in written {
            match self.parse_entry(run, &found)? {
                ParsedEntry::Intact(entry) if entry.revision() == head.revision.next() => {
                    changes.uncopied = Some(entry);
                    return Ok(changes);
                }
                ParsedEntry::Intact(entry) if entry.revision() > head.revision && head.exists() => {
                    let (found, newest) = (entry.revision(), head.revision);
                    changes.gap = Some(MessageError::Gap { sequence: entry.sequence, found, newest });
                    return Ok(changes);
                }
                ParsedEntry::Intact(entry)
                    if head
                        .document_entry
                        .as_ref()
                        .is_some_and(|document_entry| entry.matches(document_entry)) => {}
                ParsedEntry::Intact(_) | ParsedEntry::DocumentChanged(_) | ParsedEntry::Invalid(_) => {
                    changes.external_writes += 1;
                }
            }
        }
        Ok(changes)
    }

    /// Decides whether an external write changed the newest document and nothing else. `overwrote_unseen`: there was an
    /// earlier external write, and this one was made without compare-and-set.
    async fn classify(
        &self,
        run: &RunId,
        document_entry: &EntryRef,
        slot: &DocumentSlot,
        newest: ParsedEntry,
        overwrote_unseen: bool,
    ) -> Result<Result<DocumentEdit, ExternalWriteRefusal>, Unavailable> {
        let entry = match newest {
            ParsedEntry::Invalid(refusal) => return Ok(Err(refusal)),
            ParsedEntry::Intact(entry) | ParsedEntry::DocumentChanged(entry) => entry,
        };
        if entry.write_id() != document_entry.write_id {
            return Ok(Err(ExternalWriteRefusal::Stale { from: entry.revision() }));
        }
        if entry.digest != document_entry.digest {
            return Ok(Err(ExternalWriteRefusal::EnginePartChanged));
        }
        if overwrote_unseen {
            return Ok(Err(ExternalWriteRefusal::OverwroteUnseen));
        }
        let ours = slot.bucket.handle.find(&slot.subject, Lookup::From(document_entry.sequence)).await?;
        let Some(ours) = ours.filter(|found| found.sequence == document_entry.sequence) else {
            return Ok(Err(ExternalWriteRefusal::BaseMissing));
        };
        Ok(match self.parse_entry(run, &ours)? {
            ParsedEntry::Intact(ours) => {
                Ok(DocumentEdit { before: json_text(ours.document), after: json_text(entry.document) })
            }
            ParsedEntry::DocumentChanged(_) | ParsedEntry::Invalid(_) => {
                Err(ExternalWriteRefusal::BaseMissing)
            }
        })
    }

    /// Copies a commit from the bucket to the journal. Every process writes the same copy.
    pub(in crate::nats) async fn copy(
        &self,
        run: &RunId,
        tip: &JournalEnd,
        entry: &DocumentEntry,
        bucket: &str,
    ) -> Result<Result<u64, Conflict>, Unavailable> {
        let head = copied_head(tip, entry, bucket);
        let payload = encode(&head, &Content::Commit(entry.committed.clone()));
        self.journal.append(&subject(run), tip.sequence, payload).await
    }
}

/// Returns the head after a copy: the entry's head with the fields that only the journal knows.
pub(super) fn copied_head(tip: &JournalEnd, entry: &DocumentEntry, bucket: &str) -> Head {
    Head {
        commit: tip.head.commit,
        checkpoint: tip.head.checkpoint,
        epoch: tip.head.epoch,
        document_entry: Some(entry.entry_ref(bucket)),
        ..entry.head.clone()
    }
}

/// Returns the sequence that the writer expected before this entry, if it used compare-and-set.
fn expected_sequence(found: &StoredMessage) -> Option<u64> {
    found.headers.get(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE)?.as_str().parse().ok()
}

fn json_text(document: Map<String, Value>) -> String {
    Value::Object(document).to_string()
}

/// What was written to a key since the newest commit that the journal has.
struct SlotChanges {
    /// The next commit, if the journal has no copy of it.
    uncopied: Option<Box<DocumentEntry>>,
    /// The next commit is gone: the first one found is a later one.
    gap: Option<MessageError>,
    /// The number of external writes.
    external_writes: usize,
}

impl DocumentSlot {
    fn external_write(
        &self,
        found: Option<&StoredMessage>,
        change: Result<DocumentEdit, ExternalWriteRefusal>,
    ) -> ExternalWrite {
        ExternalWrite {
            bucket: self.bucket.name.clone(),
            sequence: self.last,
            body: found.map(|found| found.payload.to_vec()).filter(|body| !body.is_empty()),
            change,
        }
    }
}
