//! Reading the parts of a stored run: its spec, its document, its entries.

use protocol::entry::{BadEntry, Entry, Input};
use protocol::{Protocol, Revision, RunId};
use store::{CommitError, Digest, ReadError, Store};

use super::start::RunSpec;

/// Why a run cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("run `{run}` is a `{found}` run")]
    OtherProtocol { run: RunId, found: String },
    #[error("entry {revision} of run `{run}` cannot be parsed")]
    Entry { run: RunId, revision: Revision, source: BadEntry },
    #[error("run `{run}` is damaged: {what}")]
    Damaged { run: RunId, what: String },
    /// `corrupted_state`: everything but the document can be read.
    #[error("the document of run `{run}` is not what was written at revision {revision}: {what}")]
    Corrupted { run: RunId, revision: Revision, what: String },
    /// The external write is still in the store; nothing is lost.
    #[error("cannot resolve the write of another client to the document of run `{run}`")]
    ExternalWrite { run: RunId, source: Box<CommitError> },
    /// The bucket still has the external writes, as far as its history goes.
    #[error("another client keeps writing to the document of run `{run}`: gave up after {attempts} attempts")]
    Contended { run: RunId, attempts: u32 },
}

/// Loads the spec of a run.
pub(crate) async fn load_spec<P: Protocol>(store: &dyn Store, run: &RunId) -> Result<RunSpec<P>, LoadError> {
    let damaged = |what: &str| LoadError::Damaged { run: run.clone(), what: what.to_owned() };
    let first = store.entry(run, Revision(1)).await?.ok_or_else(|| damaged("its first entry is missing"))?;
    let Input::Opened { definition } = decode::<P>(run, &first)?.input else {
        return Err(damaged("its first entry does not open it"));
    };
    let digest: Digest = definition.parse().map_err(|_| damaged("its definition has no digest"))?;
    let blob = store.blob(&digest).await?.ok_or_else(|| damaged("its definition is missing"))?;
    serde_json::from_slice(&blob).map_err(|_| damaged("its definition cannot be parsed"))
}

/// Returns the document at a revision. Fails if it is missing or breaks the seed's rules.
pub(crate) async fn document_at<P: Protocol>(
    store: &dyn Store,
    run: &RunId,
    definition: &P::Definition,
    revision: Revision,
) -> Result<P::Document, LoadError> {
    let corrupted = |what: String| LoadError::Corrupted { run: run.clone(), revision, what };
    let document = assemble::<P>(store, run, definition, revision).await?;
    let document = document.ok_or_else(|| corrupted("a part of it is missing or malformed".to_owned()))?;
    match P::violations(&document).as_slice() {
        [] => Ok(document),
        [first, more @ ..] => {
            let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
            Err(corrupted(format!(
                "it breaks rule {} at `{}`: {}{more}",
                first.rule, first.pointer, first.message
            )))
        }
    }
}

pub(crate) async fn assemble<P: Protocol>(
    store: &dyn Store,
    run: &RunId,
    definition: &P::Definition,
    revision: Revision,
) -> Result<Option<P::Document>, ReadError> {
    let parts = store.parts_at(run, revision).await?;
    let parts: Vec<_> = parts.into_iter().map(|part| (part.path, part.body)).collect();
    Ok(P::assemble(definition, &parts))
}

pub(crate) fn decode<P: Protocol>(run: &RunId, entry: &store::StoredEntry) -> Result<Entry<P>, LoadError> {
    Entry::decode(&entry.body).map_err(|source| LoadError::Entry {
        run: run.clone(),
        revision: entry.revision,
        source,
    })
}
