//! The checksum of a journal entry, stored in its row.
//!
//! SQLite detects a broken page, but not a changed byte. Everything else can be rebuilt from the entries, so only they
//! have a checksum. Blobs are named by their digest.

use protocol::Revision;
use sha2::{Digest as _, Sha256};

/// Half of a SHA-256: enough to detect accidents; it is no protection against forgery.
pub(crate) const CHECKSUM_LENGTH: usize = 16;

/// Computes the checksum of an entry. It covers every column except the token, so an entry under the wrong run or
/// revision fails, too.
pub(crate) fn checksum(run: i64, revision: Revision, write_id: &[u8], body: &str) -> [u8; CHECKSUM_LENGTH] {
    let mut hash = Sha256::new();
    hash.update(run.to_le_bytes());
    hash.update(revision.0.to_le_bytes());
    hash.update(write_id);
    hash.update(body.as_bytes());
    let digest = hash.finalize();
    let mut checksum = [0; CHECKSUM_LENGTH];
    checksum.copy_from_slice(&digest[..CHECKSUM_LENGTH]);
    checksum
}
