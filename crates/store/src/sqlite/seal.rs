//! The seal of an entry: a digest beside its text, by which a changed byte is noticed.
//!
//! SQLite notices a broken page, not a changed letter. Entries are the truth from which everything else can be built
//! again, so they alone are sealed; a blob is named by its digest already.

use protocol::Revision;
use sha2::{Digest as _, Sha256};

/// Half a SHA-256: it guards against accidents, not against malice.
pub(super) const SEAL_LENGTH: usize = 16;

/// Covers all columns of the row: an entry that strayed to another run or revision is as bad as a changed one.
pub(super) fn seal(run: i64, revision: Revision, write_id: &[u8], body: &str) -> [u8; SEAL_LENGTH] {
    let mut hash = Sha256::new();
    hash.update(run.to_le_bytes());
    hash.update(revision.0.to_le_bytes());
    hash.update(write_id);
    hash.update(body.as_bytes());
    let digest = hash.finalize();
    let mut seal = [0; SEAL_LENGTH];
    seal.copy_from_slice(&digest[..SEAL_LENGTH]);
    seal
}
