//! Restores a document that is not what was written (error code `corrupted_state`), and keeps the bad bytes.
//!
//! If the journal is intact, replaying it gives the document that was committed last, and nothing is lost. Otherwise
//! the newest valid document of an earlier revision is the candidate; the user must agree, because later changes are
//! lost.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::entry::{Author, Input, RecoverySource};
use protocol::run::{self, Decision};
use protocol::{Document, Epoch, ImportRefusal, ProtocolKind, Revision, RunId};
use store::{CommitError, Part, ReadError, Store, WriteId};

use crate::clock::Clock;
use crate::recovery::Replay;
use crate::run::{CommitContext, Journal, LoadError, load_machine, load_spec};
use crate::views::create_private_dir;

/// What is wrong with a run's document, and what could replace it.
#[derive(Debug)]
pub(crate) struct Corruption {
    run: RunId,
    kind: &'static dyn ProtocolKind,
    /// The revision whose document is bad.
    bad: Revision,
    /// What is wrong with it.
    what: String,
    /// The document that could replace it.
    candidate: Option<Candidate>,
    /// The highest sequence number that a client may have seen, judging by the bad documents.
    seen_sequence: u64,
}

#[derive(Debug)]
struct Candidate {
    document: Document,
    /// The revision of the document.
    from: Revision,
}

/// A document that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub run: RunId,
    pub from: Revision,
    pub corrupted_revision: Revision,
    pub problem: String,
    /// Where the bad bytes are.
    pub backup: PathBuf,
}

/// Why a document was not restored. The run has not changed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "the document of run `{run}` is not what was written at revision {bad}: {what}; the newest valid one is of revision {from}"
    )]
    WouldLoseChanges { run: RunId, from: Revision, bad: Revision, what: String },
    #[error(
        "the document of run `{run}` is not what was written at revision {bad}: {what}; no earlier one is valid"
    )]
    NoCandidate { run: RunId, bad: Revision, what: String },
    #[error("cannot write the bad bytes to `{}`", path.display())]
    Quarantine { path: PathBuf, source: io::Error },
    #[error(transparent)]
    ImportRefusal(#[from] ImportRefusal),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl From<ReadError> for RestoreError {
    fn from(error: ReadError) -> Self {
        Self::Load(error.into())
    }
}

impl Corruption {
    /// Looks for a replacement of a bad document. Changes nothing.
    pub(crate) async fn diagnose(
        store: &dyn Store,
        kind: &'static dyn ProtocolKind,
        run: &RunId,
        bad: Revision,
        what: String,
    ) -> Result<Self, LoadError> {
        let mut seen_sequence = SeenSequence { highest: 0, bad };
        seen_sequence.observe(bad, &store.parts_at(run, bad).await?);
        let candidate = match replay_document(store, kind, run, bad).await? {
            Some(document) => Some(Candidate { document, from: bad }),
            None => newest_valid(store, kind, run, bad, &mut seen_sequence).await?,
        };
        Ok(Self { run: run.clone(), kind, bad, what, candidate, seen_sequence: seen_sequence.highest })
    }

    /// Commits the candidate as a new revision, with a sequence number that no client has seen. `allow_loss`
    /// allows a candidate that is not the document that was committed last.
    pub(crate) async fn restore(
        self,
        store: &Arc<dyn Store>,
        clock: &Clock,
        by: Author,
        epoch: Option<Epoch>,
        quarantine: &Path,
        allow_loss: bool,
    ) -> Result<Restored, RestoreError> {
        let Self { run, kind, bad, what, candidate, seen_sequence } = self;
        let Some(Candidate { document, from }) = candidate else {
            return Err(RestoreError::NoCandidate { run, bad, what });
        };
        if from != bad && !allow_loss {
            return Err(RestoreError::WouldLoseChanges { run, from, bad, what });
        }
        let kept = quarantine_document(store.as_ref(), &run, bad, quarantine).await?;
        // Each revision adds at most one to the sequence number.
        let highest = document.sequence().unwrap_or(0) + (bad.0 - from.0);
        let value = document.to_value();
        let mut journal = Journal::load_with_document(store, clock, kind, &run, Some(document)).await?;
        let decision = if from == bad {
            Decision::nothing()
        } else {
            let status = journal.machine().import(&value)?;
            run::import(&mut journal.state.run, status, BTreeMap::new())
        };
        let highest =
            if seen_sequence < highest + MAX_SEQUENCE_JUMP { highest.max(seen_sequence) } else { highest };
        let source = RecoverySource::Document {
            document: value,
            restored_from: from,
            broken_at: bad,
            highest_sequence: highest,
            problem: what.clone(),
            quarantine: Some(kept.display().to_string()),
        };
        let context = CommitContext { epoch, ..CommitContext::default() };
        journal.commit(by, Input::Recovered { source }, decision, context).await?;
        Ok(Restored { run, from, corrupted_revision: bad, problem: what, backup: kept })
    }
}

