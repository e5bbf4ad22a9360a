//! Reading the document of a run without loading the run.

use protocol::{Protocol, Revision, RunId};
use store::{Store, StoredDocument};

use crate::run::{LoadError, load_spec};

/// A document at a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentAt<D> {
    pub document: D,
    pub revision: Revision,
}

/// Assembles the document of a run. Reads the run's spec only if the parts are not sufficient.
pub async fn read_document<P: Protocol>(
    store: &dyn Store,
    run: &RunId,
    stored: StoredDocument,
) -> Result<DocumentAt<P::Document>, LoadError> {
    let revision = stored.revision;
    let parts: Vec<_> = stored.parts.into_iter().map(|part| (part.path, part.body)).collect();
    let document = match P::assemble_without_definition(&parts) {
        Some(document) => Some(document),
        None => P::assemble(&load_spec::<P>(store, run).await?.definition, &parts),
    };
    let document = document.ok_or_else(|| LoadError::Corrupted {
        run: run.clone(),
        revision,
        what: "a part of it is missing or malformed".to_owned(),
    })?;
    Ok(DocumentAt { document, revision })
}
