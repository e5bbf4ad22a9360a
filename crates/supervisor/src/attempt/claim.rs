//! The claim: one file per attempt, created exactly once, either by a shim that will run the agent or by an engine that
//! voids the attempt. So two shims never run one attempt, and an attempt never counts as lost while a slow shim may
//! still start it.

use std::fs::{self, File};
use std::io;

use linux::{Process, ProcessIdentity};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::dir::AttemptDir;
use crate::atomic_file;

/// The content of `claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
enum Claim {
    Shim(ProcessIdentity),
    Void(ProcessIdentity),
}

/// The result of [`void`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VoidOutcome {
    /// The attempt is void now: nothing was started, and nothing can be.
    Now,
    /// A shim has claimed the attempt, which is running or has ended.
    ClaimedBy(ProcessIdentity),
    /// It was void already.
    Already,
}

/// Why a claim could not be created or read.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("could not create the claim `{path}`")]
    Create { path: String, source: io::Error },
    #[error("could not read the claim `{path}`")]
    Read { path: String, source: io::Error },
    #[error("could not parse the claim `{path}`")]
    Malformed { path: String, source: serde_json::Error },
}

/// Claims the attempt for this process, a shim. Returns `None` if another process has claimed or voided it. The caller
/// keeps the file open while the attempt runs: its lock tells other containers that the shim is alive.
pub(crate) fn claim(dir: &AttemptDir) -> Result<Option<File>, ClaimError> {
    create(dir, Claim::Shim)
}

/// Voids the attempt, unless a shim has claimed it.
pub fn void(dir: &AttemptDir) -> Result<VoidOutcome, ClaimError> {
    if create(dir, Claim::Void)?.is_some() {
        return Ok(VoidOutcome::Now);
    }
    match read(dir)? {
        Some(Claim::Shim(identity)) => Ok(VoidOutcome::ClaimedBy(identity)),
        Some(Claim::Void(_)) => Ok(VoidOutcome::Already),
        // The claim existed when we tried to create it, so another process is deleting our files.
        None => Err(ClaimError::Read { path: path(dir), source: io::ErrorKind::NotFound.into() }),
    }
}

/// The state of a claim.
#[derive(Debug)]
pub(crate) enum ClaimStatus {
    /// There is no claim file.
    Unclaimed,
    Void,
    Alive(Process),
    Dead,
    /// The shim is alive in another container, so it can be neither seen nor stopped.
    InOtherContainer(ProcessIdentity),
}

/// Determines the state of a claim.
///
/// `reaped` is the pid of the shim that this engine spawned and reaped. A claim with this pid was made by that shim or
/// by an earlier process with the same pid. Both are dead.
pub(crate) fn status(dir: &AttemptDir, reaped: Option<Pid>) -> Result<ClaimStatus, ClaimError> {
    let claim = match read(dir) {
        // A claim is created with its content, so only a power failure can truncate it, and that ended its shim, too.
        Err(ClaimError::Malformed { .. }) if !is_locked(dir)? => return Ok(ClaimStatus::Dead),
        claim => claim?,
    };
    match claim {
        None => Ok(ClaimStatus::Unclaimed),
        Some(Claim::Void(_)) => Ok(ClaimStatus::Void),
        Some(Claim::Shim(identity)) => shim_status(dir, identity, reaped),
    }
}

/// Returns the shim that made the claim, alive or dead.
pub(crate) fn shim_of(dir: &AttemptDir) -> Result<Option<ProcessIdentity>, ClaimError> {
    Ok(match read(dir)? {
        Some(Claim::Shim(identity)) => Some(identity),
        Some(Claim::Void(_)) | None => None,
    })
}

fn shim_status(
    dir: &AttemptDir,
    identity: ProcessIdentity,
    reaped: Option<Pid>,
) -> Result<ClaimStatus, ClaimError> {
    let failed = |source| ClaimError::Read { path: path(dir), source };
    if !identity.is_of_this_boot().map_err(failed)? {
        return Ok(ClaimStatus::Dead);
    }
    if !identity.is_in_our_namespace().map_err(failed)? {
        return Ok(if is_locked(dir)? { ClaimStatus::InOtherContainer(identity) } else { ClaimStatus::Dead });
    }
    if reaped.is_some_and(|pid| pid.as_raw_pid().cast_unsigned() == identity.pid) {
        return Ok(ClaimStatus::Dead);
    }
    Ok(Process::of(&identity).map_err(failed)?.map_or(ClaimStatus::Dead, ClaimStatus::Alive))
}

