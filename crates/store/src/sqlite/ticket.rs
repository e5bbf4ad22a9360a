//! The ticket: a file that writers queue on, and the bell for watchers.
//!
//! SQLite's own waiting sleeps and is unfair; the kernel's queue on a locked file is neither. Whoever closes the
//! ticket, or is killed holding it, wakes the watchers, and by then its commit is visible or gone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::Unavailable;
use crate::os::FileIdentity;

/// Written once a store has its database; a ticket that says so beside no database means that it was lost.
const INSCRIPTION: &str = "Writers of this callboard store queue on this file. Leave it here.\n";

#[derive(Debug)]
pub(super) struct Ticket {
    path: PathBuf,
    /// Open for reading only, which rings no bell. As long as it is open, no other file can have its identity.
    pinned: File,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(File);

impl Ticket {
    /// Finds the ticket, or makes one.
    pub(super) fn prepare(path: PathBuf) -> io::Result<Self> {
        let pinned = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
                File::open(&path)?
            }
            other => other?,
        };
        Ok(Self { path, pinned })
    }

    /// Waits in the kernel's queue. Never creates the file: whoever waits on another one waits for nobody.
    pub(super) fn take(&self) -> io::Result<Turn> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        while let Err(error) = file.lock() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        Ok(Turn(file))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn check(&self) -> Result<(), Unavailable> {
        let ours = self.pinned.metadata().map(|metadata| FileIdentity::of(&metadata)).ok();
        check_identity(&self.path, ours)
    }
}

impl Turn {
    /// Notes that this store has a database.
    pub(super) fn inscribe(&mut self) -> io::Result<()> {
        if self.0.metadata()?.len() == 0 {
            self.0.write_all(INSCRIPTION.as_bytes())?;
            self.0.sync_all()?;
        }
        Ok(())
    }
}

pub(super) fn is_inscribed(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// Tells whether the file at `path` is still the one we opened.
pub(super) fn check_identity(path: &Path, ours: Option<FileIdentity>) -> Result<(), Unavailable> {
    match fs::metadata(path) {
        Ok(metadata) if Some(FileIdentity::of(&metadata)) == ours => Ok(()),
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Unavailable::Io { action: "look at", path: path.to_owned(), source })
        }
        Ok(_) | Err(_) => Err(Unavailable::Gone { path: path.to_owned() }),
    }
}
