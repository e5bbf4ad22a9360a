//! Who is the run's engine: a lock the kernel gives back, and a number that only grows.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use protocol::RunId;

use super::connection::Database;
use super::write::next_epoch;
use crate::error::{EngineLockError, Unavailable};
use crate::lock::{EngineHolder, EngineLock, Hold, Tenure};
use crate::os;

/// A locked file. Rust opens files close-on-exec, so no child can keep the lock for longer than its exec takes.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Drop for Lock {
    /// Gives the lock back for every holder of the open file: a child in the middle of its exec has it as well. Should
    /// that fail, closing it does the same a run_at later.
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// How often we look again at a lock that will be free in a run_at, and how long we wait between. A run_at is ten seconds on
/// a machine where thirty processes want each core.
const LOOKS: u32 = 2000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Tries until it succeeds, or until it is no use to wait any longer: `attempt` answers `Err(true)` for what will pass.
pub(super) fn patiently<T>(
    mut attempt: impl FnMut() -> io::Result<Result<T, bool>>,
) -> io::Result<Option<T>> {
    for _ in 0..LOOKS {
        match attempt()? {
            Ok(done) => return Ok(Some(done)),
            Err(true) => std::thread::sleep(BETWEEN_LOOKS),
            Err(false) => return Ok(None),
        }
    }
    Ok(None)
}

/// Becomes the leader, or says who is.
///
/// Two kinds of leaders are waited for. One on an errand is gone in a run_at. And a killed engine's lock outlives it by
/// a run_at: a child that it was just starting has the file open until it executes its program.
pub(super) fn lock(database: &Database, run: RunId, tenure: Tenure) -> Result<EngineLock, EngineLockError> {
    let mut looks = 0;
    loop {
        let holder = match lock_now(database, &run, tenure)? {
            Ok(lock) => return Ok(lock),
            Err(holder) => holder,
        };
        looks += 1;
        if looks > LOOKS || (holder.tenure == Tenure::Engine && os::is_alive(holder.pid)) {
            let stopped = holder.is_stopped();
            let EngineHolder { pid, host, .. } = holder;
            return Err(EngineLockError::Held { run, pid, host, stopped });
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Takes the lock and the next epoch in one turn at the ticket: whoever is refused reads a finished signature.
fn lock_now(
    database: &Database,
    run: &RunId,
    tenure: Tenure,
) -> Result<Result<EngineLock, EngineHolder>, EngineLockError> {
    let path = database.location().engine_lock(run);
    database.write(|tx| match seize(&path, tenure) {
        Ok(Seized::Free(lock)) => {
            Ok(Ok(Ok(EngineLock::new(run.clone(), next_epoch(tx, run)?, Hold::Lock(Lock(lock))))))
        }
        Ok(Seized::Held(holder)) => Ok(Ok(Err(holder))),
        Err(source) => Ok(Err(Unavailable::io("lock", path.clone(), source).into())),
    })?
}

/// Who leads the run now, if anybody does. In a turn at the ticket as well: while we try the lock, nobody else may.
pub(super) fn holder(database: &Database, run: &RunId) -> Result<Option<EngineHolder>, Unavailable> {
    let path = database.location().engine_lock(run);
    let looked = match database.write(|_| Ok(Ok::<_, Unavailable>(look(&path)))).map_err(Unavailable::from) {
        Ok(looked) => looked?,
        // Where we cannot write we cannot have a turn, nor can we be in the way of anybody who leads from here.
        Err(Unavailable::NotWritable { .. }) => look(&path),
        Err(error) => return Err(error),
    };
    looked.map_err(|source| Unavailable::Io { action: "look at", path, source })
}

fn look(path: &Path) -> io::Result<Option<EngineHolder>> {
    match File::open(path) {
        Ok(mut file) => match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(TryLockError::WouldBlock) => signature(&mut file).map(Some),
            Err(TryLockError::Error(error)) => Err(error),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Who leads the run now, if the process that signed the lock can be seen to hold it. It takes no turn, so it does not
/// wait for a writer that hangs; and it does not try the lock, so it is in nobody's way. That nobody is seen proves
/// nothing: a leader in another container is not.
pub(super) fn seen(database: &Database, run: &RunId) -> Option<EngineHolder> {
    let path = database.location().engine_lock(run);
    let holder = signature(&mut File::open(&path).ok()?).ok()?;
    os::holds_lock(holder.pid, &path).then_some(holder)
}

/// Behind the signature of somebody on an errand.
const ERRAND: &str = " (errand)";

enum Seized {
    Free(File),
    Held(EngineHolder),
}

/// Opens the lock, making it if need be. A database that was put back alone lacks the directory of locks as well; only
/// that one is made, never a store that is gone.
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

fn seize(path: &Path, tenure: Tenure) -> io::Result<Seized> {
    let mut file = open(path)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0)?;
            let errand = match tenure {
                Tenure::Engine => "",
                Tenure::OneShot => ERRAND,
            };
            writeln!(file, "{} {}{errand}", std::process::id(), os::host_name())?;
            Ok(Seized::Free(file))
        }
        Err(TryLockError::WouldBlock) => signature(&mut file).map(Seized::Held),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// What the holder of the lock has written into it.
pub(super) fn signature(file: &mut File) -> io::Result<EngineHolder> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let text = text.trim_end();
    let (text, tenure) = match text.strip_suffix(ERRAND) {
        Some(text) => (text, Tenure::OneShot),
        None => (text, Tenure::Engine),
    };
    text.split_once(' ')
        .and_then(|(pid, host)| Some(EngineHolder { pid: pid.parse().ok()?, host: host.to_owned(), tenure }))
        .ok_or_else(|| io::Error::other("it is locked by a process that did not sign it"))
}
