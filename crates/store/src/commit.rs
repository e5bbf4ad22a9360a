//! What a writer hands to the store: one self-contained change of one run.

use std::fmt;

use protocol::{Epoch, Revision, RunId};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Digest;

/// Largest total of bodies in one commit. What is larger goes into blobs, and the commit names their digests.
pub const COMMIT_LIMIT: usize = 32 * 1024 * 1024;

/// How many entries may pass before the writer adds a snapshot of its state, so that loading stays short.
pub const SNAPSHOT_EVERY: u64 = 256;

/// The store's handle for compare-and-set: whoever commits names the one it has read.
///
/// It is not the revision. A backend takes it from a sequence that all its runs share, so tokens of one run have gaps;
/// only equality means anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub(crate) u64);

impl Token {
    /// The token of a run that does not exist yet.
    pub const ABSENT: Self = Self(0);
}

/// Where a run stands: the revision for people, the token for the store.
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

/// Names one attempt to write, so that a writer who never heard the answer can ask later whether it landed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WriteId(Uuid);

impl WriteId {
    #[expect(clippy::new_without_default, reason = "each call gives another id; a default would hide that")]
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

/// One piece of a run's document, as it reads from this commit on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub path: String,
    pub body: String,
}

/// An action that is still to be done. Its id makes a second performance recognisable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxItem {
    pub id: String,
    pub body: String,
}

/// What we last wrote to a view file: enough to notice a stale, torn or foreign one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewMark {
    pub path: String,
    pub revision: Revision,
    pub digest: Digest,
}

/// One change of one run; all of it lands, or none.
#[derive(Debug, Clone)]
pub struct Commit {
    pub run: RunId,
    /// Which protocol the run follows. Backup when the run is created, not looked at afterwards.
    pub protocol: String,
    /// What the writer has read; [`Position::absent`] creates the run.
    pub expected: Position,
    /// The engine's epoch when the engine writes, `None` for everybody else.
    pub epoch: Option<Epoch>,
    pub write_id: WriteId,
    /// The journal's record of this change.
    pub entry: String,
    /// The parts that changed, and only those.
    pub parts: Vec<Part>,
    /// The whole document after this commit, an object as JSON text, for a store that [keeps
    /// documents](crate::Store::keeps_documents) where others can read them. A run that is created with one always has
    /// one; later commits leave it out if it stays as it is.
    pub document: Option<String>,
    /// Actions to be done from now on. An item whose id is already waiting takes its place.
    pub outbox: Vec<OutboxItem>,
    /// Ids of actions that are done. They leave before `outbox` is added; an unknown id is nothing.
    pub acknowledged: Vec<String>,
    pub views: Vec<ViewMark>,
    /// The state after this entry, due every [`SNAPSHOT_EVERY`] entries.
    pub snapshot: Option<String>,
    /// A few fields for `ls`, replaced by each commit.
    pub summary: String,
}

impl Commit {
    /// How much of [`COMMIT_LIMIT`] this commit takes: every text of the writer's in it, but for the document, which
    /// says nothing that the parts do not say.
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