fn create(dir: &AttemptDir, by: fn(ProcessIdentity) -> Claim) -> Result<Option<File>, ClaimError> {
    let create = || {
        dir.create()?;
        let claim = serde_json::to_vec(&by(ProcessIdentity::of_self()?))?;
        atomic_file::create_locked(&dir.claim(), &claim)
    };
    create().map_err(|source| ClaimError::Create { path: path(dir), source })
}

fn read(dir: &AttemptDir) -> Result<Option<Claim>, ClaimError> {
    match fs::read(dir.claim()) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| ClaimError::Malformed { path: path(dir), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ClaimError::Read { path: path(dir), source }),
    }
}

fn is_locked(dir: &AttemptDir) -> Result<bool, ClaimError> {
    atomic_file::is_locked(&dir.claim()).map_err(|source| ClaimError::Read { path: path(dir), source })
}

fn path(dir: &AttemptDir) -> String {
    dir.claim().display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir() -> (tempfile::TempDir, AttemptDir) {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(&root.path().join("attempt"));
        (root, dir)
    }

    fn claimed_by(change: impl FnOnce(&mut ProcessIdentity)) -> (tempfile::TempDir, AttemptDir) {
        let (root, dir) = dir();
        dir.create().unwrap();
        let mut identity = ProcessIdentity::of_self().unwrap();
        change(&mut identity);
        fs::write(dir.claim(), serde_json::to_vec(&Claim::Shim(identity)).unwrap()).unwrap();
        (root, dir)
    }

    #[test]
    fn no_shim_can_claim_a_void_attempt() {
        let (_root, dir) = dir();
        assert!(matches!(status(&dir, None), Ok(ClaimStatus::Unclaimed)));
        assert_eq!(void(&dir).unwrap(), VoidOutcome::Now);
        assert_eq!(void(&dir).unwrap(), VoidOutcome::Already);
        assert!(claim(&dir).unwrap().is_none());
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Void));
    }

    #[test]
    fn a_claimed_attempt_cannot_be_voided() {
        let (_root, dir) = dir();
        let locked = claim(&dir).unwrap();
        assert!(locked.is_some() && claim(&dir).unwrap().is_none());
        assert_eq!(void(&dir).unwrap(), VoidOutcome::ClaimedBy(ProcessIdentity::of_self().unwrap()));
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Alive(_)));
    }

    #[test]
    fn a_shim_of_another_boot_is_dead_even_if_its_pid_is_in_use() {
        let (_root, dir) = claimed_by(|identity| identity.boot_id = "yesterday".to_owned());
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Dead));
    }

    #[test]
    fn a_process_that_reuses_the_pid_is_not_the_shim() {
        let (_root, dir) = claimed_by(|identity| identity.start_time += 1);
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Dead));
    }

    #[test]
    fn a_reaped_shim_is_dead() {
        let (_root, dir) = claimed_by(|_| {});
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Alive(_)));
        assert!(matches!(status(&dir, Some(rustix::process::getpid())).unwrap(), ClaimStatus::Dead));
    }

    #[test]
    fn the_lock_tells_whether_a_shim_in_another_container_is_alive() {
        let (_root, dir) = claimed_by(|identity| identity.pid_namespace = "pid:[1]".to_owned());
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Dead));
        let locked = File::open(dir.claim()).unwrap();
        rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::InOtherContainer(_)));
    }

    #[test]
    fn a_truncated_claim_belongs_to_a_dead_shim() {
        let (_root, dir) = dir();
        dir.create().unwrap();
        fs::write(dir.claim(), "").unwrap();
        assert!(matches!(status(&dir, None).unwrap(), ClaimStatus::Dead));
    }
}
