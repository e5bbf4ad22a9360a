//! The entry of a bucket that is a commit: the document on top, for everybody; our part under a name of its own.
//!
//! Our part holds the digest of the document, by which a change is noticed, and a seal over itself. What it says is what a
//! message of the journal says: where the run stands, and what the commit changed.

use async_nats::HeaderMap;
use bytes::Bytes;
use protocol::{Revision, RunId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::canonical::canonical;
use super::channel::Found;
use super::message::{Committed, Committing, Content, Entered, Head};
use super::wire::BadMessage;
use crate::external_write::ExternalChange;
use crate::{Digest, WriteId};

/// The member that is ours.
pub(super) const PART: &str = "callboard";
/// The format this program writes. A reader refuses a newer one.
const FORMAT: u32 = 1;

/// An entry whose part is as we wrote it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) sequence: u64,
    /// Without our part.
    pub(super) document: Map<String, Value>,
    pub(super) head: Head,
    pub(super) committed: Committed,
    /// Of the document as it was written.
    pub(super) digest: Digest,
}

/// What stands in the place of a document.
#[derive(Debug)]
pub(super) enum Read {
    Ours(Box<Entry>),
    /// Ours but for the document, which has another digest.
    Rewritten(Box<Entry>),
    Unfit(ExternalChange),
}

#[derive(Serialize, Deserialize)]
struct Part {
    format: u32,
    digest: Digest,
    seal: Digest,
    head: Head,
    content: Content,
}

/// The document as it shall be shown: its fields, less one that has the name of our part.
pub(super) fn shown(mut document: Map<String, Value>) -> Map<String, Value> {
    document.shift_remove(PART);
    document
}

pub(super) fn digest(document: &Map<String, Value>) -> Digest {
    Digest::of(canonical(&Value::Object(document.clone())))
}

/// The text of an entry.
pub(super) fn encode(
    run: &RunId,
    document: &Map<String, Value>,
    head: &Head,
    committing: &Committing<'_>,
) -> Bytes {
    let head = Head { entered: None, ..head.clone() };
    let content = json!({ "commit": committing });
    let mut part = json!({ "format": FORMAT, "digest": digest(document), "head": head, "content": content });
    part["seal"] = json!(seal(run, &part));
    let mut entry = document.clone();
    entry.insert(PART.to_owned(), part);
    super::wire::json(&entry)
}

/// A digest of our part, less the seal itself, and of whose it is: in another run's place it is not ours.
fn seal(run: &RunId, part: &Value) -> Digest {
    let mut part = part.clone();
    if let Some(members) = part.as_object_mut() {
        members.shift_remove("seal");
    }
    Digest::of([run.as_str().as_bytes(), b"\n", &canonical(&part)].concat())
}

/// What stands there. Fails only for what a newer program wrote.
pub(super) fn read(run: &RunId, found: &Found) -> Result<Read, BadMessage> {
    if is_deleted(&found.headers) {
        return Ok(Read::Unfit(ExternalChange::Deleted));
    }
    let Ok(Value::Object(mut document)) = serde_json::from_slice(&found.payload) else {
        return Ok(Read::Unfit(ExternalChange::NoObject));
    };
    let Some(part) = document.shift_remove(PART) else { return Ok(Read::Unfit(ExternalChange::NoPart)) };
    if let Some(format) = part["format"].as_u64().and_then(|format| u32::try_from(format).ok())
        && format > FORMAT
    {
        return Err(BadMessage::Newer { sequence: found.sequence, found: format });
    }
    // From its text: a delta is kept as it stands there.
    let read = serde_json::from_str::<Part>(&part.to_string());
    let Ok(Part { digest: written, seal: sealed, head, content: Content::Commit(committed), .. }) = read
    else {
        return Ok(Read::Unfit(ExternalChange::PartChanged));
    };
    if sealed != seal(run, &part) {
        return Ok(Read::Unfit(ExternalChange::PartChanged));
    }
    let is_ours = digest(&document) == written;
    let entry = Box::new(Entry { sequence: found.sequence, document, head, committed, digest: written });
    Ok(if is_ours { Read::Ours(entry) } else { Read::Rewritten(entry) })
}

impl Entry {
    /// Whether it is this one, or says the same again.
    pub(super) fn is(&self, entered: &Entered) -> bool {
        self.committed.write_id == entered.write_id && self.digest == entered.digest
    }

    pub(super) fn revision(&self) -> Revision {
        self.head.revision
    }

    pub(super) fn write_id(&self) -> WriteId {
        self.committed.write_id
    }

