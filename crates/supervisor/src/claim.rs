//! The claim: one file per attempt, created exactly once. Who creates it decides the attempt's fate: a shim that will
//! run the agent, or an engine that voids it so that no shim ever may. Hence two shims never run one attempt, and an
//! attempt is never counted as lost while a slow shim may still begin it.

use std::fs::{self, File};
use std::io;

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use crate::dir::AttemptDir;
use crate::os::{Identity, Process};
use crate::whole;

/// The content of `claim`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
enum Claim {
    Shim(Identity),
    Void(Identity),
}

/// What came of an engine's attempt to void the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Voided {
    /// The attempt is void: nothing was started and nothing can be.
    Now,
    /// A shim was first; the attempt runs, or ran.
    ClaimedBy(Identity),
    /// It was void before.
    Already,
}

/// Why a claim could be neither made nor read.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("could not make the claim `{path}`")]
    Make { path: String, source: io::Error },
    #[error("could not read the claim `{path}`")]
    Read { path: String, source: io::Error },
    #[error("the claim `{path}` cannot be understood")]
    Malformed { path: String, source: serde_json::Error },
}

/// Claims the attempt for this process, a shim. `None`: somebody else was first. Keep the file open as long as the
/// attempt runs; its lock is the sign of life for those who cannot see our process.
pub(crate) fn take(dir: &AttemptDir) -> Result<Option<File>, ClaimError> {
    make(dir, Claim::Shim)
}

/// Voids the attempt, unless a shim has claimed it.
pub fn void(dir: &AttemptDir) -> Result<Voided, ClaimError> {
    if make(dir, Claim::Void)?.is_some() {
        return Ok(Voided::Now);
    }
    match read(dir)? {
        Some(Claim::Shim(identity)) => Ok(Voided::ClaimedBy(identity)),
        Some(Claim::Void(_)) => Ok(Voided::Already),
        // It was there a run_at ago: somebody deletes our files. Nothing is certain any more.
        None => Err(ClaimError::Read { path: name(dir), source: io::ErrorKind::NotFound.into() }),
    }
}

/// What a claim means right now.
#[derive(Debug)]
pub(crate) enum Standing {
    /// There is no claim.
    Nobody,
    Void,
    Alive(Process),
    Dead,
    /// The shim lives, but in another container: we can neither see nor stop it.
    Remote(Identity),
}

/// Looks who holds the claim, and whether they live.
///
/// `reaped` is the shim that we started ourselves and have seen to its end. A claim in its name is its own or that of a
/// process which had the number before it; neither lives.
pub(crate) fn standing(dir: &AttemptDir, reaped: Option<Pid>) -> Result<Standing, ClaimError> {
    let claim = match read(dir) {
        // A claim is whole from its first run_at, so only a power cut tears one, and that killed its holder too.
        Err(ClaimError::Malformed { .. }) if !locked(dir)? => return Ok(Standing::Dead),
        claim => claim?,
    };
    match claim {
        None => Ok(Standing::Nobody),
        Some(Claim::Void(_)) => Ok(Standing::Void),
        Some(Claim::Shim(identity)) => life(dir, identity, reaped),
    }
}

/// The shim that made the claim, alive or not.
pub(crate) fn holder(dir: &AttemptDir) -> Result<Option<Identity>, ClaimError> {
    Ok(match read(dir)? {
        Some(Claim::Shim(identity)) => Some(identity),
        Some(Claim::Void(_)) | None => None,
    })
}

fn life(dir: &AttemptDir, identity: Identity, reaped: Option<Pid>) -> Result<Standing, ClaimError> {
    let failed = |source| ClaimError::Read { path: name(dir), source };
    if !identity.is_of_this_boot().map_err(failed)? {
        return Ok(Standing::Dead);
    }
    if !identity.is_in_our_namespace().map_err(failed)? {
        return Ok(if locked(dir)? { Standing::Remote(identity) } else { Standing::Dead });
    }
    if reaped.is_some_and(|pid| pid.as_raw_pid() == identity.pid) {
        return Ok(Standing::Dead);
    }
    Ok(Process::of(&identity).map_err(failed)?.map_or(Standing::Dead, Standing::Alive))
}

fn make(dir: &AttemptDir, by: fn(Identity) -> Claim) -> Result<Option<File>, ClaimError> {
    let made = || {
        dir.create()?;
        let claim = serde_json::to_vec(&by(Identity::of_self()?))?;
        whole::create_locked(&dir.claim(), &claim)
    };
    made().map_err(|source| ClaimError::Make { path: name(dir), source })
}

fn read(dir: &AttemptDir) -> Result<Option<Claim>, ClaimError> {
    match fs::read(dir.claim()) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| ClaimError::Malformed { path: name(dir), source }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ClaimError::Read { path: name(dir), source }),
    }
}

fn locked(dir: &AttemptDir) -> Result<bool, ClaimError> {
    whole::is_locked(&dir.claim()).map_err(|source| ClaimError::Read { path: name(dir), source })
}

fn name(dir: &AttemptDir) -> String {
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

    fn claimed_by(change: impl FnOnce(&mut Identity)) -> (tempfile::TempDir, AttemptDir) {
        let (root, dir) = dir();
        dir.create().unwrap();
        let mut identity = Identity::of_self().unwrap();
        change(&mut identity);
        fs::write(dir.claim(), serde_json::to_vec(&Claim::Shim(identity)).unwrap()).unwrap();
        (root, dir)
    }

    #[test]
    fn a_void_claim_is_lost_to_every_shim() {
        let (_root, dir) = dir();
        assert!(matches!(standing(&dir, None), Ok(Standing::Nobody)) || !dir.path().exists());
        assert_eq!(void(&dir).unwrap(), Voided::Now);
        assert_eq!(void(&dir).unwrap(), Voided::Already);
        assert!(take(&dir).unwrap().is_none());
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Void));
    }

    #[test]
    fn a_claimed_attempt_cannot_be_voided() {
        let (_root, dir) = dir();
        let held = take(&dir).unwrap();
        assert!(held.is_some() && take(&dir).unwrap().is_none());
        assert_eq!(void(&dir).unwrap(), Voided::ClaimedBy(Identity::of_self().unwrap()));
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Alive(_)));
    }

    #[test]
    fn a_holder_of_another_boot_is_dead_whatever_lives_under_its_number() {
        let (_root, dir) = claimed_by(|identity| identity.boot_id = "yesterday".to_owned());
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Dead));
    }

    #[test]
    fn a_number_that_was_given_to_another_process_is_not_the_holder() {
        let (_root, dir) = claimed_by(|identity| identity.start_time += 1);
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Dead));
    }

    #[test]
    fn a_holder_that_we_have_reaped_is_dead() {
        let (_root, dir) = claimed_by(|_| {});
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Alive(_)));
        assert!(matches!(standing(&dir, Some(rustix::process::getpid())).unwrap(), Standing::Dead));
    }

    #[test]
    fn in_another_container_the_lock_tells_whether_the_holder_lives() {
        let (_root, dir) = claimed_by(|identity| identity.pid_namespace = "pid:[1]".to_owned());
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Dead));
        let held = File::open(dir.claim()).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Remote(_)));
    }

    #[test]
    fn a_torn_claim_belongs_to_a_dead_holder() {
        let (_root, dir) = dir();
        dir.create().unwrap();
        fs::write(dir.claim(), "").unwrap();
        assert!(matches!(standing(&dir, None).unwrap(), Standing::Dead));
    }
}
