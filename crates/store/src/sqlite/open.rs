//! How a file becomes a store: opened as it is, brought to our format, or created; never silently begun afresh.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rusqlite::Connection;

use super::connection::{Database, connect, connect_reader, unavailable};
use super::migrations::{APPLICATION_ID, FORMAT, migrate};
use super::writer_lock::{WriterLock, is_inscribed};
use crate::Location;
use crate::error::Unavailable;
use crate::os::FileIdentity;

/// Why a store could not be opened. The file is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("`{}` is empty, and it should be a database", path.display())]
    Empty { path: PathBuf },
    #[error("`{}` is gone, though its store is still there", path.display())]
    Missing { path: PathBuf },
    #[error("`{}` cannot be read as a database", path.display())]
    Unreadable { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("`{}` is a database of another program", path.display())]
    ExternalWrite { path: PathBuf },
    #[error("`{}` has format {found}, written by a newer callboard; this one knows {known}", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

pub(super) fn open(location: &Location) -> Result<Database, OpenError> {
    if !is_present_in_turn(location)? {
        create(location)?;
    }
    attach(location)
}

pub(super) fn open_existing(location: &Location) -> Result<Option<Database>, OpenError> {
    if is_present_in_turn(location)? { attach(location).map(Some) } else { Ok(None) }
}

/// The same as [`is_present`]; but a database that is being replaced is not gone. Whoever replaces it has the ticket, so
/// we look once more when it is ours.
fn is_present_in_turn(location: &Location) -> Result<bool, OpenError> {
    let missing = match is_present(location) {
        Err(missing @ OpenError::Missing { .. }) => missing,
        known => return known,
    };
    let turn =
        WriterLock::existing(location.writer_lock()).ok().and_then(|writer_lock| writer_lock.take().ok());
    if turn.is_some() { is_present(location) } else { Err(missing) }
}

/// Tells whether there is a database, and refuses to call a lost one absent.
pub(super) fn is_present(location: &Location) -> Result<bool, OpenError> {
    let path = location.database();
    if has_content(&path)? {
        return Ok(true);
    }
    if !is_inscribed(&location.writer_lock()) && !location.log().exists() {
        return Ok(false);
    }
    // These traces come after the database. A second look tells one that was lost from one that was just created.
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

fn attach(location: &Location) -> Result<Database, OpenError> {
    let path = location.database();
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| io_error(action, path, source)
    };
    let writer_lock =
        WriterLock::prepare(location.writer_lock()).map_err(failed("open", &location.writer_lock()))?;
    // By name, before and after: opening the file once more and closing it would drop SQLite's locks on it.
    let identity = FileIdentity::of(&fs::metadata(&path).map_err(failed("look at", &path))?);
    let (reader, application, format) = connect_reader(&path).map_err(|error| unreadable(&path, error))?;
    if application != APPLICATION_ID {
        return Err(OpenError::ExternalWrite { path });
    }
    if format > FORMAT {
        return Err(OpenError::Newer { path, found: format, known: FORMAT });
    }
    if format < FORMAT || !is_inscribed(writer_lock.path()) {
        let mut turn = writer_lock.take()?;
        turn.inscribe().map_err(failed("write", writer_lock.path()))?;
        let upgraded = connect(&path).and_then(|mut writer| migrate(&mut writer));
        upgraded.map_err(|error| unavailable(&path, error))?;
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
    database.check()?;
    Ok(database)
}

/// Builds the database beside its place and moves it there whole: a half-made one is never seen, not even after a
/// power cut.
fn create(location: &Location) -> Result<(), OpenError> {
    let failed = |action, path: PathBuf| move |source| io_error(action, path, source);
    for directory in [location.root().to_owned(), location.engines_dir(), location.attempts_dir()] {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&directory).map_err(failed("create", directory))?;
    }
    let writer_lock =
        WriterLock::prepare(location.writer_lock()).map_err(failed("create", location.writer_lock()))?;
    let mut turn = writer_lock.take()?;
    if is_present(location)? {
        return Ok(()); // somebody was faster
    }
    let draft = location.root().join("callboard.db.new");
    if let Err(failed) = build(&draft) {
        // Half a database helps nobody, and may be what fills the disk.
        let _ = remove_draft(&draft);
        return Err(failed);
    }
    fs::rename(&draft, location.database()).map_err(failed("create", location.database()))?;
    let parent = location.root().parent().unwrap_or(location.root());
    for directory in [location.root(), parent] {
        File::open(directory).and_then(|d| d.sync_all()).map_err(failed("sync", directory.to_owned()))?;
    }
    turn.inscribe().map_err(failed("write", location.writer_lock()))
}

/// What a killed creator left. It held the ticket, which is ours now.
fn remove_draft(draft: &Path) -> io::Result<()> {
    for suffix in ["", "-journal", "-wal", "-shm"] {
        let mut name = draft.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn build(draft: &Path) -> Result<(), OpenError> {
    let failed = |source| io_error("create", draft.to_owned(), source);
    remove_draft(draft).map_err(failed)?;
    // SQLite gives the mode of this file to the files it puts beside it.
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft).map_err(failed)?;
    let fill = || -> rusqlite::Result<String> {
        let mut connection = connect(draft)?;
        migrate(&mut connection)?;
        let mode = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.close().map_err(|(_, error): (Connection, _)| error)?;
        Ok(mode)
    };
    // SQLite does not fail where it cannot share memory; it stays in another mode.
    match fill().map_err(|error| unavailable(draft, error))?.as_str() {
        "wal" => {}
        other => {
            return Err(failed(io::Error::other(format!("SQLite keeps to journal mode `{other}` there"))));
        }
    }
    File::open(draft).and_then(|file| file.sync_all()).map_err(failed)
}

/// Tells a file that is no database of ours from one that the machine does not let us read: a full disk, or one we may
/// not write to, is no fault of the database.
pub(super) fn unreadable(path: &Path, error: rusqlite::Error) -> OpenError {
    match unavailable(path, error) {
        Unavailable::Damaged { path, source } => OpenError::Unreadable { path, source },
        other => other.into(),
    }
}

/// What an error of the system means for whoever opens a store.
fn io_error(action: &'static str, path: PathBuf, source: io::Error) -> OpenError {
    match Unavailable::io(action, path, source) {
        Unavailable::Io { action, path, source } => OpenError::Io { action, path, source },
        other => other.into(),
    }
}
