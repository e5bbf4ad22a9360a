//! The content of a message on a run's subject.
//!
//! Every message carries the run's head, so that the last message alone gives the position of the run. What a commit
//! changed is its delta, which is in the message or, if large, in a blob. The encoding is in `wire`.

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::trailer::{OutgoingTrailer, Trailer};
use crate::commit::{Commit, OutboxItem, Part, ViewMark, WriteId};
use crate::{Digest, Token};

/// A message and its sequence.
#[derive(Debug, Clone)]
pub(in crate::nats) struct Record {
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) head: Head,
    pub(in crate::nats) content: Content,
    /// The sequence of the newest commit before this message.
    pub(super) previous_commit: u64,
}

/// The state of a run after a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::nats) struct Head {
    pub(in crate::nats) protocol: String,
    pub(in crate::nats) created: Timestamp,
    pub(in crate::nats) revision: Revision,
    /// The sequence of the newest commit. A commit does not know its own sequence and names the one before.
    pub(in crate::nats) commit: u64,
    /// The sequence of the newest commit with a checkpoint. Such a commit names the one before it, too.
    pub(in crate::nats) checkpoint: Option<u64>,
    /// The epoch of the newest engine.
    pub(in crate::nats) epoch: Epoch,
    /// A few fields for `callboard ls`, replaced by each commit.
    pub(in crate::nats) summary: String,
    /// The run is being imported and does not exist yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::nats) importing: bool,
    /// If the document is in a bucket: the entry of the bucket that is the newest commit. The head in that entry does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::nats) document_entry: Option<EntryRef>,
}

/// A reference to an entry of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::nats) struct EntryRef {
    pub(in crate::nats) bucket: String,
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) write_id: WriteId,
    /// The digest of its document.
    pub(in crate::nats) digest: Digest,
}

impl Head {
    /// The head before the first message.
    pub(in crate::nats) fn absent() -> Self {
        Self {
            protocol: String::new(),
            created: Timestamp::UNIX_EPOCH,
            revision: Revision(0),
            commit: 0,
            checkpoint: None,
            epoch: Epoch(0),
            summary: String::new(),
            importing: false,
            document_entry: None,
        }
    }

    /// Whether the run exists. An engine may have taken its lock before the first commit: then there is a head, and no run.
    pub(in crate::nats) fn exists(&self) -> bool {
        self.has_commits() && !self.importing
    }

    pub(super) fn has_commits(&self) -> bool {
        self.revision != Revision(0)
    }

    pub(in crate::nats) fn token(&self) -> Token {
        Token(self.document_entry.as_ref().map_or(self.commit, |document_entry| document_entry.sequence))
    }
}

/// What a message adds to a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::nats) enum Content {
    Commit(CommitMessage),
    /// A new engine has taken the lock. On the run's own subject, so that the next compare-and-set of the engine before it fails.
    EngineLock {
        /// The id of the lease. It makes the message unique to its writer.
        lease: String,
    },
    /// View files that were written outside a commit.
    ViewMarks {
        /// A new id. It makes the message unique to its writer.
        id: String,
        views: Vec<ViewMark>,
    },
    /// No content. It takes the place of an unacknowledged write, which fails its compare-and-set if it arrives later.
    Fence {
        /// The id of that write.
        against: WriteId,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct CommitMessage {
    pub(in crate::nats) write_id: WriteId,
    /// A digest of run, revision, write id and entry, to detect changes.
    pub(in crate::nats) checksum: Digest,
    /// Whether the delta has a checkpoint.
    pub(in crate::nats) checkpoint: bool,
    pub(in crate::nats) delta: DeltaLocation,
}

/// Where a delta is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::nats) enum DeltaLocation {
    Inline(Box<RawValue>),
    /// In the same message, after its first line, which only has the lengths.
    Trailer(Trailer),
    Blob(Digest),
}

/// A [`CommitMessage`] to be encoded.
#[derive(Debug, Serialize)]
pub(in crate::nats) struct OutgoingCommit<'a> {
    pub(in crate::nats) write_id: WriteId,
    pub(in crate::nats) checksum: Digest,
    pub(in crate::nats) checkpoint: bool,
    pub(in crate::nats) delta: OutgoingDelta<'a>,
}

/// A [`DeltaLocation`] to be encoded.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::nats) enum OutgoingDelta<'a> {
    Inline(&'a Delta),
    Trailer(OutgoingTrailer<'a>),
    Blob(Digest),
}

/// What a commit changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct Delta {
    pub(in crate::nats) entry: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) parts: Vec<Part>,
    /// Ids of finished actions, which leave the outbox.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) acknowledged: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) outbox: Vec<OutboxItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) views: Vec<ViewMark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::nats) checkpoint: Option<Checkpoint>,
}

/// The sum of all messages up to this one, so that they need not be read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct Checkpoint {
    /// The writer's snapshot of its state.
    pub(super) snapshot: String,
    pub(in crate::nats) outbox: Vec<OutboxItem>,
    pub(in crate::nats) views: Vec<ViewMark>,
    /// The sequence of the commit with the newest body of each part, without the parts of this delta.
    pub(in crate::nats) parts: Vec<(String, u64)>,
}

impl Delta {
    /// Returns the delta of a commit, without a checkpoint.
    pub(in crate::nats) fn of(commit: &Commit) -> Self {
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

pub(in crate::nats) fn checksum(run: &RunId, revision: Revision, write_id: WriteId, entry: &str) -> Digest {
    Digest::of_all(&[&format!("{run}\n{revision}\n{write_id}\n"), entry])
}
