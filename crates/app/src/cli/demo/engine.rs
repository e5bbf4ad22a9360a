//! An engine as a child process, and its output.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::Child;

use super::sandbox::Sandbox;
use crate::failure::{Exit, Failure};

/// A running `callboard run` or `callboard resume`. It is killed on drop.
#[derive(Debug)]
pub(super) struct Engine {
    child: Child,
    pub(super) pid: u32,
    output: Lines<BufReader<pipe::Receiver>>,
}

impl Engine {
    pub(super) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Result<Self, Failure> {
        let start = || {
            // One pipe for both streams keeps the order of their lines.
            let (read, write) = std::io::pipe()?;
            let mut command = sandbox.callboard(arguments);
            let child = command.stdout(write.try_clone()?).stderr(write).spawn()?;
            let output = pipe::Receiver::from_owned_fd(OwnedFd::from(read))?;
            Ok((child, BufReader::new(output).lines()))
        };
        let (child, output) = start().map_err(cannot_start)?;
        let pid = child.id().ok_or_else(|| cannot_start(std::io::Error::other("it has no pid")))?;
        Ok(Self { child, pid, output })
    }

    /// Returns the next line of output, or `None` at its end.
    pub(super) async fn line(&mut self) -> Result<Option<String>, Failure> {
        self.output.next_line().await.map_err(|error| {
            Failure::new(Exit::Bug, "cannot read the output of the engine").because(Some(&error))
        })
    }

    /// Sends SIGKILL.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        self.child
            .start_kill()
            .map_err(|error| Failure::new(Exit::Bug, "cannot kill the engine").because(Some(&error)))
    }

    /// Waits for the process to end.
    pub(super) async fn wait(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .await
            .map_err(|error| Failure::new(Exit::Bug, "cannot wait for the engine").because(Some(&error)))
    }
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::new(Exit::Bug, "cannot start the engine").because(Some(&error))
}
