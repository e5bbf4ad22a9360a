//! Telling a full disk from other trouble: the one that goes away when somebody makes room.

use std::error::Error;
use std::io;

use rusqlite::ErrorCode;

/// Whether this error, by itself, says that the disk or the quota is full. Its sources are not looked at.
pub fn is_full(error: &(dyn Error + 'static)) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    let sqlite = error.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
    matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
        || sqlite == Some(ErrorCode::DiskFull)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_from_the_kernel_and_from_sqlite() {
        let full =
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None);
        assert!(is_full(&full));
        assert!(is_full(&io::Error::from(io::ErrorKind::StorageFull)));
        assert!(!is_full(&io::Error::from(io::ErrorKind::NotFound)));
    }
}
