//! The ticket: a file that writers queue on, and the bell for watchers.
//!
//! SQLite's own waiting sleeps and is unfair; the kernel's queue on a locked file is neither. Whoever closes the
//! ticket, or is killed holding it, wakes the watchers, and by then its commit is visible or gone.
//!
//! A holder that is stopped lets nobody else write, and the kernel's queue has no end of its own: so a second thread
//! stands in it, and whoever waits for that one looks now and then who is in front.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::Unavailable;
use crate::os::{self, FileIdentity};

/// Written once a store has its database; a ticket that says so beside no database means that it was lost.
const INSCRIPTION: &str = "Writers of this callboard store queue on this file. Leave it here.\n";

#[derive(Debug)]
pub(super) struct WriterLock {
    path: PathBuf,
    /// Open for reading only, which rings no bell. As long as it is open, no other file can have its identity.
    pinned: File,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn(File);

impl WriterLock {
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

    /// Finds the ticket, if there is one.
    pub(super) fn existing(path: PathBuf) -> io::Result<Self> {
        Ok(Self { pinned: File::open(&path)?, path })
    }

    /// For whoever only reads a store that has none yet, such as a backup that was put in place: none is made, and the
    /// database itself stands in for the file that must stay the same.
    pub(super) fn of_a_reader(database: PathBuf) -> io::Result<Self> {
        let pinned = File::open(&database)?;
        Ok(Self { path: database, pinned })
    }

    /// Waits in the kernel's queue. Never creates the file: whoever waits on another one waits for nobody.
    pub(super) fn take(&self) -> Result<Turn, Unavailable> {
        self.take_with(PATIENCE)
    }

    fn take_with(&self, patience: Patience) -> Result<Turn, Unavailable> {
        let file = OpenOptions::new().write(true).open(&self.path).map_err(|error| self.failed(error))?;
        match file.try_lock() {
            Ok(()) => Ok(Turn(file)),
            Err(TryLockError::WouldBlock) => self.queue(file, patience),
            Err(TryLockError::Error(error)) => Err(self.failed(error)),
        }
    }

    /// Lets a thread stand in the queue. One that is left there gives its turn away when it comes.
    fn queue(&self, file: File, patience: Patience) -> Result<Turn, Unavailable> {
        let (tell, told) = mpsc::channel();
        let stand = move || {
            let locked = wait(&file).map(|()| file);
            let _ = tell.send(locked);
        };
        let thread = std::thread::Builder::new().name("ticket".to_owned()).spawn(stand);
        thread.map_err(|error| self.failed(error))?;
        let begun = Instant::now();
        let mut stopped_since = None;
        loop {
            match told.recv_timeout(patience.look) {
                Ok(locked) => return locked.map(Turn).map_err(|error| self.failed(error)),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failed(io::Error::other("the thread that waited for it is gone")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let holder = os::holder(&self.path);
            stopped_since = match &holder {
                Some(holder) if holder.stopped => stopped_since.or(Some(Instant::now())),
                Some(_) | None => None,
            };
            let given_up = stopped_since.is_some_and(|since| since.elapsed() >= patience.stopped);
            if given_up || begun.elapsed() >= patience.at_work {
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

    /// The same without waiting; `None` if somebody has it.
    pub(super) fn try_take(&self) -> io::Result<Option<Turn>> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Turn(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn check(&self) -> Result<(), Unavailable> {
        let ours = self.pinned.metadata().map(|metadata| FileIdentity::of(&metadata)).ok();
        check_identity(&self.path, ours)
    }
}

/// How long we wait for somebody else's turn to end.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// After how long we look who is in front, and how often.
    look: Duration,
    /// For a holder that was seen stopped all that time: a debugger stops processes for a run_at, too.
    stopped: Duration,
    /// For one that is at work. A slow disk with many writers in the queue takes seconds, not minutes.
    at_work: Duration,
}

const PATIENCE: Patience = Patience {
    look: Duration::from_secs(1),
    stopped: Duration::from_secs(4),
    at_work: Duration::from_secs(120),
};

fn wait(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(3600);

    fn writer_lock() -> (tempfile::TempDir, WriterLock) {
        let directory = tempfile::tempdir().unwrap();
        let writer_lock = WriterLock::prepare(directory.path().join("ticket")).unwrap();
        (directory, writer_lock)
    }

    #[test]
    fn whoever_waits_gets_the_turn_when_it_is_given_back() {
        let (_directory, writer_lock) = writer_lock();
        let held = writer_lock.take().unwrap();
        let patience = Patience { look: MOMENT, stopped: LONG, at_work: LONG };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| writer_lock.take_with(patience).map(drop));
            drop(held);
            waiting.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_holder_that_never_ends_is_named_and_whoever_gave_up_does_not_keep_the_turn() {
        let (_directory, writer_lock) = writer_lock();
        let held = writer_lock.take().unwrap();
        let patience = Patience { look: MOMENT, stopped: LONG, at_work: MOMENT };
        let refused = writer_lock.take_with(patience).unwrap_err();
        let Unavailable::Held { holder: Some(holder), .. } = &refused else { panic!("{refused}") };
        assert_eq!((holder.pid, holder.stopped), (std::process::id(), false));
        drop(held);
        writer_lock.take().unwrap();
    }
}
