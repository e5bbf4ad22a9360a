//! An engine as a child process, and what it says.

use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::Child;

use super::sandbox::Sandbox;
use crate::failure::{Exit, Failure};

/// `callboard run` or `callboard resume` at work. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Engine {
    child: Child,
    pub(super) pid: u32,
    said: Lines<BufReader<pipe::Receiver>>,
}

impl Engine {
    pub(super) fn start(sandbox: &Sandbox, arguments: &[&str]) -> Result<Self, Failure> {
        let start = || {
            // One pipe for both streams: their order is part of the story.
            let (read, write) = std::io::pipe()?;
            let mut command = sandbox.callboard(arguments);
            let child = command.stdout(write.try_clone()?).stderr(write).spawn()?;
            let said = pipe::Receiver::from_owned_fd(OwnedFd::from(read))?;
            Ok((child, BufReader::new(said).lines()))
        };
        let (child, said) = start().map_err(cannot_start)?;
        let pid = child.id().ok_or_else(|| cannot_start(std::io::Error::other("it has no pid")))?;
        Ok(Self { child, pid, said })
    }

    /// The next line, `None` when it has said everything.
    pub(super) async fn line(&mut self) -> Result<Option<String>, Failure> {
        self.said.next_line().await.map_err(|error| {
            Failure::new(Exit::Bug, "cannot read what the engine says").because(Some(&error))
        })
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) -> Result<(), Failure> {
        self.child
            .start_kill()
            .map_err(|error| Failure::new(Exit::Bug, "cannot kill the engine").because(Some(&error)))
    }

    /// How it ended; waits until it has.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, Failure> {
        self.child
            .wait()
            .await
            .map_err(|error| Failure::new(Exit::Bug, "cannot wait for the engine").because(Some(&error)))
    }
}

fn cannot_start(error: std::io::Error) -> Failure {
    Failure::new(Exit::Bug, "cannot start the engine").because(Some(&error))
}
