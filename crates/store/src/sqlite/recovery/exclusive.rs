//! Exclusive access to a store: no other process writes to it or runs an engine in it. Recovery requires it.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::sqlite::lock::engine::{TryLock, read_holder, retry_lock};
use crate::sqlite::lock::writer::{WriterGuard, WriterLock};
use crate::{EngineHolder, Location};

/// The writer lock and every engine lock of a store, until it is dropped. Other writers wait meanwhile.
#[derive(Debug)]
pub struct ExclusiveAccess {
    location: Location,
    pub(crate) guard: WriterGuard,
    _engine_locks: Vec<File>,
}

/// Why this process could not get exclusive access.
#[derive(Debug, thiserror::Error)]
pub enum ExclusiveAccessError {
    #[error("run `{run}` has an engine: process {} on `{}`", holder.pid, holder.host)]
    EngineRunning { run: String, holder: EngineHolder },
    #[error("another process is writing to the store `{}`", path.display())]
    Busy { path: PathBuf },
    #[error("could not {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl ExclusiveAccess {
    /// Takes the writer lock and the lock of every run. Creates the store's directory if it is missing, but never a
    /// database.
    pub fn acquire(location: &Location) -> Result<Self, ExclusiveAccessError> {
        let failed = |action, path: PathBuf| move |source| ExclusiveAccessError::Io { action, path, source };
        for directory in [location.root().to_owned(), location.engines_dir(), location.attempts_dir()] {
            let mut builder = DirBuilder::new();
            builder.recursive(true).mode(0o700).create(&directory).map_err(failed("create", directory))?;
        }
        let writer_lock = WriterLock::open_or_create(location.writer_lock())
            .map_err(failed("open", location.writer_lock()))?;
        let guard =
            retry_lock(|| Ok(writer_lock.try_acquire()?.map_or(TryLock::FreeSoon, TryLock::Acquired)))
                .map_err(failed("lock", location.writer_lock()))?
                .ok_or_else(|| ExclusiveAccessError::Busy { path: location.writer_lock() })?;
        let engine_locks = lock_all_engines(location)?;
        Ok(Self { location: location.clone(), guard, _engine_locks: engine_locks })
    }

    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }
}

fn lock_all_engines(location: &Location) -> Result<Vec<File>, ExclusiveAccessError> {
    let directory = &location.engines_dir();
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| ExclusiveAccessError::Io { action, path, source }
    };
    let mut locks = Vec::new();
    for file in fs::read_dir(directory).map_err(failed("list", directory))? {
        let path = file.map_err(failed("list", directory))?.path();
        let Some(run) = location.run_of_lock(&path) else { continue };
        let mut last_holder = None;
        let locked = retry_lock(|| {
            let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
            match file.try_lock() {
                Ok(()) => Ok(TryLock::Acquired(file)),
                Err(TryLockError::Error(error)) => Err(error),
                Err(TryLockError::WouldBlock) => {
                    let holder = read_holder(&mut file)?;
                    // The lock of a killed engine may outlive it until the exec of its last child.
                    let is_alive = linux::is_alive(holder.pid);
                    last_holder = Some(holder);
                    Ok(if is_alive { TryLock::Held } else { TryLock::FreeSoon })
                }
            }
        });
        match locked.map_err(failed("lock", &path))? {
            Some(lock) => locks.push(lock),
            None => {
                let holder = last_holder.expect("BUG: a lock that was not taken has a holder");
                return Err(ExclusiveAccessError::EngineRunning { run, holder });
            }
        }
    }
    Ok(locks)
}
