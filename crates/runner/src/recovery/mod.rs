//! Building runs from something other than their own store: archives, views, dumps of peer cycles in older formats, damaged
//! stores, damaged documents.
//!
//! [`Replay`] is shared by all: it rebuilds a run from its entries and rejects an entry that does not follow from those before.

mod archive;
mod import;
mod replay;
mod restore;
mod salvage;
mod verify;

pub use archive::{
    ExportError, ImportError, ImportTarget, Imported, Logs, Manifest, Unpacked, export, import, unpack,
};
pub use import::{DocumentImport, DocumentImportError, Migration, import_document, migrate};
pub use replay::{Replay, ReplayError};
pub(crate) use replay::{recovery_epoch, spec_digest};
pub(crate) use restore::{Corruption, MAX_SEQUENCE_JUMP};
pub use restore::{RestoreError, Restored};
pub use salvage::{
    SalvageOutcome, SalvageRunError, SalvageTarget, Salvaged, lost_runs, salvage, salvaged_kind,
};
pub use verify::{Inconsistency, verify};
