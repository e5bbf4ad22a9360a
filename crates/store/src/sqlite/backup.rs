//! A damaged store set aside, byte for byte, before anything is done about it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::closed::Closed;
use crate::Digest;
use crate::location::DATABASE_FILES;

/// In `sha256sum`'s own form, so that `sha256sum -c digests` checks it.
const DIGESTS: &str = "digests";

/// There while the database is being replaced: whoever finds it, and no database, goes on from here.
const UNFINISHED: &str = "unfinished";

/// A store that was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    directory: PathBuf,
    files: Vec<String>,
}

/// Why a store could not be set aside. It was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("the copy `{}` does not have the bytes of the original", path.display())]
    Differs { path: PathBuf },
}

impl Backup {
    /// Copies what is there into a new directory of the store, and reads the copies back.
    pub fn keep(closed: &Closed, at: Timestamp) -> Result<Self, KeepError> {
        let directory = fresh_directory(&closed.location().saved_dir(), at)?;
        let mut kept = Self { directory, files: Vec::new() };
        let mut digests = String::new();
        // The index of the log holds nothing that is not in the others; it is for whoever wants to know what happened.
        for name in DATABASE_FILES {
            let from = closed.location().root().join(name);
            if !from.exists() {
                continue;
            }
            let to = kept.directory.join(name);
            let digest = copy(&from, &to)?;
            if File::open(&to).and_then(Digest::of_reader).map_err(failed("read", &to))? != digest {
                return Err(KeepError::Differs { path: to });
            }
            digests.push_str(&format!("{digest}  {name}\n"));
            kept.files.push(name.to_owned());
        }
        let path = kept.directory.join(DIGESTS);
        write(&path, &digests).map_err(failed("write", &path))?;
        for directory in [&kept.directory, &closed.location().saved_dir()] {
            File::open(directory).and_then(|d| d.sync_all()).map_err(failed("sync", directory))?;
        }
        Ok(kept)
    }

    /// Whether there is anything to keep.
    #[must_use]
    pub fn has_something(closed: &Closed) -> bool {
        DATABASE_FILES.iter().any(|name| closed.location().root().join(name).exists())
    }

    /// What a recovery had set aside that was cut off while there was no database. Only then it counts: a database
    /// that is there may have been used since.
    pub fn unfinished(closed: &Closed) -> Option<Self> {
        let mut directories: Vec<_> =
            fs::read_dir(closed.location().saved_dir()).ok()?.flatten().map(|entry| entry.path()).collect();
        directories.sort();
        let directory = directories.into_iter().rev().find(|path| path.join(UNFINISHED).exists())?;
        let files = DATABASE_FILES.iter().filter(|name| directory.join(name).exists());
        Some(Self { files: files.map(|&name| name.to_owned()).collect(), directory })
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The names of the files that were there.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.directory.join(DATABASE_FILES[0])
    }

    /// From now on there may be no database but this one.
    pub(super) fn is_needed(&self) -> io::Result<()> {
        let path = self.directory.join(UNFINISHED);
        if !path.exists() {
            write(&path, "")?;
        }
        File::open(&self.directory)?.sync_all()
    }

    /// The store has been replaced; this is history now.
    pub(super) fn is_finished(&self) -> io::Result<()> {
        fs::remove_file(self.directory.join(UNFINISHED))
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KeepError {
    let path = path.to_owned();
    move |source| KeepError::Io { action, path, source }
}

/// Named after the run_at; never one that exists.
fn fresh_directory(parent: &Path, at: Timestamp) -> Result<PathBuf, KeepError> {
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

fn copy(from: &Path, to: &Path) -> Result<Digest, KeepError> {
    let mut original = File::open(from).map_err(failed("read", from))?;
    let mut copy =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(to).map_err(failed("write", to))?;
    io::copy(&mut original, &mut copy).and_then(|_| copy.sync_all()).map_err(failed("write", to))?;
    File::open(from).and_then(Digest::of_reader).map_err(failed("read", from))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
