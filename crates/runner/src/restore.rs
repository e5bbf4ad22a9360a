//! `corrupted_state`: a document that is not what was written is put back, and nothing of the bad one is lost.
//!
//! The bad bytes are kept first. If the journal is as it was written, folding it gives the document that was committed
//! last, and nobody need be asked. Else the newest revision whose document is sound is the candidate: then a person has to
//! say so, for what came after it is lost.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use protocol::entry::{Author, Input, RecoverySource};
use protocol::run::{self, Decision};
use protocol::{Epoch, ImportRefusal, Protocol, Revision, RunId};
use store::{CommitError, Part, ReadError, Store, WriteId};

use crate::clock::Clock;
use crate::journal::{CommitContext, Journal, LoadError, document_at, load_spec};
use crate::rebuild::Rebuild;
use crate::views::make_private;

/// What is wrong with a run's document, and what could be put in its place.
#[derive(Debug)]
pub(crate) struct Corruption<P: Protocol> {
    run: RunId,
    /// The revision whose document is bad.
    bad: Revision,
    what: String,
    /// The newest sound document there is.
    candidate: Option<Candidate<P>>,
    /// The highest number that somebody may have seen, as far as the bad documents after it tell.
    claimed: u64,
}

#[derive(Debug)]
struct Candidate<P: Protocol> {
    document: P::Document,
    /// The revision whose document it is.
    from: Revision,
}

/// What was put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub run: RunId,
    pub from: Revision,
    pub bad: Revision,
    pub what: String,
    /// Where the bad bytes are.
    pub kept: PathBuf,
}

/// Why a document could not be put back. Nothing of the run has changed.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    #[error(
        "the document of run `{run}` is not what was written at revision {bad}: {what}; the newest sound one is of revision {from}"
    )]
    NotLast { run: RunId, from: Revision, bad: Revision, what: String },
    #[error(
        "the document of run `{run}` is not what was written at revision {bad}: {what}; no earlier one is sound"
    )]
    NoCandidate { run: RunId, bad: Revision, what: String },
    #[error("could not keep the bad bytes in `{}`", path.display())]
    Keep { path: PathBuf, source: io::Error },
    #[error(transparent)]
    NotImportable(#[from] ImportRefusal),
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

impl<P: Protocol> Corruption<P> {
    /// Looks for what could be put in the place of a bad document. Changes nothing.
    pub(crate) async fn examine<S: Store>(
        store: &S,
        run: &RunId,
        bad: Revision,
        what: String,
    ) -> Result<Self, LoadError> {
        let mut claimed = Claimed { highest: 0, bad };
        claimed.hear(bad, &store.parts_at(run, bad).await?);
        let candidate = match state::<P, S>(store, run, bad).await? {
            Some(document) => Some(Candidate { document, from: bad }),
            None => newest_sound::<P, S>(store, run, bad, &mut claimed).await?,
        };
        Ok(Self { run: run.clone(), bad, what, candidate, claimed: claimed.highest })
    }

    /// Puts the candidate in the place of the bad document: as a new revision, with a number that nobody has seen.
    /// `any`: even if it is not the one that was committed last.
    pub(crate) async fn restore<S: Store>(
        self,
        store: &S,
        clock: &Clock,
        by: Author,
        epoch: Option<Epoch>,
        quarantine: &Path,
        any: bool,
    ) -> Result<Restored, RestoreError> {
        let Self { run, bad, what, candidate, claimed } = self;
        let Some(Candidate { document, from }) = candidate else {
            return Err(RestoreError::NoCandidate { run, bad, what });
        };
        if from != bad && !any {
            return Err(RestoreError::NotLast { run, from, bad, what });
        }
        let kept = keep(store, &run, bad, quarantine).await?;
        // Each revision counts one up at most.
        let highest = P::sequence(&document).unwrap_or(0) + (bad.0 - from.0);
        let value = serde_json::to_value(&document).expect("BUG: a document is plain data");
        let journal = Journal::<P, S>::load_with(store, clock, &run, Some(document)).await?;
        let mut journal =
            journal.ok_or_else(|| LoadError::Damaged { run: run.clone(), what: "it is gone".to_owned() })?;
        let decision = if from == bad {
            Decision::nothing()
        } else {
            let stands = P::import(&journal.spec.definition, &value)?;
            run::import(&mut journal.state.run, stands, BTreeMap::new())
        };
        let highest = if claimed < highest + PLAUSIBLE { highest.max(claimed) } else { highest };
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
        Ok(Restored { run, from, bad, what, kept })
    }
}

/// A bad document may claim a sequence that somebody has seen; one far beyond what we know is part of the damage.
pub(crate) const PLAUSIBLE: u64 = 1 << 20;

/// What bad documents say of their `sequence`.
struct Claimed {
    highest: u64,
    bad: Revision,
}

impl Claimed {
    /// Each revision after it has counted one up at most; or it has put a document back, and taken this into account.
    fn hear(&mut self, revision: Revision, parts: &[Part]) {
        let claimed = parts.iter().find_map(|part| {
            let value: serde_json::Value = serde_json::from_str(&part.body).ok()?;
            value.get("sequence")?.as_u64()
        });
        let at_bad = claimed.unwrap_or(0).saturating_add(self.bad.0 - revision.0);
        self.highest = self.highest.max(at_bad);
    }
}

/// The document that the journal gives, if every entry of it is as it was written.
async fn state<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
    bad: Revision,
) -> Result<Option<P::Document>, LoadError> {
    if store.intact(run).await? < bad {
        return Ok(None);
    }
    let mut rebuild = Rebuild::<P>::begin(load_spec::<P, S>(store, run).await?);
    for entry in store.entries_between(run, Revision(0), bad).await? {
        if rebuild.add(&entry.body, WriteId::new()).is_err() {
            return Ok(None);
        }
        rebuild.position.revision = entry.revision;
    }
    let sound = rebuild.position.revision == bad && P::violations(&rebuild.document).is_empty();
    Ok(sound.then_some(rebuild.document))
}

