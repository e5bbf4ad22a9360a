//! Copies a database from the open handle, for an engine whose database file was deleted or replaced.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::MAIN_DB;
use rusqlite::backup::Progress;

use crate::error::Unavailable;
use crate::sqlite::SqliteStore;
use crate::sqlite::connection::lock;

/// Why no copy could be made.
#[derive(Debug, thiserror::Error)]
pub enum EmergencyCopyError {
    #[error("could not write the copy `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("could not copy the database to `{}`", path.display())]
    Copy { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

impl SqliteStore {
    /// Whether the files that this store has open were removed or replaced.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.0.check_files(), Err(Unavailable::Gone { .. }))
    }

    /// Writes everything that was committed into a new file. Reads from the open handle, so it works as long as this
    /// process runs, even if the file has no name any more. Blocks.
    pub fn emergency_copy(&self, path: &Path) -> Result<(), EmergencyCopyError> {
        let failed = |source| EmergencyCopyError::Io { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let reader = lock(&self.0.reader);
        let copied = reader
            .backup(MAIN_DB, path, None::<fn(Progress)>)
            .map_err(|error| EmergencyCopyError::Copy { path: path.to_owned(), source: error.into() })
            .and_then(|()| File::open(path).and_then(|file| file.sync_all()).map_err(failed));
        if copied.is_err() {
            // A partial copy would be mistaken for a complete one, and may be what fills the disk.
            let _ = fs::remove_file(path);
        }
        copied
    }
}
