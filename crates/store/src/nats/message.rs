//! What lies on the wire: one line of JSON per message of a run's subject, and behind it, as they are, the bodies of a
//! commit.
//!
//! Every message carries the run's head, small and up to date, so that the newest message alone tells where the run
//! stands. What a commit changed is its delta: in the message, or in a blob if it is large.

use bytes::Bytes;
use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::behind::{self, Behind, Following};
use super::channel::Found;
use crate::commit::{Commit, OutboxItem, Part, ViewMark, WriteId};
use crate::{Digest, Token};

/// The format this program writes. A reader refuses a newer one.
const FORMAT: u32 = 1;

/// A message and its place.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) sequence: u64,
    pub(super) head: Head,
    pub(super) content: Content,
    /// The sequence of the newest commit before this message.
    pub(super) before: u64,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    pub(super) protocol: String,
    pub(super) created: Timestamp,
    pub(super) revision: Revision,
    /// The sequence of the newest commit. A commit cannot know its own: there it is the one before.
    pub(super) commit: u64,
    /// The sequence of the newest commit with a checkpoint; the same holds.
    pub(super) checkpoint: Option<u64>,
    /// The newest engine's number.
    pub(super) epoch: Epoch,
    pub(super) summary: String,
    /// More of it is on its way from elsewhere: it is no run yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) arriving: bool,
    /// Of a run whose document is kept in a bucket: the entry there that is its newest commit. An entry cannot know its
    /// own place: there it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) entered: Option<Entered>,
}

/// An entry of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entered {
    pub(super) bucket: String,
    pub(super) sequence: u64,
    pub(super) write_id: WriteId,
    /// Of the document in it.
    pub(super) digest: Digest,
}

impl Head {
    /// Before anything was written.
    pub(super) fn absent() -> Self {
        Self {
            protocol: String::new(),
            created: Timestamp::UNIX_EPOCH,
            revision: Revision(0),
            commit: 0,
            checkpoint: None,
            epoch: Epoch(0),
            summary: String::new(),
            arriving: false,
            entered: None,
        }
    }

    /// Whether there is a run: somebody may lead it before its first commit.
    pub(super) fn exists(&self) -> bool {
        self.has_begun() && !self.arriving
    }

    pub(super) fn has_begun(&self) -> bool {
        self.revision != Revision(0)
    }

    pub(super) fn token(&self) -> Token {
        Token(self.entered.as_ref().map_or(self.commit, |entered| entered.sequence))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Content {
    Commit(Committed),
    /// A new engine. Being on the run's own subject it ends every compare-and-set of the one before.
    Lead {
        lease: String,
    },
    /// What was written to view files outside a commit.
    Marks {
        id: String,
        views: Vec<ViewMark>,
    },
    /// Nothing, but in the way of a write whose outcome was not known: from now on it cannot land.
    Fence {
        against: WriteId,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Committed {
    pub(super) write_id: WriteId,
    /// A digest of run, revision, write id and entry, by which a changed byte is noticed.
    pub(super) seal: Digest,
    /// Whether the delta has a checkpoint.
    pub(super) checkpoint: bool,
    pub(super) delta: Place,
}

/// Where a delta is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    Here(Box<RawValue>),
    Behind(Behind),
    Blob(Digest),
}

/// A [`Committed`] on its way.
#[derive(Debug, Serialize)]
pub(super) struct Committing<'a> {
    pub(super) write_id: WriteId,
    pub(super) seal: Digest,
    pub(super) checkpoint: bool,
    pub(super) delta: Going<'a>,
}

/// A [`Place`] on its way.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Going<'a> {
    Here(&'a Delta),
    Behind(Following<'a>),
    Blob(Digest),
}

/// What a commit changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Delta {
    pub(super) entry: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) acknowledged: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) outbox: Vec<OutboxItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) views: Vec<ViewMark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<Checkpoint>,
}

/// All that the messages up to this one add up to, so that nobody has to read them again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// The writer's own: its state.
    pub(super) snapshot: String,
    pub(super) outbox: Vec<OutboxItem>,
    pub(super) views: Vec<ViewMark>,
    /// Which commit has the newest body of each part, save for those in this very delta.
    pub(super) parts: Vec<(String, u64)>,
}

