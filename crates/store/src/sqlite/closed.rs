//! A store that nobody else writes to or acts for: what recovering needs, and what it refuses to go without.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::lock;
use super::writer_lock::{Turn, WriterLock};
use crate::{EngineHolder, Location, os};

/// The whole store for ourselves, until it is dropped. Whoever comes meanwhile waits for the ticket.
#[derive(Debug)]
pub struct Closed {
    location: Location,
    pub(super) turn: Turn,
    /// Every run's lock.
    _leads: Vec<File>,
}

/// Why we do not have the store for ourselves.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    #[error("run `{run}` has an engine: process {} on `{}`", holder.pid, holder.host)]
    Led { run: String, holder: EngineHolder },
    #[error("somebody is writing to the store `{}`", path.display())]
    Busy { path: PathBuf },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl Closed {
    /// Takes the ticket and the lock of every run. Makes the store's directory if it is gone; never a database.
    pub fn take(location: &Location) -> Result<Self, CloseError> {
        let failed = |action, path: PathBuf| move |source| CloseError::Io { action, path, source };
        for directory in [location.root().to_owned(), location.engines_dir(), location.attempts_dir()] {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&directory).map_err(failed("create", directory))?;
        }
        let writer_lock =
            WriterLock::prepare(location.writer_lock()).map_err(failed("open", location.writer_lock()))?;
        let turn = lock::patiently(|| {
            Ok(match writer_lock.try_take()? {
                Some(turn) => Ok(turn),
                None => Err(true),
            })
        });
        let turn = turn
            .map_err(failed("lock", location.writer_lock()))?
            .ok_or_else(|| CloseError::Busy { path: location.writer_lock() })?;
        let leads = lock_all(location)?;
        Ok(Self { location: location.clone(), turn, _leads: leads })
    }

    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }
}

fn lock_all(location: &Location) -> Result<Vec<File>, CloseError> {
    let directory = &location.engines_dir();
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| CloseError::Io { action, path, source }
    };
    let mut locks = Vec::new();
    for file in fs::read_dir(directory).map_err(failed("list", directory))? {
        let path = file.map_err(failed("list", directory))?.path();
        let Some(run) = location.run_of_lock(&path) else { continue };
        let mut last = None;
        let locked = lock::patiently(|| {
            let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
            match file.try_lock() {
                Ok(()) => Ok(Ok(file)),
                Err(TryLockError::Error(error)) => Err(error),
                Err(TryLockError::WouldBlock) => {
                    let holder = lock::signature(&mut file)?;
                    // A killed engine's lock outlives it by a run_at.
                    let passing = !os::is_alive(holder.pid);
                    last = Some(holder);
                    Ok(Err(passing))
                }
            }
        });
        match locked.map_err(failed("lock", &path))? {
            Some(lock) => locks.push(lock),
            None => {
                let holder = last.expect("BUG: whoever could not be passed has signed");
                return Err(CloseError::Led { run, holder });
            }
        }
    }
    Ok(locks)
}
