//! The writer lock: a file on which writers queue, and whose closing wakes watchers.
//!
//! SQLite waits by polling, in no order; the kernel wakes the waiters of a locked file at once and in order. A process
//! that closes the file, or is killed while holding the lock, wakes the watchers. By then its commit is visible or
//! rolled back.
//!
//! The kernel's queue has no timeout, and a holder that SIGSTOP or Ctrl-Z has stopped blocks every writer. Therefore a
//! second thread waits in the queue, while the caller checks from time to time which process holds the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use linux::FileIdentity;

use crate::error::Unavailable;

/// Written to the lock file once the store has a database. If it is there and the database is not, the database is
/// lost.
const DATABASE_NOTE: &str = "Writers of this callboard store queue on this file. Leave it here.\n";

#[derive(Debug)]
pub(crate) struct WriterLock {
    path: PathBuf,
    /// Open for reading only, so that closing it wakes no watcher. While it is open, no other file can have its inode.
    pinned: File,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct WriterGuard(File);

impl WriterLock {
    /// Opens the lock file, and creates it if it does not exist.
    pub(crate) fn open_or_create(path: PathBuf) -> io::Result<Self> {
        let pinned = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
                File::open(&path)?
            }
            other => other?,
        };
        Ok(Self { path, pinned })
    }

    /// Opens the lock file. Fails if it does not exist.
    pub(crate) fn open_existing(path: PathBuf) -> io::Result<Self> {
        Ok(Self { pinned: File::open(&path)?, path })
    }

    /// Stands in for the lock of a store that has no lock file, such as a restored backup, for a reader that must not
    /// create one. Only [`check`](Self::check) is meaningful; it compares the database itself.
    pub(crate) fn of_database(database: PathBuf) -> io::Result<Self> {
        let pinned = File::open(&database)?;
        Ok(Self { path: database, pinned })
    }

    /// Waits in the kernel's queue. Never creates the file: a lock on a new file would exclude no other process.
    pub(crate) fn acquire(&self) -> Result<WriterGuard, Unavailable> {
        self.acquire_within(TIMEOUTS)
    }

    fn acquire_within(&self, timeouts: Timeouts) -> Result<WriterGuard, Unavailable> {
        let file = OpenOptions::new().write(true).open(&self.path).map_err(|error| self.failed(error))?;
        match file.try_lock() {
            Ok(()) => Ok(WriterGuard(file)),
            Err(TryLockError::WouldBlock) => self.wait_in_queue(file, timeouts),
            Err(TryLockError::Error(error)) => Err(self.failed(error)),
        }
    }

    /// Waits for a second thread, which queues. After a timeout that thread stays in the queue and drops the lock when it gets
    /// it.
    fn wait_in_queue(&self, file: File, timeouts: Timeouts) -> Result<WriterGuard, Unavailable> {
        let (sender, receiver) = mpsc::channel();
        let wait = move || {
            let locked = lock_uninterrupted(&file).map(|()| file);
            let _ = sender.send(locked);
        };
        let thread = std::thread::Builder::new().name("writer-lock".to_owned()).spawn(wait);
        thread.map_err(|error| self.failed(error))?;
        let started = Instant::now();
        let mut stopped_since = None;
        loop {
            match receiver.recv_timeout(timeouts.check_interval) {
                Ok(locked) => return locked.map(WriterGuard).map_err(|error| self.failed(error)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failed(io::Error::other("the thread that waited for it is gone")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let holder = linux::lock_holder(&self.path);
            stopped_since = match &holder {
                Some(holder) if holder.stopped => stopped_since.or(Some(Instant::now())),
                Some(_) | None => None,
            };
            let is_stopped_too_long = stopped_since.is_some_and(|since| since.elapsed() >= timeouts.stopped);
            if is_stopped_too_long || started.elapsed() >= timeouts.running {
                return Err(Unavailable::Held { path: self.path.clone(), holder });
            }
        }
    }

    fn failed(&self, source: io::Error) -> Unavailable {
        let path = self.path.clone();
        match source.kind() {
            io::ErrorKind::NotFound => Unavailable::Gone { path },
            _ => Unavailable::io("lock", path, source),
        }
    }

    /// Takes the lock without waiting. Returns `None` if another process holds it.
    pub(crate) fn try_acquire(&self) -> io::Result<Option<WriterGuard>> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(WriterGuard(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the lock file was removed or replaced since it was opened.
    pub(crate) fn check(&self) -> Result<(), Unavailable> {
        let ours = self.pinned.metadata().map(|metadata| FileIdentity::of(&metadata)).ok();
        check_identity(&self.path, ours)
    }
}

/// How long a writer waits for the current holder.
#[derive(Debug, Clone, Copy)]
struct Timeouts {
    /// How often it checks which process holds the lock.
    check_interval: Duration,
    /// For a holder that was stopped at every check: a debugger stops a process for a short while, too.
    stopped: Duration,
    /// For a running holder. A slow disk with many queued writers takes seconds, not minutes.
    running: Duration,
}

const TIMEOUTS: Timeouts = Timeouts {
    check_interval: Duration::from_secs(1),
    stopped: Duration::from_secs(4),
    running: Duration::from_secs(120),
};

fn lock_uninterrupted(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl WriterGuard {
    /// Notes in the lock file that this store has a database.
    pub(crate) fn write_database_note(&mut self) -> io::Result<()> {
        if self.0.metadata()?.len() == 0 {
            self.0.write_all(DATABASE_NOTE.as_bytes())?;
            self.0.sync_all()?;
        }
        Ok(())
    }
}

/// Whether the lock file says that its store has a database.
pub(crate) fn has_database_note(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// Fails unless the file at `path` is the one that was opened.
pub(crate) fn check_identity(path: &Path, ours: Option<FileIdentity>) -> Result<(), Unavailable> {
    match fs::metadata(path) {
        Ok(metadata) if Some(FileIdentity::of(&metadata)) == ours => Ok(()),
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Unavailable::Io { action: "look at", path: path.to_owned(), source })
        }
        Ok(_) | Err(_) => Err(Unavailable::Gone { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(3600);

    fn writer_lock() -> (tempfile::TempDir, WriterLock) {
        let directory = tempfile::tempdir().unwrap();
        let writer_lock = WriterLock::open_or_create(directory.path().join("writer.lock")).unwrap();
        (directory, writer_lock)
    }

    #[test]
    fn a_waiting_writer_gets_the_lock_when_it_is_released() {
        let (_directory, writer_lock) = writer_lock();
        let held = writer_lock.acquire().unwrap();
        let timeouts = Timeouts { check_interval: SHORT, stopped: LONG, running: LONG };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| writer_lock.acquire_within(timeouts).map(drop));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_timeout_names_the_holder_and_the_waiting_thread_does_not_keep_the_lock() {
        let (_directory, writer_lock) = writer_lock();
        let held = writer_lock.acquire().unwrap();
        let timeouts = Timeouts { check_interval: SHORT, stopped: LONG, running: SHORT };
        let refused = writer_lock.acquire_within(timeouts).unwrap_err();
        let Unavailable::Held { holder: Some(holder), .. } = &refused else { panic!("{refused}") };
        assert_eq!((holder.pid, holder.stopped), (std::process::id(), false));
        drop(held);
        writer_lock.acquire().unwrap();
    }
}
