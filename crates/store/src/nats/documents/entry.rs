//! An entry of the bucket: the document's fields at the top level, and the engine's part under one name.
//!
//! The engine's part is what a message of the journal holds: the run's head and what the commit changed. A digest of
//! the document in it shows whether another client changed the document, and a checksum whether it changed the engine's
//! part.

use async_nats::HeaderMap;
use bytes::Bytes;
use protocol::{Revision, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::canonical::canonical;
use crate::external_write::ExternalWriteRefusal;
use crate::nats::connection::StoredMessage;
use crate::nats::journal::{CommitMessage, Content, EntryRef, Head, MessageError, OutgoingCommit};
use crate::{Digest, WriteId};

/// The member with the engine's part.
pub(super) const ENGINE_PART: &str = "callboard";
/// The format that this version writes. A newer one is refused.
const FORMAT: u32 = 1;

/// An entry whose engine part is unchanged.
#[derive(Debug, Clone)]
pub(in crate::nats) struct DocumentEntry {
    pub(in crate::nats) sequence: u64,
    /// Without the engine's part.
    pub(in crate::nats) document: Map<String, Value>,
    pub(in crate::nats) head: Head,
    pub(in crate::nats) committed: CommitMessage,
    /// The digest of the document as it was committed.
    pub(in crate::nats) digest: Digest,
}

/// The content of a document's key.
#[derive(Debug)]
pub(in crate::nats) enum ParsedEntry {
    Intact(Box<DocumentEntry>),
    /// The engine's part is unchanged, the document is not.
    DocumentChanged(Box<DocumentEntry>),
    Invalid(ExternalWriteRefusal),
}

#[derive(Serialize, Deserialize)]
struct EnginePart {
    format: u32,
    document_digest: Digest,
    checksum: Digest,
    head: Head,
    content: Content,
}

/// Removes a member that has the name of the engine's part.
pub(super) fn without_engine_part(mut document: Map<String, Value>) -> Map<String, Value> {
    document.shift_remove(ENGINE_PART);
    document
}

pub(in crate::nats) fn digest(document: &Map<String, Value>) -> Digest {
    Digest::of(canonical(&Value::Object(document.clone())))
}

/// Encodes an entry.
pub(in crate::nats) fn encode(
    run: &RunId,
    document: &Map<String, Value>,
    head: &Head,
    outgoing: &OutgoingCommit<'_>,
) -> Bytes {
    // The reference to this entry is for heads in the journal: the entry's own sequence is not known before the write.
    let head = Head { document_entry: None, ..head.clone() };
    let content = json!({ "commit": outgoing });
    let mut part =
        json!({ "format": FORMAT, "document_digest": digest(document), "head": head, "content": content });
    part["checksum"] = json!(checksum(run, &part));
    let mut entry = document.clone();
    entry.insert(ENGINE_PART.to_owned(), part);
    crate::nats::journal::json(&entry)
}

/// Computes the digest of the run and of the engine's part without its checksum. The run is included so that an entry
/// that was copied to another key is noticed.
fn checksum(run: &RunId, part: &Value) -> Digest {
    let mut part = part.clone();
    if let Some(members) = part.as_object_mut() {
        members.shift_remove("checksum");
    }
    Digest::of([run.as_str().as_bytes(), b"\n", &canonical(&part)].concat())
}

/// Parses an entry. Fails only if a newer version wrote it.
pub(in crate::nats) fn parse_entry(run: &RunId, found: &StoredMessage) -> Result<ParsedEntry, MessageError> {
    if is_deleted(&found.headers) {
        return Ok(ParsedEntry::Invalid(ExternalWriteRefusal::Deleted));
    }
    let Ok(Value::Object(mut document)) = serde_json::from_slice(&found.payload) else {
        return Ok(ParsedEntry::Invalid(ExternalWriteRefusal::NotAnObject));
    };
    let Some(part) = document.shift_remove(ENGINE_PART) else {
        return Ok(ParsedEntry::Invalid(ExternalWriteRefusal::EnginePartMissing));
    };
    if let Some(format) = part["format"].as_u64().and_then(|format| u32::try_from(format).ok())
        && format > FORMAT
    {
        return Err(MessageError::Newer { sequence: found.sequence, found: format });
    }
    // Parsed from its text, because the delta is a `RawValue`, which cannot be parsed from a `Value`.
    let parsed = serde_json::from_str::<EnginePart>(&part.to_string());
    let Ok(EnginePart {
        document_digest,
        checksum: stored_checksum,
        head,
        content: Content::Commit(committed),
        ..
    }) = parsed
    else {
        return Ok(ParsedEntry::Invalid(ExternalWriteRefusal::EnginePartChanged));
    };
    if stored_checksum != checksum(run, &part) {
        return Ok(ParsedEntry::Invalid(ExternalWriteRefusal::EnginePartChanged));
    }
    let is_unchanged = digest(&document) == document_digest;
    let entry = Box::new(DocumentEntry {
        sequence: found.sequence,
        document,
        head,
        committed,
        digest: document_digest,
    });
    Ok(if is_unchanged { ParsedEntry::Intact(entry) } else { ParsedEntry::DocumentChanged(entry) })
}

impl DocumentEntry {
    /// Whether the entry was written by the referenced commit: by the same write, with the same document.
    pub(in crate::nats) fn matches(&self, document_entry: &EntryRef) -> bool {
        self.committed.write_id == document_entry.write_id && self.digest == document_entry.digest
    }

    pub(in crate::nats) fn revision(&self) -> Revision {
        self.head.revision
    }

    pub(in crate::nats) fn write_id(&self) -> WriteId {
        self.committed.write_id
    }

    pub(super) fn entry_ref(&self, bucket: &str) -> EntryRef {
        EntryRef {
            bucket: bucket.to_owned(),
            sequence: self.sequence,
            write_id: self.write_id(),
            digest: self.digest.clone(),
        }
    }
}

const OPERATION: &str = "KV-Operation";

/// Clients delete a key with an entry that says so. The server leaves a marker of its own where it removed a key.
pub(in crate::nats) fn is_deleted(headers: &HeaderMap) -> bool {
    let operation = headers.get(OPERATION).map(async_nats::HeaderValue::as_str);
    operation.is_some_and(|operation| operation != "PUT") || headers.get("Nats-Marker-Reason").is_some()
}

/// The headers of an entry that deletes its key.
pub(in crate::nats) fn deletion_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(OPERATION, "DEL");
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::journal::{Delta, OutgoingDelta, checksum as commit_checksum};

    fn run() -> RunId {
        RunId::new("peer.global.cycle.1").unwrap()
    }

    fn encoded_entry(document: &Value) -> Bytes {
        let delta: Delta = serde_json::from_str(r#"{"entry":"{\"ü\":1.0}"}"#).unwrap();
        let write_id = WriteId::new();
        let checksum = commit_checksum(&run(), Revision(1), write_id, &delta.entry);
        let outgoing =
            OutgoingCommit { write_id, checksum, checkpoint: false, delta: OutgoingDelta::Inline(&delta) };
        let head = Head { revision: Revision(1), ..Head::absent() };
        encode(&run(), document.as_object().unwrap(), &head, &outgoing)
    }

    fn found(payload: impl Into<Bytes>) -> StoredMessage {
        StoredMessage { sequence: 3, payload: payload.into(), headers: HeaderMap::new() }
    }

    fn parse(payload: impl Into<Bytes>) -> ParsedEntry {
        parse_entry(&run(), &found(payload)).unwrap()
    }

    #[test]
    fn the_document_is_the_top_level_of_its_entry() {
        let document = json!({ "version": 2, "phases": { "plan": { "status": "pending", "n": 1.5 } } });
        let payload = encoded_entry(&document);
        let value: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(value["phases"]["plan"]["status"], "pending");
        let ParsedEntry::Intact(entry) = parse(payload) else { panic!() };
        assert_eq!((Value::Object(entry.document.clone()), entry.revision()), (document, Revision(1)));
    }

    #[test]
    fn reformatting_an_entry_does_not_change_it() {
        let payload = encoded_entry(&json!({ "b": [1.0, { "d": "ü", "c": 2 }], "a": {} }));
        fn reversed(value: Value) -> Value {
            match value {
                Value::Object(members) => {
                    members.into_iter().rev().map(|(name, value)| (name, reversed(value))).collect()
                }
                Value::Array(entries) => entries.into_iter().map(reversed).collect(),
                Value::Number(number) if number.as_f64() == Some(1.0) => json!(1),
                value => value,
            }
        }
        let again = reversed(serde_json::from_slice(&payload).unwrap());
        assert!(matches!(parse(serde_json::to_vec_pretty(&again).unwrap()), ParsedEntry::Intact(_)));
    }

    #[test]
    fn each_kind_of_external_change_is_recognised() {
        let payload = encoded_entry(&json!({ "a": 1 }));
        let with = |change: &dyn Fn(&mut Value)| {
            let mut value: Value = serde_json::from_slice(&payload).unwrap();
            change(&mut value);
            serde_json::to_vec(&value).unwrap()
        };
        assert!(matches!(parse(with(&|entry| entry["a"] = json!(2))), ParsedEntry::DocumentChanged(_)));
        let reason = |read: ParsedEntry| match read {
            ParsedEntry::Invalid(refusal) => refusal,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(parse("hello")), ExternalWriteRefusal::NotAnObject);
        assert_eq!(reason(parse("[1]")), ExternalWriteRefusal::NotAnObject);
        assert_eq!(reason(parse("{}")), ExternalWriteRefusal::EnginePartMissing);
        let epoch = with(&|entry| entry[ENGINE_PART]["head"]["epoch"] = json!(9));
        assert_eq!(reason(parse(epoch)), ExternalWriteRefusal::EnginePartChanged);
        assert_eq!(
            reason(parse(with(&|entry| entry[ENGINE_PART] = json!(1)))),
            ExternalWriteRefusal::EnginePartChanged
        );
        let other_run = RunId::new("peer.global.cycle.2").unwrap();
        assert_eq!(
            reason(parse_entry(&other_run, &found(payload.clone())).unwrap()),
            ExternalWriteRefusal::EnginePartChanged
        );
        let deleted = StoredMessage { headers: deletion_headers(), ..found("") };
        assert_eq!(reason(parse_entry(&run(), &deleted).unwrap()), ExternalWriteRefusal::Deleted);
        let newer = found(with(&|entry| entry[ENGINE_PART]["format"] = json!(2)));
        assert!(matches!(parse_entry(&run(), &newer), Err(MessageError::Newer { found: 2, .. })));
    }
}
