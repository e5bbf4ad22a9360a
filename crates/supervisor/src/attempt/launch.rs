//! Starts an attempt: writes `launch.json` for the shim, then spawns the shim. The attempt's id is committed before, so
//! doing it twice is harmless: of two shims one loses the claim.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use protocol::{AttemptId, RunId};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};

use super::dir::AttemptDir;
use crate::atomic_file;
use crate::env_string::EnvString;
use crate::processes::Mark;

/// What a shim needs to run an attempt: the content of `launch.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    pub run: RunId,
    pub attempt: AttemptId,
    /// The local directory, for the [mark](Mark).
    pub store: PathBuf,
    /// Program and arguments. A program without a slash is searched in the `PATH` of `env`; a relative path is relative
    /// to `cwd`.
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    /// The agent's complete environment, except for the [mark](Mark).
    pub env: Vec<(EnvString, EnvString)>,
    /// How long the agent may run.
    pub timeout: Option<Duration>,
    /// How long it may write nothing to its logs. Detected after at most twice that time.
    pub silence: Option<Duration>,
    /// The time between TERM and KILL.
    pub grace: Duration,
    /// How many files it may have open. Set because the engine has raised its own limit, which children inherit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_open_files_limit: Option<u64>,
}

impl Launch {
    pub fn mark(&self) -> Mark {
        Mark { store: self.store.clone(), run: self.run.clone(), attempt: self.attempt.clone() }
    }

    pub(crate) fn read(dir: &AttemptDir) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(dir.launch())?)?)
    }

    fn write(&self, dir: &AttemptDir) -> io::Result<()> {
        atomic_file::replace_file(&dir.launch(), &serde_json::to_vec(self)?)
    }
}

/// The command of the shim. The attempt's directory is appended to its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShimProgram {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

impl SpawnError {
    /// Whether the machine lacks a resource, so that a retry may succeed.
    pub fn is_resource_shortage(&self) -> bool {
        let (Self::Write { source, .. } | Self::Spawn { source, .. }) = self;
        is_resource_shortage(source)
    }
}

/// Whether the machine lacks a resource: files, processes, memory or disk space.
pub fn is_resource_shortage(error: &io::Error) -> bool {
    let short = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM, Errno::NOSPC, Errno::DQUOT];
    short.iter().any(|errno| is_errno(error, *errno))
}

/// Whether the error, or one of its causes, is a full disk.
pub fn is_full_disk(error: &(dyn Error + 'static)) -> bool {
    let mut chain = std::iter::successors(Some(error), |&cause| cause.source());
    let full = |error: &io::Error| is_errno(error, Errno::NOSPC) || is_errno(error, Errno::DQUOT);
    chain.any(|cause| cause.downcast_ref::<io::Error>().is_some_and(full))
}

/// Compares an error with an errno. An error that was wrapped to add a path has only its kind left, so kinds are compared.
/// That takes errnos without a kind of their own for each other, which is accepted: an agent can cause none of them.
fn is_errno(error: &io::Error, errno: Errno) -> bool {
    match error.raw_os_error() {
        Some(code) => code == errno.raw_os_error(),
        None => error.kind() == io::Error::from(errno).kind(),
    }
}

/// Why a shim could not be spawned.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("could not write `{path}`")]
    Write { path: String, source: io::Error },
    #[error("could not start the shim of `{attempt}` from `{program}`")]
    Spawn { attempt: AttemptId, program: String, source: io::Error },
}

/// The variables of the engine's environment that the shim gets, to be loaded and to report errors. The agent does not
/// get them.
const SHIM_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "RUST_BACKTRACE"];

/// Writes `launch.json` and spawns the shim. The shim's standard input is `report_watch`, an inotify descriptor that watches
/// the report file, so that no version of it is missed while the shim starts.
pub(crate) fn spawn(
    shim: &ShimProgram,
    dir: &AttemptDir,
    launch: &Launch,
    report_watch: Option<OwnedFd>,
) -> Result<Child, SpawnError> {
    let failed = |path: PathBuf| move |source| SpawnError::Write { path: path.display().to_string(), source };
    dir.create().map_err(failed(dir.path().to_owned()))?;
    launch.write(dir).map_err(failed(dir.launch()))?;
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(dir.shim_log());
    let log = log.and_then(|log| Ok((log.try_clone()?, log)));
    let (out, err) = log.map_err(failed(dir.shim_log()))?;
    Command::new(&shim.program)
        .args(&shim.args)
        .arg(dir.path())
        .env_clear()
        .envs(SHIM_VARIABLES.iter().filter_map(|name| Some((name, env::var_os(name)?))))
        .current_dir("/")
        .stdin(report_watch.map_or_else(Stdio::null, Stdio::from))
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|source| SpawnError::Spawn {
            attempt: launch.attempt.clone(),
            program: shim.program.display().to_string(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_recognised_in_a_wrapped_error() {
        let full = io::Error::from(Errno::NOSPC);
        assert!(is_resource_shortage(&full) && is_full_disk(&full));
        let wrapped = io::Error::new(full.kind(), "no space left at path `prompt.md`");
        assert!(is_resource_shortage(&wrapped) && is_full_disk(&wrapped));
        let missing = io::Error::new(io::ErrorKind::NotFound, "no directory for `prompt.md`");
        assert!(!is_resource_shortage(&missing) && !is_full_disk(&missing));
        assert!(!is_full_disk(&io::Error::from(Errno::MFILE)) && is_resource_shortage(&Errno::MFILE.into()));
    }
}