impl Delta {
    /// What the writer wants to change. The checkpoint is for whoever knows what came before.
    pub(super) fn of(commit: &Commit) -> Self {
        Self {
            entry: commit.entry.clone(),
            parts: commit.parts.clone(),
            acknowledged: commit.acknowledged.clone(),
            outbox: commit.outbox.clone(),
            views: commit.views.clone(),
            checkpoint: None,
        }
    }
}

pub(super) fn seal(run: &RunId, revision: Revision, write_id: WriteId, entry: &str) -> Digest {
    Digest::of_all(&[&format!("{run}\n{revision}\n{write_id}\n"), entry])
}

#[derive(Serialize, Deserialize)]
struct Wire {
    format: u32,
    head: Head,
    content: Content,
}

/// A message that is not as we write them.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadMessage {
    #[error("message {sequence} has format {found}; this callboard knows {FORMAT}")]
    Newer { sequence: u64, found: u32 },
    #[error("message {sequence} is not one of ours")]
    Foreign { sequence: u64, source: serde_json::Error },
    /// It says that it is ours: perhaps of a program that has more to say than this one.
    #[error("message {sequence} has a format that this callboard knows, and is not as it writes them")]
    Unlike { sequence: u64, source: serde_json::Error },
    #[error("entry {sequence} is of revision {found}, and the journal ends with revision {newest}")]
    Ahead { sequence: u64, found: Revision, newest: Revision },
    #[error("message {sequence} is not as long as it says")]
    Torn { sequence: u64 },
    #[error("message {sequence} is missing")]
    Missing { sequence: u64 },
    #[error("the blob `{digest}` of message {sequence} is missing")]
    NoBlob { sequence: u64, digest: Digest },
}

pub(super) fn encode(head: &Head, content: &Content) -> Bytes {
    encoded(head, content, 0).into()
}

/// The same for a commit whose delta is not text yet: its bodies follow the line, if they can. `size` is about how large
/// that will be.
pub(super) fn encode_commit(head: &Head, committed: &Committing<'_>, size: usize) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Content<'a> {
        Commit(&'a Committing<'a>),
    }
    match &committed.delta {
        Going::Here(delta) if let Some(following) = Following::of(delta) => {
            let seal = committed.seal.clone();
            let committed = Committing { seal, delta: Going::Behind(following), ..*committed };
            let mut text = encoded(head, &Content::Commit(&committed), size);
            text.push(END_OF_LINE);
            behind::bodies(delta).for_each(|body| text.extend_from_slice(body.as_bytes()));
            text.into()
        }
        Going::Here(_) | Going::Behind(_) | Going::Blob(_) => {
            encoded(head, &Content::Commit(committed), size).into()
        }
    }
}

fn encoded(head: &Head, content: &impl Serialize, size: usize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Borrowed<'a, C> {
        format: u32,
        head: &'a Head,
        content: &'a C,
    }
    let mut text = Vec::with_capacity(size + ABOUT_A_HEAD);
    serde_json::to_writer(&mut text, &Borrowed { format: FORMAT, head, content }).expect(PLAIN);
    text
}

/// JSON as we write it has none of these.
const END_OF_LINE: u8 = b'\n';

/// What a message needs besides what its writer put into it.
const ABOUT_A_HEAD: usize = 1024;
const PLAIN: &str = "BUG: texts, numbers and lists are JSON";

/// Our own types as text.
pub(super) fn json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect(PLAIN).into()
}

