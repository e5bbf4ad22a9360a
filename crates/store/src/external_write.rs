//! Writes of other programs to a run's document, in a store that other programs can write to.
//!
//! The engine's part is the member that callboard adds to the document in its KV entry, with a checksum. It is no
//! [`Part`](crate::Part) of the document.

use protocol::Revision;

/// An external write: the newest message under the document's key, not written by callboard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalWrite {
    /// The bucket of documents.
    pub bucket: String,
    /// The sequence number of the write in the bucket; 0 if the key has no message left.
    pub sequence: u64,
    /// The content of the write, unless it is a deletion.
    pub body: Option<Vec<u8>>,
    /// What the write changed, or why it cannot be accepted.
    pub change: Result<DocumentEdit, ExternalWriteRefusal>,
}

/// An external write that was made from the newest document and left the engine's part unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentEdit {
    /// The document before the write: an object as JSON text, without the engine's part.
    pub before: String,
    /// The document after the write, in the same form.
    pub after: String,
}

/// Why an external write cannot be accepted, whatever it changed in the document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalWriteRefusal {
    #[error("it was deleted")]
    Deleted,
    #[error("it is not a JSON object")]
    NotAnObject,
    #[error("the engine's part of it is missing")]
    EnginePartMissing,
    #[error("the engine's part of it was changed")]
    EnginePartChanged,
    #[error("it was made from revision {from}, which was not the newest")]
    Stale { from: Revision },
    #[error("it has overwritten a write that its author cannot have seen")]
    OverwroteUnseen,
    #[error("the document it was made from is no longer stored")]
    BaseMissing,
}
