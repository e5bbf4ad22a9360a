//! The lock that makes a process the engine of a run: a file the kernel unlocks when the process ends, and an epoch
//! that only grows.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use protocol::RunId;

use crate::engine_lock::{EngineHolder, EngineLock, LockGuard, LockPurpose};
use crate::error::{EngineLockError, Unavailable};
use crate::sqlite::connection::Database;
use crate::sqlite::sql::write::write_next_epoch;

/// A locked file. Rust opens files close-on-exec, so a child keeps the lock no longer than until its exec.
#[derive(Debug)]
pub(crate) struct EngineLockFile(File);

impl Drop for EngineLockFile {
    /// Unlocks for every process that shares the open file, which includes a child before its exec. If that fails,
    /// closing the last descriptor unlocks it.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// How often a lock that will soon be free is tried again. With [`RETRY_INTERVAL`] this makes ten seconds, which a
/// one-shot may take on an overloaded machine.
const CAN_RETRY: u32 = 2000;
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// What one try to take a lock found.
pub(crate) enum TryLock<T> {
    Acquired(T),
    /// The lock will be free soon: try again.
    FreeSoon,
    /// The holder will keep it.
    Held,
}

/// Repeats `try_lock` while it returns [`TryLock::FreeSoon`], within a limit. Returns `None` if the lock was not taken.
pub(crate) fn retry_lock<T>(mut try_lock: impl FnMut() -> io::Result<TryLock<T>>) -> io::Result<Option<T>> {
    for _ in 0..CAN_RETRY {
        match try_lock()? {
            TryLock::Acquired(lock) => return Ok(Some(lock)),
            TryLock::FreeSoon => std::thread::sleep(RETRY_INTERVAL),
            TryLock::Held => return Ok(None),
        }
    }
    Ok(None)
}

/// Makes this process the engine of a run. Fails with the holder if there is one.
///
/// Two kinds of holders are waited for: a one-shot, which ends soon; and a killed engine, whose lock is kept by a child
/// that it was just starting, until the child's exec.
pub(crate) fn acquire(
    database: &Database,
    run: RunId,
    purpose: LockPurpose,
) -> Result<EngineLock, EngineLockError> {
    let mut tries = 0;
    loop {
        let holder = match try_acquire(database, &run, purpose)? {
            Ok(lock) => return Ok(lock),
            Err(holder) => holder,
        };
        tries += 1;
        if tries > CAN_RETRY || (holder.purpose == LockPurpose::Engine && linux::is_alive(holder.pid)) {
            let stopped = holder.is_stopped();
            let EngineHolder { pid, host, .. } = holder;
            return Err(EngineLockError::Held { run, pid, host, stopped });
        }
        std::thread::sleep(RETRY_INTERVAL);
    }
}

/// Takes the lock and the next epoch under the writer lock, so that a process that is refused reads a complete holder
/// line.
fn try_acquire(
    database: &Database,
    run: &RunId,
    purpose: LockPurpose,
) -> Result<Result<EngineLock, EngineHolder>, EngineLockError> {
    let path = database.location().engine_lock(run);
    database.write(|tx| match lock_and_write_holder(&path, purpose) {
        Ok(Ok(file)) => {
            let guard = LockGuard::File(EngineLockFile(file));
            Ok(Ok(Ok(EngineLock::new(run.clone(), write_next_epoch(tx, run)?, guard))))
        }
        Ok(Err(holder)) => Ok(Ok(Err(holder))),
        Err(source) => Ok(Err(Unavailable::io("lock", path.clone(), source).into())),
    })?
}

/// Returns the holder of the run's engine lock. Holds the writer lock meanwhile: to test a lock means to take it, and an
/// engine that starts at the same time must not fail because of the test.
pub(crate) fn holder(database: &Database, run: &RunId) -> Result<Option<EngineHolder>, Unavailable> {
    let path = database.location().engine_lock(run);
    let tested =
        match database.write(|_| Ok(Ok::<_, Unavailable>(test_lock(&path)))).map_err(Unavailable::from) {
            Ok(tested) => tested?,
            // Without write permission we can neither take the writer lock nor run an engine that a test could disturb.
            Err(Unavailable::NotWritable { .. }) => test_lock(&path),
            Err(error) => return Err(error),
        };
    tested.map_err(|source| Unavailable::Io { action: "look at", path, source })
}

fn test_lock(path: &Path) -> io::Result<Option<EngineHolder>> {
    match File::open(path) {
        Ok(mut file) => match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => read_holder(&mut file).map(Some),
            Err(TryLockError::Error(error)) => Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the lock file exists, or that cannot be told. Without it, the run never had an engine here.
pub(crate) fn lock_file_may_exist(database: &Database, run: &RunId) -> bool {
    database.location().engine_lock(run).try_exists().unwrap_or(true)
}

/// Returns the engine of a run if `/proc` shows that the process named in the lock file holds the lock.
///
/// Takes no lock, so it waits for no writer and disturbs no engine. `None` proves nothing: an engine in another
/// container is not visible.
pub(crate) fn visible_holder(database: &Database, run: &RunId) -> Option<EngineHolder> {
    let path = database.location().engine_lock(run);
    let holder = read_holder(&mut File::open(&path).ok()?).ok()?;
    linux::holds_lock(holder.pid, &path).then_some(holder)
}

/// Ends the holder line of a one-shot: a process that holds the lock for a single request.
const ONE_SHOT: &str = " (one-shot)";

/// Opens the lock file, and creates it if it does not exist. Creates its directory, too, which is missing next to a
/// restored database; but never the store's own directory.
fn open(path: &Path) -> io::Result<File> {
    let open =
        || OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    match (open(), path.parent()) {
        (Err(error), Some(directory)) if error.kind() == io::ErrorKind::NotFound => {
            match DirBuilder::new().mode(0o700).create(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                Ok(()) | Err(_) => open(),
            }
        }
        (opened, _) => opened,
    }
}

/// Locks the file and writes the holder line into it: pid, host and purpose of this process. Returns the holder if it
/// is locked.
fn lock_and_write_holder(path: &Path, purpose: LockPurpose) -> io::Result<Result<File, EngineHolder>> {
    let mut file = open(path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            let suffix = match purpose {
                LockPurpose::Engine => "",
                LockPurpose::OneShot => ONE_SHOT,
            };
            writeln!(file, "{} {}{suffix}", std::process::id(), linux::host_name())?;
            Ok(Ok(file))
        }
        Err(TryLockError::WouldBlock) => read_holder(&mut file).map(Err),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Reads the holder line of the lock file.
pub(crate) fn read_holder(file: &mut File) -> io::Result<EngineHolder> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let text = text.trim_end();
    let (text, purpose) = match text.strip_suffix(ONE_SHOT) {
        Some(text) => (text, LockPurpose::OneShot),
        None => (text, LockPurpose::Engine),
    };
    text.split_once(' ')
        .and_then(|(pid, host)| Some(EngineHolder { pid: pid.parse().ok()?, host: host.to_owned(), purpose }))
        .ok_or_else(|| io::Error::other("it is locked, but does not name its holder"))
}