pub(super) fn decode(found: &Found) -> Result<Record, BadMessage> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let sequence = found.sequence;
    let end = found.payload.iter().position(|byte| *byte == END_OF_LINE).unwrap_or(found.payload.len());
    let line = &found.payload[..end];
    let Wire { format, mut head, mut content } = match serde_json::from_slice(line) {
        Ok(wire) => wire,
        Err(error) => match serde_json::from_slice(line) {
            Ok(Format { format }) if format > FORMAT => {
                return Err(BadMessage::Newer { sequence, found: format });
            }
            Ok(Format { .. }) => return Err(BadMessage::Unlike { sequence, source: error }),
            Err(_) => return Err(BadMessage::Foreign { sequence, source: error }),
        },
    };
    if format > FORMAT {
        return Err(BadMessage::Newer { sequence, found: format });
    }
    let before = head.commit;
    if let Content::Commit(committed) = &mut content {
        if let Place::Behind(behind) = &mut committed.delta {
            behind.bodies = found.payload.slice((end + 1).min(found.payload.len())..);
        }
        head.commit = sequence;
        if committed.checkpoint {
            head.checkpoint = Some(sequence);
        }
    }
    Ok(Record { sequence, head, content, before })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sequence: u64, payload: Bytes) -> Found {
        Found { sequence, payload, headers: async_nats::HeaderMap::new() }
    }

    #[test]
    fn a_commit_knows_its_place_only_when_it_is_read() {
        let delta = RawValue::from_string("{\"entry\":\"\"}".to_owned()).unwrap();
        let committed = Committed {
            write_id: WriteId::new(),
            seal: Digest::of(""),
            checkpoint: true,
            delta: Place::Here(delta),
        };
        let head = Head { revision: Revision(4), commit: 7, checkpoint: Some(3), ..Head::absent() };
        let payload = encode(&head, &Content::Commit(committed));
        let record = decode(&found(9, payload)).unwrap();
        assert_eq!((record.head.commit, record.head.checkpoint), (9, Some(9)));
        let payload = encode(&head, &Content::Lead { lease: String::new() });
        let record = decode(&found(9, payload)).unwrap();
        assert_eq!(record.head, head);
    }

    #[test]
    fn a_commit_on_its_way_is_read_as_a_commit() {
        let run = RunId::new("r").unwrap();
        let (write_id, head) = (WriteId::new(), Head { revision: Revision(1), ..Head::absent() });
        let delta: Delta = serde_json::from_str("{\"entry\":\"ü\\n\"}").unwrap();
        for going in [Going::Here(&delta), Going::Blob(Digest::of("elsewhere"))] {
            let is_here = matches!(going, Going::Here(_));
            let seal = seal(&run, Revision(1), write_id, &delta.entry);
            let committing = Committing { write_id, seal: seal.clone(), checkpoint: false, delta: going };
            let payload = encode_commit(&head, &committing, 0);
            let record = decode(&found(3, payload)).unwrap();
            let Content::Commit(committed) = record.content else { panic!() };
            assert_eq!((committed.write_id, committed.seal, committed.checkpoint), (write_id, seal, false));
            match committed.delta {
                Place::Behind(behind) => {
                    assert!(is_here);
                    assert_eq!(behind.delta().unwrap().entry, "ü\n");
                }
                Place::Blob(digest) => assert!(!is_here && digest == Digest::of("elsewhere")),
                Place::Here(_) => panic!("only with a checkpoint"),
            }
        }
    }

    #[test]
    fn a_message_that_lost_bytes_or_got_some_is_noticed() {
        let delta: Delta = serde_json::from_str(
            r#"{"entry":"ü","parts":[{"path":"p","body":"{}"}],"outbox":[{"id":"o","body":"\""}]}"#,
        )
        .unwrap();
        let (write_id, seal) = (WriteId::new(), Digest::of(""));
        let committing = Committing { write_id, seal, checkpoint: false, delta: Going::Here(&delta) };
        let whole = encode_commit(&Head::absent(), &committing, 0);
        assert!(whole.ends_with("\nü{}\"".as_bytes()));
        let read = |payload: Bytes| {
            let record = decode(&found(1, payload)).unwrap();
            let Content::Commit(Committed { delta: Place::Behind(behind), .. }) = record.content else {
                panic!()
            };
            behind.delta()
        };
        assert_eq!(read(whole.clone()).unwrap().parts, delta.parts);
        for lost in 1..=6 {
            assert!(read(whole.slice(..whole.len() - lost)).is_none(), "{lost} bytes fewer");
        }
        assert!(read([whole, Bytes::from_static(b"\n")].concat().into()).is_none(), "one byte more");
    }

    #[test]
    fn what_is_newer_or_foreign_is_told_apart() {
        let read = |text: &str| decode(&found(1, text.to_owned().into())).unwrap_err();
        assert!(matches!(read("{\"format\":2,\"body\":{}}"), BadMessage::Newer { found: 2, .. }));
        assert!(matches!(read("{\"format\":1}"), BadMessage::Unlike { .. }));
        assert!(matches!(read("hello"), BadMessage::Foreign { .. }));
    }
}
