//! Opens, migrates or creates a database. A lost database is an error; it is never silently replaced by an empty one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use linux::FileIdentity;
use rusqlite::Connection;

use super::connect::{connect, connect_reader};
use super::database::{Database, unavailable};
use crate::Location;
use crate::error::Unavailable;
use crate::sqlite::lock::writer::{WriterLock, has_database_note};
use crate::sqlite::sql::schema::{APPLICATION_ID, FORMAT, migrate};

/// Why a store could not be opened. Its files were not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{}` is empty instead of a database", path.display())]
    Empty { path: PathBuf },
    #[error("`{}` is missing, but other files of its store are there", path.display())]
    Missing { path: PathBuf },
    #[error("`{}` cannot be read as a database", path.display())]
    Unreadable { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("`{}` is a database of another program", path.display())]
    OtherProgram { path: PathBuf },
    #[error("`{}` has format {found}, written by a newer callboard; this one knows {known}", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Opens the database, and creates it first if the store has none.
pub(crate) fn open(location: &Location) -> Result<Database, OpenError> {
    if !is_present_after_recovery(location)? {
        create(location)?;
    }
    open_present(location)
}

/// Opens the database, or returns `None` if the store has none.
pub(crate) fn open_existing(location: &Location) -> Result<Option<Database>, OpenError> {
    if is_present_after_recovery(location)? { open_present(location).map(Some) } else { Ok(None) }
}

/// Whether there is a database. A missing one is looked for again under the writer lock, because `callboard recover` holds
/// that lock while it replaces a database.
fn is_present_after_recovery(location: &Location) -> Result<bool, OpenError> {
    let missing = match is_present(location) {
        Err(missing @ OpenError::Missing { .. }) => missing,
        known => return known,
    };
    let guard = WriterLock::open_existing(location.writer_lock()).ok().and_then(|lock| lock.acquire().ok());
    if guard.is_some() { is_present(location) } else { Err(missing) }
}

/// Whether there is a database. Fails if there was one and it is lost.
pub(crate) fn is_present(location: &Location) -> Result<bool, OpenError> {
    let path = location.database();
    if has_content(&path)? {
        return Ok(true);
    }
    if !has_database_note(&location.writer_lock()) && !location.wal().exists() {
        return Ok(false);
    }
    // The note in the lock file and the WAL are written after the database. Look again: it may have been created since
    // the first look.
    if has_content(&path)? { Ok(true) } else { Err(OpenError::Missing { path }) }
}

fn has_content(path: &Path) -> Result<bool, OpenError> {
    match fs::metadata(path) {
        // SQLite would take an empty file for a new database.
        Ok(metadata) if metadata.len() == 0 => Err(OpenError::Empty { path: path.to_owned() }),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(OpenError::Io { action: "look at", path: path.to_owned(), source }),
    }
}

fn open_present(location: &Location) -> Result<Database, OpenError> {
    let path = location.database();
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| io_error(action, path, source)
    };
    let writer_lock = WriterLock::open_or_create(location.writer_lock())
        .map_err(failed("open", &location.writer_lock()))?;
    // Stat by path, as `check_files` does: opening and closing the file would drop SQLite's POSIX locks on it.
    let identity = FileIdentity::of(&fs::metadata(&path).map_err(failed("look at", &path))?);
    let (reader, application, format) = connect_reader(&path).map_err(|error| unreadable(&path, error))?;
    if application != APPLICATION_ID {
        return Err(OpenError::OtherProgram { path });
    }
    if format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    if format < FORMAT || !has_database_note(writer_lock.path()) {
        let mut guard = writer_lock.acquire()?;
        guard.write_database_note().map_err(failed("write", writer_lock.path()))?;
        let migrated = connect(&path).and_then(|mut writer| migrate(&mut writer));
        migrated.map_err(|error| unavailable(&path, error))?;
    }
    let location = location.clone();
    let database = Database {
        location,
        path,
        identity,
        writer_lock,
        reader: Mutex::new(reader),
        writer: Mutex::new(None),
    };
    database.check_files()?;
    Ok(database)
}

/// Builds the database under another name and renames it, so that a partial one is never visible, even after a power
/// failure.
fn create(location: &Location) -> Result<(), OpenError> {
    let failed = |action, path: PathBuf| move |source| io_error(action, path, source);
    for directory in [location.root().to_owned(), location.engines_dir(), location.attempts_dir()] {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory).map_err(failed("create", directory))?;
    }
    let writer_lock = WriterLock::open_or_create(location.writer_lock())
        .map_err(failed("create", location.writer_lock()))?;
    let mut guard = writer_lock.acquire()?;
    if is_present(location)? {
        return Ok(()); // another process created it
    }
    let new = location.root().join("callboard.db.new");
    if let Err(failed) = build(&new) {
        // A partial database is of no use, and may be what fills the disk.
        let _ = remove_database(&new);
        return Err(failed);
    }
    fs::rename(&new, location.database()).map_err(failed("create", location.database()))?;
    let parent = location.root().parent().unwrap_or(location.root());
    for directory in [location.root(), parent] {
        File::open(directory).and_then(|d| d.sync_all()).map_err(failed("sync", directory.to_owned()))?;
    }
    guard.write_database_note().map_err(failed("write", location.writer_lock()))
}

fn remove_database(path: &Path) -> io::Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Creates an empty database at `path`, after removing what a killed process left there. The caller holds the writer
/// lock.
pub(crate) fn build(path: &Path) -> Result<(), OpenError> {
    let failed = |source| io_error("create", path.to_owned(), source);
    remove_database(path).map_err(failed)?;
    // SQLite gives the mode of this file to the files it creates next to it.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    let fill = || -> rusqlite::Result<String> {
        let mut connection = connect(path)?;
        migrate(&mut connection)?;
        let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.close().map_err(|(_, error): (Connection, _)| error)?;
        Ok(mode)
    };
    // Where shared memory is not available, SQLite does not fail but stays in another journal mode.
    match fill().map_err(|error| unavailable(path, error))?.as_str() {
        "wal" => {}
        other => {
            return Err(failed(io::Error::other(format!("SQLite keeps to journal mode `{other}` there"))));
        }
    }
    File::open(path).and_then(|file| file.sync_all()).map_err(failed)
}

/// Classifies an error of the first read: either the file is no database, or the machine prevents reading it (a full
/// disk, missing permissions).
pub(crate) fn unreadable(path: &Path, error: rusqlite::Error) -> OpenError {
    match unavailable(path, error) {
        Unavailable::Damaged { path, source } => OpenError::Unreadable { path, source },
        other => other.into(),
    }
}

fn io_error(action: &'static str, path: PathBuf, source: io::Error) -> OpenError {
    match Unavailable::io(action, path, source) {
        Unavailable::Io { action, path, source } => OpenError::Io { action, path, source },
        other => other.into(),
    }
}
