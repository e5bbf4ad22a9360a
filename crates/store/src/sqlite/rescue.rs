//! A copy from the open handle, for a store whose file was taken away under us.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::MAIN_DB;
use rusqlite::backup::Progress;

use super::SqliteStore;
use super::connection::lock;
use crate::error::Unavailable;

/// Why no copy could be saved.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    #[error("could not write the copy `{}`", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("could not copy the database to `{}`", path.display())]
    Copy { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}

impl SqliteStore {
    /// Whether the files we have open are no longer in their place.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.0.check(), Err(Unavailable::Gone { .. }))
    }

    /// Writes everything that was committed into a new file, from the handle: it works as long as this process lives,
    /// whatever became of the file's name. Blocks.
    pub fn save_copy(&self, path: &Path) -> Result<(), RescueError> {
        let failed = |source| RescueError::Io { path: path.to_owned(), source };
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        let reader = lock(&self.0.reader);
        let copied = reader
            .backup(MAIN_DB, path, None::<fn(Progress)>)
            .map_err(|error| RescueError::Copy { path: path.to_owned(), source: error.into() })
            .and_then(|()| File::open(path).and_then(|file| file.sync_all()).map_err(failed));
        if copied.is_err() {
            // Half a copy would be taken for a whole one, and may be what fills the disk.
            let _ = fs::remove_file(path);
        }
        copied
    }
}
