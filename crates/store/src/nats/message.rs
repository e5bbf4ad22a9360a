//! What a message of a run's subject says.
//!
//! Every message carries the run's head, small and up to date, so that the newest message alone tells where the run
//! stands. What a commit changed is its delta: in the message, or in a blob if it is large. How it becomes text is in
//! `wire`.

use jiff::Timestamp;
use protocol::{Epoch, Revision, RunId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::behind::{Behind, Following};
use crate::commit::{Commit, OutboxItem, Part, ViewMark, WriteId};
use crate::{Digest, Token};

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
    EngineLock {
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
    Workspace(Box<RawValue>),
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
    Workspace(&'a Delta),
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
