//! One self-contained change of one run, as a client passes it to the store.

use std::fmt;

use protocol::{Epoch, Revision, RunId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Digest;

/// The largest [`Commit::size`]. A store refuses a larger commit.
pub const COMMIT_LIMIT: usize = 32 * 1024 * 1024;

/// After how many entries a commit includes a snapshot of the state, which bounds the time to load a run.
pub const SNAPSHOT_EVERY: u64 = 256;

/// The store's handle for compare-and-set: a commit names the token that its author has read.
///
/// It is not the revision. A backend numbers the entries of all runs, so the tokens of one run have gaps. Only equality
/// is meaningful.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub(crate) u64);

impl Token {
    /// The token of a run that does not exist yet.
    pub const ABSENT: Self = Self(0);
}

/// The state of a run that a client has read: the revision for people, the token for the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    pub revision: Revision,
    pub token: Token,
}

impl Position {
    /// The position before a run's first commit; expecting it creates the run.
    #[must_use]
    pub const fn absent() -> Self {
        Self { revision: Revision(0), token: Token::ABSENT }
    }
}

/// Identifies one write, so that a client that got no answer can ask later whether it landed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WriteId(Uuid);

impl WriteId {
    #[expect(
        clippy::new_without_default,
        reason = "each call returns another id, which a default would hide"
    )]
    #[must_use]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Uuid::from_slice(bytes).ok().map(Self)
    }
}

impl fmt::Display for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

/// One part of a run's document, as of this commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub path: String,
    pub body: String,
}

/// An action that is still to be performed. Its id makes a second performance recognisable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxItem {
    pub id: String,
    pub body: String,
}

/// What was last written to a view file: enough to detect a stale, torn or edited one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewMark {
    pub path: String,
    pub revision: Revision,
    pub digest: Digest,
}

/// One change of one run. All of it lands, or nothing.
#[derive(Debug, Clone)]
pub struct Commit {
    pub run: RunId,
    /// The protocol of the run. Stored when the run is created, ignored afterwards.
    pub protocol: String,
    /// The position that the client has read; [`Position::absent`] creates the run.
    pub expected: Position,
    /// The engine's epoch, or `None` if the client is not the engine.
    pub epoch: Option<Epoch>,
    pub write_id: WriteId,
    /// The journal entry of this change.
    pub entry: String,
    /// The parts that changed, and only those.
    pub parts: Vec<Part>,
    /// The whole document after this commit, a JSON object, for a store that [keeps
    /// documents](crate::Store::has_public_documents) where other programs can read them. A run that is created with one
    /// always has one. Later commits omit it if it did not change.
    pub document: Option<String>,
    /// New actions. An item replaces a waiting one with the same id.
    pub outbox: Vec<OutboxItem>,
    /// Ids of finished actions. They are removed before `outbox` is added; an unknown id is ignored.
    pub acknowledged: Vec<String>,
    /// The view files that were written since the last commit.
    pub views: Vec<ViewMark>,
    /// The state after this entry, every [`SNAPSHOT_EVERY`] entries.
    pub snapshot: Option<String>,
    /// A few fields for `ls`, replaced by each commit.
    pub summary: String,
}

impl Commit {
    /// Returns the size that counts against [`COMMIT_LIMIT`]: all texts except the document, which repeats the parts.
    #[must_use]
    pub fn size(&self) -> usize {
        let parts = self.parts.iter().map(|part| part.path.len() + part.body.len());
        let outbox = self.outbox.iter().map(|item| item.id.len() + item.body.len());
        let acknowledged = self.acknowledged.iter().map(String::len);
        let views = self.views.iter().map(|view| view.path.len() + view.digest.as_str().len());
        let single = self.entry.len() + self.summary.len() + self.snapshot.as_ref().map_or(0, String::len);
        single + parts.chain(outbox).chain(acknowledged).chain(views).sum::<usize>()
    }
}