    pub(super) fn entered(&self, bucket: &str) -> Entered {
        Entered {
            bucket: bucket.to_owned(),
            sequence: self.sequence,
            write_id: self.write_id(),
            digest: self.digest.clone(),
        }
    }
}

const OPERATION: &str = "KV-Operation";

/// Clients delete a key by an entry that says so; the server leaves a mark of its own where it removed one.
pub(super) fn is_deleted(headers: &HeaderMap) -> bool {
    let operation = headers.get(OPERATION).map(async_nats::HeaderValue::as_str);
    operation.is_some_and(|operation| operation != "PUT") || headers.get("Nats-Marker-Reason").is_some()
}

/// What makes an entry say that its key is deleted.
pub(super) fn deletion() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(OPERATION, "DEL");
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::message::{Delta, Going, seal as commit_seal};

    fn run() -> RunId {
        RunId::new("peer.global.cycle.1").unwrap()
    }

    fn written(document: &Value) -> Bytes {
        let delta: Delta = serde_json::from_str(r#"{"entry":"{\"ü\":1.0}"}"#).unwrap();
        let write_id = WriteId::new();
        let seal = commit_seal(&run(), Revision(1), write_id, &delta.entry);
        let committing = Committing { write_id, seal, checkpoint: false, delta: Going::Workspace(&delta) };
        let head = Head { revision: Revision(1), ..Head::absent() };
        encode(&run(), document.as_object().unwrap(), &head, &committing)
    }

    fn found(payload: impl Into<Bytes>) -> Found {
        Found { sequence: 3, payload: payload.into(), headers: HeaderMap::new() }
    }

    fn read_as(payload: impl Into<Bytes>) -> Read {
        read(&run(), &found(payload)).unwrap()
    }

    #[test]
    fn the_document_stands_on_top_and_is_read_back() {
        let document = json!({ "version": 2, "phases": { "plan": { "status": "pending", "n": 1.5 } } });
        let payload = written(&document);
        let value: Value = serde_json::from_slice(&payload).unwrap();
        assert_eq!(value["phases"]["plan"]["status"], "pending");
        let Read::Ours(entry) = read_as(payload) else { panic!() };
        assert_eq!((Value::Object(entry.document.clone()), entry.revision()), (document, Revision(1)));
    }

    #[test]
    fn whoever_writes_it_again_in_another_form_changes_nothing() {
        let payload = written(&json!({ "b": [1.0, { "d": "ü", "c": 2 }], "a": {} }));
        fn turned(value: Value) -> Value {
            match value {
                Value::Object(members) => {
                    members.into_iter().rev().map(|(name, value)| (name, turned(value))).collect()
                }
                Value::Array(entries) => entries.into_iter().map(turned).collect(),
                Value::Number(number) if number.as_f64() == Some(1.0) => json!(1),
                value => value,
            }
        }
        let again = turned(serde_json::from_slice(&payload).unwrap());
        assert!(matches!(read_as(serde_json::to_vec_pretty(&again).unwrap()), Read::Ours(_)));
    }

    #[test]
    fn each_kind_of_meddling_has_its_name() {
        let payload = written(&json!({ "a": 1 }));
        let with = |change: &dyn Fn(&mut Value)| {
            let mut value: Value = serde_json::from_slice(&payload).unwrap();
            change(&mut value);
            serde_json::to_vec(&value).unwrap()
        };
        assert!(matches!(read_as(with(&|entry| entry["a"] = json!(2))), Read::Rewritten(_)));
        let unfit = |read: Read| match read {
            Read::Unfit(external) => external,
            other => panic!("{other:?}"),
        };
        assert_eq!(unfit(read_as("hello")), ExternalChange::NoObject);
        assert_eq!(unfit(read_as("[1]")), ExternalChange::NoObject);
        assert_eq!(unfit(read_as("{}")), ExternalChange::NoPart);
        let epoch = with(&|entry| entry[PART]["head"]["epoch"] = json!(9));
        assert_eq!(unfit(read_as(epoch)), ExternalChange::PartChanged);
        assert_eq!(unfit(read_as(with(&|entry| entry[PART] = json!(1)))), ExternalChange::PartChanged);
        let elsewhere = RunId::new("peer.global.cycle.2").unwrap();
        assert_eq!(unfit(read(&elsewhere, &found(payload.clone())).unwrap()), ExternalChange::PartChanged);
        let deleted = Found { headers: deletion(), ..found("") };
        assert_eq!(unfit(read(&run(), &deleted).unwrap()), ExternalChange::Deleted);
        let newer = found(with(&|entry| entry[PART]["format"] = json!(2)));
        assert!(matches!(read(&run(), &newer), Err(BadMessage::Newer { found: 2, .. })));
    }
}
