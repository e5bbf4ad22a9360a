//! The document of a run and nothing else of it, for those who read often.

use protocol::{Protocol, Revision, RunId};
use store::Store;

use crate::journal::{LoadError, assemble, load_frozen};

/// A document as it is at a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<D> {
    pub document: D,
    pub revision: Revision,
}

/// Reads the document of a run; `None` when there is no such run. Reads no more of the run than that takes.
pub async fn read<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
) -> Result<Option<Read<P::Document>>, LoadError> {
    let Some(revision) = store.newest(run).await? else { return Ok(None) };
    let frozen = load_frozen::<P, S>(store, run).await?;
    let document = assemble::<P, S>(store, run, &frozen.definition, revision).await?;
    let document = document.ok_or_else(|| LoadError::Damaged {
        run: run.clone(),
        what: "a part of its document is missing".to_owned(),
    })?;
    Ok(Some(Read { document, revision }))
}
