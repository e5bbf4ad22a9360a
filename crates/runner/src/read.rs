//! The document of a run and nothing else of it, for those who read often.

use protocol::{Protocol, Revision, RunId};
use store::{Store, StoredDocument};

use crate::journal::{LoadError, load_spec};

/// A document as it is at a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Read<D> {
    pub document: D,
    pub revision: Revision,
}

/// Puts the document of a run together. Reads what the run was opened with only where the parts do not tell everything.
pub async fn read<P: Protocol, S: Store>(
    store: &S,
    run: &RunId,
    stored: StoredDocument,
) -> Result<Read<P::Document>, LoadError> {
    let revision = stored.revision;
    let parts: Vec<_> = stored.parts.into_iter().map(|part| (part.path, part.body)).collect();
    let document = match P::assemble_without_definition(&parts) {
        Some(document) => Some(document),
        None => P::assemble(&load_spec::<P, S>(store, run).await?.definition, &parts),
    };
    let document = document.ok_or_else(|| LoadError::Corrupted {
        run: run.clone(),
        revision,
        what: "a part of it is missing or malformed".to_owned(),
    })?;
    Ok(Read { document, revision })
}
