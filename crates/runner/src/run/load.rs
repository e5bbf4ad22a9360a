//! Reading what is stored of a run: its spec, its document, its entries.

use protocol::entry::{BadEntry, Entry, Input};
use protocol::run::RunState;
use protocol::{Machine, ProtocolKind, Protocols, Revision, RunId, Timestamp};
use store::{CommitError, Digest, ReadError, Store, StoredEntry};

use super::start::RunSpec;

/// Why a run cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("this version of callboard has no protocol `{found}`")]
    UnknownProtocol { run: RunId, found: String },
    #[error("entry {revision} of run `{run}` cannot be parsed")]
    Entry { run: RunId, revision: Revision, source: BadEntry },
    #[error("run `{run}` is damaged: {what}")]
    Damaged { run: RunId, what: String },
    /// Error code `corrupted_state`: everything but the document can be read.
    #[error("the document of run `{run}` is not what was written at revision {revision}: {what}")]
    Corrupted { run: RunId, revision: Revision, what: String },
    /// Another client's write to the peer document in the NATS bucket was neither accepted nor undone. It is still in the
    /// bucket; nothing is lost.
    #[error("cannot resolve the write of another client to the document of run `{run}`")]
    ExternalWrite { run: RunId, source: Box<CommitError> },
    /// Each time that the engine wanted to accept or undo a write, the NATS bucket had a newer one of another client. The bucket
    /// keeps a limited number of them.
    #[error("another client keeps writing to the document of run `{run}`: gave up after {tries} attempts")]
    Contended { run: RunId, tries: u32 },
}

impl LoadError {
    /// Returns whether the stored data of the run is damaged. If not, the run may be loaded later, or by another version.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Entry { .. } | Self::Damaged { .. } | Self::Corrupted { .. } => true,
            Self::Read(_)
            | Self::UnknownProtocol { .. }
            | Self::ExternalWrite { .. }
            | Self::Contended { .. } => false,
        }
    }
}

/// Finds the protocol of a run by its name.
pub(crate) fn find_kind(
    protocols: Protocols,
    run: &RunId,
    name: &str,
) -> Result<&'static dyn ProtocolKind, LoadError> {
    let unknown = || LoadError::UnknownProtocol { run: run.clone(), found: name.to_owned() };
    protocols.find(name).ok_or_else(unknown)
}

/// Loads the spec of a run.
pub(crate) async fn load_spec(store: &dyn Store, run: &RunId) -> Result<RunSpec, LoadError> {
    let what = "its first entry is missing".to_owned();
    read_spec(store, run).await?.ok_or_else(|| LoadError::Damaged { run: run.clone(), what })
}

/// Returns what a run was opened with, or `None` if the store has no first entry of it. Reads nothing else of the run.
pub async fn read_spec(store: &dyn Store, run: &RunId) -> Result<Option<RunSpec>, LoadError> {
    let damaged = |what: &str| LoadError::Damaged { run: run.clone(), what: what.to_owned() };
    let Some(first) = store.entry(run, Revision(1)).await? else { return Ok(None) };
    let Input::Opened { spec_digest } = decode(run, &first)?.input else {
        return Err(damaged("its first entry does not open it"));
    };
    // The entry has the digest of the run spec, which contains the definition.
    let digest: Digest =
        spec_digest.parse().map_err(|_| damaged("the digest of its definition cannot be parsed"))?;
    let blob = store.blob(&digest).await?.ok_or_else(|| damaged("its definition is missing"))?;
    serde_json::from_slice(&blob).map(Some).map_err(|_| damaged(BAD_DEFINITION))
}

const BAD_DEFINITION: &str = "its definition cannot be parsed";

/// Returns the machine of a run before its first entry.
pub(crate) fn open_machine(
    kind: &'static dyn ProtocolKind,
    run: &RunId,
    spec: &RunSpec,
) -> Result<Box<dyn Machine>, LoadError> {
    kind.open(&spec.definition, &spec.options.location, Timestamp::from_micros(0))
        .map_err(|_| LoadError::Damaged { run: run.clone(), what: BAD_DEFINITION.to_owned() })
}

/// Returns a machine with the document of a revision. Its state is still the one before the first entry; [`fold`] brings it
/// up to date. Fails if the document is missing or breaks the format's rules.
pub(crate) async fn load_machine(
    store: &dyn Store,
    kind: &'static dyn ProtocolKind,
    run: &RunId,
    spec: &RunSpec,
    revision: Revision,
) -> Result<Box<dyn Machine>, LoadError> {
    let corrupted = |what: String| LoadError::Corrupted { run: run.clone(), revision, what };
    let parts = parts_at(store, run, revision).await?;
    let machine = kind
        .load(&spec.definition, &parts)
        .map_err(|_| LoadError::Damaged { run: run.clone(), what: BAD_DEFINITION.to_owned() })?;
    let machine = machine.ok_or_else(|| corrupted("a part of it is missing or malformed".to_owned()))?;
    match machine.document().violations().as_slice() {
        [] => Ok(machine),
        [first, more @ ..] => {
            let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
            Err(corrupted(format!(
                "it breaks rule {} at `{}`: {}{more}",
                first.rule, first.pointer, first.message
            )))
        }
    }
}

/// Returns the state after a snapshot and the entries since.
pub(crate) fn fold(
    machine: Box<dyn Machine>,
    run: &RunId,
    snapshot: Option<&StoredEntry>,
    tail: &[StoredEntry],
) -> Result<RunState, LoadError> {
    let mut state = match snapshot {
        Some(snapshot) => RunState::decode_snapshot(machine, &snapshot.body).map_err(|_| {
            LoadError::Damaged { run: run.clone(), what: "its snapshot cannot be parsed".to_owned() }
        })?,
        None => RunState::empty(machine, Timestamp::from_micros(0)),
    };
    for stored in tail {
        let (run, revision) = (run.clone(), stored.revision);
        let folded = decode(&run, stored).map(|entry| state.fold(&entry))?;
        folded.map_err(|source| LoadError::Entry { run, revision, source })?;
    }
    Ok(state)
}

/// Returns the parts of the document at a revision.
pub(crate) async fn parts_at(
    store: &dyn Store,
    run: &RunId,
    revision: Revision,
) -> Result<Vec<(String, String)>, ReadError> {
    let parts = store.parts_at(run, revision).await?;
    Ok(parts.into_iter().map(|part| (part.path, part.body)).collect())
}

pub(crate) fn decode(run: &RunId, entry: &StoredEntry) -> Result<Entry, LoadError> {
    Entry::decode(&entry.body).map_err(|source| LoadError::Entry {
        run: run.clone(),
        revision: entry.revision,
        source,
    })
}
