//! What a message of a run's subject says.
//!
//! Every message carries the run's head, small and up to date, so that the newest message alone tells where the run
//! stands. What a commit changed is its delta: in the message, or in a blob if it is large. How it becomes text is in
//! `wire`.

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::trailer::{OutgoingTrailer, Trailer};
use crate::commit::{Commit, OutboxItem, Part, ViewMark, WriteId};
use crate::{Digest, Token};

/// A message and its place.
#[derive(Debug, Clone)]
pub(in crate::nats) struct Record {
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) head: Head,
    pub(in crate::nats) content: Content,
    /// The sequence of the newest commit before this message.
    pub(in crate::nats) previous_commit: u64,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::nats) struct Head {
    pub(in crate::nats) protocol: String,
    pub(in crate::nats) created: Timestamp,
    pub(in crate::nats) revision: Revision,
    /// The sequence of the newest commit. A commit cannot know its own: there it is the one before.
    pub(in crate::nats) commit: u64,
    /// The sequence of the newest commit with a checkpoint; the same holds.
    pub(in crate::nats) checkpoint: Option<u64>,
    /// The newest engine's number.
    pub(in crate::nats) epoch: Epoch,
    pub(in crate::nats) summary: String,
    /// More of it is on its way from elsewhere: it is no run yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::nats) importing: bool,
    /// Of a run whose document is kept in a bucket: the entry there that is its newest commit. An entry cannot know its
    /// own place: there it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::nats) document_entry: Option<EntryRef>,
}

/// An entry of a bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::nats) struct EntryRef {
    pub(in crate::nats) bucket: String,
    pub(in crate::nats) sequence: u64,
    pub(in crate::nats) write_id: WriteId,
    /// Of the document in it.
    pub(in crate::nats) digest: Digest,
}

impl Head {
    /// Before anything was written.
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

    /// Whether there is a run: somebody may lead it before its first commit.
    pub(in crate::nats) fn exists(&self) -> bool {
        self.has_commits() && !self.importing
    }

    pub(in crate::nats) fn has_commits(&self) -> bool {
        self.revision != Revision(0)
    }

    pub(in crate::nats) fn token(&self) -> Token {
        Token(self.document_entry.as_ref().map_or(self.commit, |document_entry| document_entry.sequence))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::nats) enum Content {
    Commit(CommitMessage),
    /// A new engine. Being on the run's own subject it ends every compare-and-set of the one before.
    EngineLock {
        lease: String,
    },
    /// What was written to view files outside a commit.
    ViewMarks {
        id: String,
        views: Vec<ViewMark>,
    },
    /// Nothing, but in the way of a write whose outcome was not known: from now on it cannot land.
    Fence {
        against: WriteId,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct CommitMessage {
    pub(in crate::nats) write_id: WriteId,
    /// A digest of run, revision, write id and entry, by which a changed byte is noticed.
    pub(in crate::nats) checksum: Digest,
    /// Whether the delta has a checkpoint.
    pub(in crate::nats) checkpoint: bool,
    pub(in crate::nats) delta: DeltaLocation,
}

/// Where a delta is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::nats) enum DeltaLocation {
    Inline(Box<RawValue>),
    Trailer(Trailer),
    Blob(Digest),
}

/// A [`Committed`] on its way.
#[derive(Debug, Serialize)]
pub(in crate::nats) struct OutgoingCommit<'a> {
    pub(in crate::nats) write_id: WriteId,
    pub(in crate::nats) checksum: Digest,
    pub(in crate::nats) checkpoint: bool,
    pub(in crate::nats) delta: OutgoingDelta<'a>,
}

/// A [`Place`] on its way.
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) acknowledged: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) outbox: Vec<OutboxItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(in crate::nats) views: Vec<ViewMark>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::nats) checkpoint: Option<Checkpoint>,
}

/// All that the messages up to this one add up to, so that nobody has to read them again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::nats) struct Checkpoint {
    /// The writer's own: its state.
    pub(in crate::nats) snapshot: String,
    pub(in crate::nats) outbox: Vec<OutboxItem>,
    pub(in crate::nats) views: Vec<ViewMark>,
    /// Which commit has the newest body of each part, save for those in this very delta.
    pub(in crate::nats) parts: Vec<(String, u64)>,
}

impl Delta {
    /// What the writer wants to change. The checkpoint is for whoever knows what came before.
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
