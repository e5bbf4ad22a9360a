//! Encoding of messages: one line of JSON, which for most commits is followed by the bodies of entry, parts and outbox.

use bytes::Bytes;
use protocol::Revision;
use serde::{Deserialize, Serialize};

use super::message::{Content, DeltaLocation, Head, OutgoingCommit, OutgoingDelta, Record};
use super::trailer::{self, OutgoingTrailer};
use crate::Digest;
use crate::nats::connection::StoredMessage;

/// The format that this version writes. A newer one is refused.
const FORMAT: u32 = 1;

/// The first line of a message.
#[derive(Serialize, Deserialize)]
struct FirstLine {
    format: u32,
    head: Head,
    content: Content,
}

/// A message that cannot be parsed, or is missing.
#[derive(Debug, thiserror::Error)]
pub(in crate::nats) enum MessageError {
    #[error("message {sequence} has format {found}; this version of callboard reads format {FORMAT}")]
    Newer { sequence: u64, found: u32 },
    #[error("message {sequence} was not written by callboard")]
    Unknown { sequence: u64, source: serde_json::Error },
    /// It has our format, so Callboard wrote it: perhaps a version with more kinds of content.
    #[error("message {sequence} has a known format and cannot be parsed")]
    Malformed { sequence: u64, source: serde_json::Error },
    #[error("entry {sequence} has revision {found}, and the journal ends at revision {newest}")]
    Gap { sequence: u64, found: Revision, newest: Revision },
    #[error("message {sequence} does not have the length it states")]
    Truncated { sequence: u64 },
    #[error("message {sequence} is missing")]
    Missing { sequence: u64 },
    #[error("the blob `{digest}` of message {sequence} is missing")]
    MissingBlob { sequence: u64, digest: Digest },
}

pub(in crate::nats) fn encode(head: &Head, content: &Content) -> Bytes {
    encode_line(head, content, 0).into()
}

/// Encodes a commit. The bodies of its delta follow the line (see `trailer`), unless the delta has a checkpoint or is in a
/// blob. `size` is an estimate of the message's length.
pub(super) fn encode_commit(head: &Head, committed: &OutgoingCommit<'_>, size: usize) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    enum Content<'a> {
        Commit(&'a OutgoingCommit<'a>),
    }
    match &committed.delta {
        OutgoingDelta::Inline(delta) if let Some(outgoing_trailer) = OutgoingTrailer::of(delta) => {
            let checksum = committed.checksum.clone();
            let committed =
                OutgoingCommit { checksum, delta: OutgoingDelta::Trailer(outgoing_trailer), ..*committed };
            let mut text = encode_line(head, &Content::Commit(&committed), size);
            text.push(END_OF_LINE);
            trailer::bodies(delta).for_each(|body| text.extend_from_slice(body.as_bytes()));
            text.into()
        }
        OutgoingDelta::Inline(_) | OutgoingDelta::Trailer(_) | OutgoingDelta::Blob(_) => {
            encode_line(head, &Content::Commit(committed), size).into()
        }
    }
}

fn encode_line(head: &Head, content: &impl Serialize, size: usize) -> Vec<u8> {
    #[derive(Serialize)]
    struct OutgoingMessage<'a, C> {
        format: u32,
        head: &'a Head,
        content: &'a C,
    }
    let mut text = Vec::with_capacity(size + HEAD_CAPACITY);
    serde_json::to_writer(&mut text, &OutgoingMessage { format: FORMAT, head, content }).expect(SERIALIZABLE);
    text
}

/// Compact JSON contains no newline.
const END_OF_LINE: u8 = b'\n';

/// An estimate of the length of the line without bodies.
const HEAD_CAPACITY: usize = 1024;
const SERIALIZABLE: &str = "BUG: texts, numbers and lists are JSON";

/// Serializes one of our own types.
pub(in crate::nats) fn json<T: Serialize>(value: &T) -> Bytes {
    serde_json::to_vec(value).expect(SERIALIZABLE).into()
}

/// Decodes a message. A commit does not contain its own sequence, so its head gets it here.
pub(in crate::nats) fn decode(found: &StoredMessage) -> Result<Record, MessageError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let sequence = found.sequence;
    let end = found.payload.iter().position(|byte| *byte == END_OF_LINE).unwrap_or(found.payload.len());
    let line = &found.payload[..end];
    let FirstLine { format, mut head, mut content } = match serde_json::from_slice(line) {
        Ok(first_line) => first_line,
        Err(error) => match serde_json::from_slice(line) {
            Ok(Format { format }) if format > FORMAT => {
                return Err(MessageError::Newer { sequence, found: format });
            }
            Ok(Format { .. }) => return Err(MessageError::Malformed { sequence, source: error }),
            Err(_) => return Err(MessageError::Unknown { sequence, source: error }),
        },
    };
    if format > FORMAT {
        return Err(MessageError::Newer { sequence, found: format });
    }
    let previous_commit = head.commit;
    if let Content::Commit(committed) = &mut content {
        if let DeltaLocation::Trailer(trailer) = &mut committed.delta {
            trailer.bodies = found.payload.slice((end + 1).min(found.payload.len())..);
        }
        head.commit = sequence;
        if committed.checkpoint {
            head.checkpoint = Some(sequence);
        }
    }
    Ok(Record { sequence, head, content, previous_commit })
}