async fn newest_sound<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
    bad: Revision,
    claimed: &mut Claimed,
) -> Result<Option<Candidate<P>>, LoadError> {
    let spec = load_spec::<P, S>(store, run).await?;
    for revision in (1..bad.0).rev().map(Revision) {
        match document_at::<P, S>(store, run, &spec.definition, revision).await {
            Ok(document) => return Ok(Some(Candidate { document, from: revision })),
            Err(LoadError::Corrupted { .. }) => {
                claimed.hear(revision, &store.parts_at(run, revision).await?);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Keeps what is there, part by part, exactly as it is, and answers where. What was kept before stays: the same revision may
/// have been found bad in another way.
async fn keep<S: Store>(
    store: &S,
    run: &RunId,
    bad: Revision,
    quarantine: &Path,
) -> Result<PathBuf, RestoreError> {
    let parts = store.parts_at(run, bad).await?;
    let parts: BTreeMap<_, _> = parts.into_iter().map(|part| (part.path, part.body)).collect();
    let mut text = serde_json::to_string_pretty(&parts).expect("BUG: texts are plain data");
    text.push('\n');
    for number in 0_u64.. {
        let again = if number == 0 { String::new() } else { format!("-{number}") };
        let path = quarantine.join(format!("document-{bad}{again}.json"));
        if fs::read(&path).is_ok_and(|kept| kept == text.as_bytes()) {
            return Ok(path);
        }
        match write_firmly(&path, text.as_bytes()) {
            Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(RestoreError::Keep { path, source }),
            Ok(()) => return Ok(path),
        }
    }
    unreachable!("BUG: there is always another number")
}

/// A new file, on disk with its name before we go on.
fn write_firmly(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    make_private(directory)?;
    let mut file = File::create_new(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half of it helps nobody; whatever it is, it is still in the store.
        let _ = fs::remove_file(path);
    }
    written?;
    File::open(directory)?.sync_all()
}