/// A bad document may have a sequence number that a client has seen. A number further ahead than this is part of the
/// damage.
pub(crate) const MAX_SEQUENCE_JUMP: u64 = 1 << 20;

/// The highest sequence number in bad documents, which a client may have seen.
struct SeenSequence {
    highest: u64,
    /// The newest bad revision.
    bad: Revision,
}

impl SeenSequence {
    /// Takes the number in the document of a revision into account. Each revision from there to the newest bad one may have
    /// added one.
    fn observe(&mut self, revision: Revision, parts: &[Part]) {
        let seen_sequence = parts.iter().find_map(|part| {
            let value: serde_json::Value = serde_json::from_str(&part.body).ok()?;
            value.get("sequence")?.as_u64()
        });
        let at_bad = seen_sequence.unwrap_or(0).saturating_add(self.bad.0 - revision.0);
        self.highest = self.highest.max(at_bad);
    }
}

/// Returns the document that the journal gives, if all its entries are intact.
async fn replay_document(
    store: &dyn Store,
    kind: &'static dyn ProtocolKind,
    run: &RunId,
    bad: Revision,
) -> Result<Option<Document>, LoadError> {
    if store.last_intact_revision(run).await? < bad {
        return Ok(None);
    }
    let spec = load_spec(store, run).await?;
    let Ok(mut replay) = Replay::begin(kind, spec) else { return Ok(None) };
    for entry in store.entries_between(run, Revision(0), bad).await? {
        if replay.add(&entry.body, WriteId::new()).is_err() {
            return Ok(None);
        }
        replay.position.revision = entry.revision;
    }
    let document = replay.machine().document();
    let is_valid = replay.position.revision == bad && document.violations().is_empty();
    Ok(is_valid.then_some(document))
}

async fn newest_valid(
    store: &dyn Store,
    kind: &'static dyn ProtocolKind,
    run: &RunId,
    bad: Revision,
    seen_sequence: &mut SeenSequence,
) -> Result<Option<Candidate>, LoadError> {
    let spec = load_spec(store, run).await?;
    for revision in (1..bad.0).rev().map(Revision) {
        match load_machine(store, kind, run, &spec, revision).await {
            Ok(machine) => {
                return Ok(Some(Candidate { document: machine.document(), from: revision }));
            }
            Err(LoadError::Corrupted { .. }) => {
                seen_sequence.observe(revision, &store.parts_at(run, revision).await?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Writes the bad parts to the quarantine and returns the path. An existing file stays: the same revision may have
/// been corrupted twice.
async fn quarantine_document(
    store: &dyn Store,
    run: &RunId,
    bad: Revision,
    quarantine: &Path,
) -> Result<PathBuf, RestoreError> {
    let parts = store.parts_at(run, bad).await?;
    let parts: BTreeMap<_, _> = parts.into_iter().map(|part| (part.path, part.body)).collect();
    let mut text = serde_json::to_string_pretty(&parts).expect("BUG: texts are plain data");
    text.push('\n');
    for number in 0_u64.. {
        let suffix = if number == 0 { String::new() } else { format!("-{number}") };
        let path = quarantine.join(format!("document-{bad}{suffix}.json"));
        if fs::read(&path).is_ok_and(|kept| kept == text.as_bytes()) {
            return Ok(path);
        }
        match create_synced(&path, text.as_bytes()) {
            Ok(true) => return Ok(path),
            Ok(false) => {}
            Err(source) => return Err(RestoreError::Quarantine { path, source }),
        }
    }
    unreachable!("BUG: there is always another number")
}

/// Creates a file, with its directory, and syncs both. Returns `false` if the file exists.
fn create_synced(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    create_private_dir(directory)?;
    let created = supervisor::create_synced_file(path, bytes)?;
    File::open(directory)?.sync_all()?;
    Ok(created)
}