#[cfg(test)]
mod tests {
    use protocol::RunId;
    use serde_json::value::RawValue;

    use super::*;
    use crate::WriteId;
    use crate::nats::journal::message::{CommitMessage, Delta, checksum};

    fn found(sequence: u64, payload: Bytes) -> StoredMessage {
        StoredMessage { sequence, payload, headers: async_nats::HeaderMap::new() }
    }

    #[test]
    fn a_commit_gets_its_sequence_when_it_is_decoded() {
        let delta = RawValue::from_string("{\"entry\":\"\"}".to_owned()).unwrap();
        let committed = CommitMessage {
            write_id: WriteId::new(),
            checksum: Digest::of(""),
            checkpoint: true,
            delta: DeltaLocation::Inline(delta),
        };
        let head = Head { revision: Revision(4), commit: 7, checkpoint: Some(3), ..Head::absent() };
        let payload = encode(&head, &Content::Commit(committed));
        let record = decode(&found(9, payload)).unwrap();
        assert_eq!((record.head.commit, record.head.checkpoint), (9, Some(9)));
        let payload = encode(&head, &Content::EngineLock { lease: String::new() });
        let record = decode(&found(9, payload)).unwrap();
        assert_eq!(record.head, head);
    }

    #[test]
    fn an_encoded_commit_is_decoded_unchanged() {
        let run = RunId::new("r").unwrap();
        let (write_id, head) = (WriteId::new(), Head { revision: Revision(1), ..Head::absent() });
        let delta: Delta = serde_json::from_str("{\"entry\":\"ü\\n\"}").unwrap();
        for delta_location in [OutgoingDelta::Inline(&delta), OutgoingDelta::Blob(Digest::of("delta"))] {
            let is_inline = matches!(delta_location, OutgoingDelta::Inline(_));
            let checksum = checksum(&run, Revision(1), write_id, &delta.entry);
            let outgoing = OutgoingCommit {
                write_id,
                checksum: checksum.clone(),
                checkpoint: false,
                delta: delta_location,
            };
            let payload = encode_commit(&head, &outgoing, 0);
            let record = decode(&found(3, payload)).unwrap();
            let Content::Commit(committed) = record.content else { panic!() };
            assert_eq!(
                (committed.write_id, committed.checksum, committed.checkpoint),
                (write_id, checksum, false)
            );
            match committed.delta {
                DeltaLocation::Trailer(trailer) => {
                    assert!(is_inline);
                    assert_eq!(trailer.delta().unwrap().entry, "ü\n");
                }
                DeltaLocation::Blob(digest) => assert!(!is_inline && digest == Digest::of("delta")),
                DeltaLocation::Inline(_) => panic!("a delta is inline only with a checkpoint"),
            }
        }
    }

    #[test]
    fn a_message_with_missing_or_extra_bytes_is_detected() {
        let delta: Delta = serde_json::from_str(
            r#"{"entry":"ü","parts":[{"path":"p","body":"{}"}],"outbox":[{"id":"o","body":"\""}]}"#,
        )
        .unwrap();
        let (write_id, checksum) = (WriteId::new(), Digest::of(""));
        let outgoing =
            OutgoingCommit { write_id, checksum, checkpoint: false, delta: OutgoingDelta::Inline(&delta) };
        let whole = encode_commit(&Head::absent(), &outgoing, 0);
        assert!(whole.ends_with("\nü{}\"".as_bytes()));
        let read = |payload: Bytes| {
            let record = decode(&found(1, payload)).unwrap();
            let Content::Commit(CommitMessage { delta: DeltaLocation::Trailer(trailer), .. }) =
                record.content
            else {
                panic!()
            };
            trailer.delta()
        };
        assert_eq!(read(whole.clone()).unwrap().parts, delta.parts);
        for lost in 1..=6 {
            assert!(read(whole.slice(..whole.len() - lost)).is_none(), "{lost} bytes fewer");
        }
        assert!(read([whole, Bytes::from_static(b"\n")].concat().into()).is_none(), "one byte more");
    }

    #[test]
    fn newer_malformed_and_unknown_messages_are_distinguished() {
        let read = |text: &str| decode(&found(1, text.to_owned().into())).unwrap_err();
        assert!(matches!(read("{\"format\":2,\"body\":{}}"), MessageError::Newer { found: 2, .. }));
        assert!(matches!(read("{\"format\":1}"), MessageError::Malformed { .. }));
        assert!(matches!(read("hello"), MessageError::Unknown { .. }));
    }
}
