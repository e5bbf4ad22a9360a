//! What somebody else wrote in the place of a run's document, in a store that others can write to.

use protocol::Revision;

/// A foreign write: the newest thing in the document's place, and not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalWrite {
    /// Where documents are kept.
    pub bucket: String,
    /// Its number there; 0 if nothing at all is left in its place.
    pub sequence: u64,
    /// The bytes, if it has any.
    pub body: Option<Vec<u8>>,
    pub change: Result<Rewritten, ExternalChange>,
}

/// A document that was changed on top of the newest one, and nothing of ours beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewritten {
    /// The document as it could be read there, and as it was written: objects as JSON text, without our part.
    pub ours: String,
    pub theirs: String,
}

/// What is wrong with a foreign write, whatever it says of the document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalChange {
    #[error("it was deleted")]
    Deleted,
    #[error("it is no JSON object")]
    NoObject,
    #[error("the engine's part of it is missing")]
    NoPart,
    #[error("the engine's part of it was changed")]
    PartChanged,
    #[error("it was made from revision {from}, which was not the newest")]
    Stale { from: Revision },
    #[error("it has overwritten what its writer cannot have seen")]
    Overwrote,
    #[error("what it was made from is not there any more")]
    Unproven,
}
