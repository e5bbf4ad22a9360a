//! Reading the document of a run without loading the run.

use protocol::{Document, Protocols, Revision, RunId};
use store::{Store, StoredDocument};

use crate::run::{LoadError, find_kind, load_spec, open_machine};

/// A document at a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentAt {
    pub document: Document,
    pub revision: Revision,
}

/// Assembles the document of a run. Reads the run's spec, which has the definition, only if the parts are not sufficient.
pub async fn read_document(
    store: &dyn Store,
    protocols: Protocols,
    run: &RunId,
    stored: StoredDocument,
) -> Result<DocumentAt, LoadError> {
    let revision = stored.revision;
    let parts: Vec<_> = stored.parts.into_iter().map(|part| (part.path, part.body)).collect();
    let kind = find_kind(protocols, run, &stored.protocol)?;
    let document = match kind.assemble(&parts) {
        Some(document) => Some(document),
        None => open_machine(kind, run, &load_spec(store, run).await?)?.assemble(&parts),
    };
    let document = document.ok_or_else(|| LoadError::Corrupted {
        run: run.clone(),
        revision,
        what: "a part of it is missing or malformed".to_owned(),
    })?;
    Ok(DocumentAt { document, revision })
}
