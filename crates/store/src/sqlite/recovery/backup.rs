//! Copies a damaged database, byte for byte, before recovery changes anything.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::exclusive::ExclusiveAccess;
use crate::Digest;
use crate::location::DATABASE_FILES;

/// The file with the digests of the copies, in the format of `sha256sum -c digests`.
const DIGESTS: &str = "digests";

/// Exists while the database is being replaced. If it is there and the database is not, recovery continues from here.
const UNFINISHED: &str = "unfinished";

/// A copy of the database files, in a directory of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    directory: PathBuf,
    files: Vec<String>,
}

/// Why no backup could be made. The store was not changed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the copy `{}` does not have the bytes of the original", path.display())]
    Differs { path: PathBuf },
}

impl Backup {
    /// Copies the database files into a new directory of the store, and reads the copies back.
    pub fn create(exclusive: &ExclusiveAccess, at: Timestamp) -> Result<Self, BackupError> {
        let directory = fresh_directory(&exclusive.location().backups_dir(), at)?;
        let mut backup = Self { directory, files: Vec::new() };
        let mut digests = String::new();
        // The index of the WAL is copied, too: it has no data of its own, but may help to find out what happened.
        for name in DATABASE_FILES {
            let from = exclusive.location().root().join(name);
            if !from.exists() {
                continue;
            }
            let to = backup.directory.join(name);
            let digest = copy(&from, &to)?;
            if File::open(&to).and_then(Digest::of_reader).map_err(failed("read", &to))? != digest {
                return Err(BackupError::Differs { path: to });
            }
            digests.push_str(&format!("{digest}  {name}\n"));
            backup.files.push(name.to_owned());
        }
        let path = backup.directory.join(DIGESTS);
        write_new(&path, &digests).map_err(failed("write", &path))?;
        for directory in [&backup.directory, &exclusive.location().backups_dir()] {
            File::open(directory).and_then(|d| d.sync_all()).map_err(failed("sync", directory))?;
        }
        Ok(backup)
    }

    /// Whether the store has any database file.
    #[must_use]
    pub fn has_files(exclusive: &ExclusiveAccess) -> bool {
        DATABASE_FILES.iter().any(|name| exclusive.location().root().join(name).exists())
    }

    /// Returns the backup of a recovery that was interrupted while there was no database. The caller has checked that
    /// the database is missing: one that is there may have been written to since.
    pub fn of_interrupted_recovery(exclusive: &ExclusiveAccess) -> Option<Self> {
        let mut directories: Vec<_> = fs::read_dir(exclusive.location().backups_dir())
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .collect();
        directories.sort();
        let directory = directories.into_iter().rev().find(|path| path.join(UNFINISHED).exists())?;
        let files = DATABASE_FILES.iter().filter(|name| directory.join(name).exists());
        Some(Self { files: files.map(|&name| name.to_owned()).collect(), directory })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The names of the copied files.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.directory.join(DATABASE_FILES[0])
    }

    /// Notes that this backup is the only copy of the database until [`mark_finished`](Self::mark_finished).
    pub(crate) fn mark_unfinished(&self) -> io::Result<()> {
        let path = self.directory.join(UNFINISHED);
        if !path.exists() {
            write_new(&path, "")?;
        }
        File::open(&self.directory)?.sync_all()
    }

    /// Notes that the database has been replaced.
    pub(crate) fn mark_finished(&self) -> io::Result<()> {
        fs::remove_file(self.directory.join(UNFINISHED))
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { action, path, source }
}

/// Creates a directory named after the time, with a number if that name is taken.
fn fresh_directory(parent: &Path, at: Timestamp) -> Result<PathBuf, BackupError> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700).recursive(true).create(parent).map_err(failed("create", parent))?;
    builder.recursive(false);
    let stamp = at.strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut name = stamp.clone();
    for number in 2.. {
        let path = parent.join(&name);
        match builder.create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => name = format!("{stamp}-{number}"),
            Err(source) => return Err(failed("create", &path)(source)),
        }
    }
    unreachable!("BUG: numbers do not end")
}

fn copy(from: &Path, to: &Path) -> Result<Digest, BackupError> {
    let mut original = File::open(from).map_err(failed("read", from))?;
    let mut copy =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(failed("write", to))?;
    io::copy(&mut original, &mut copy).and_then(|_| copy.sync_all()).map_err(failed("write", to))?;
    File::open(from).and_then(Digest::of_reader).map_err(failed("read", from))
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
