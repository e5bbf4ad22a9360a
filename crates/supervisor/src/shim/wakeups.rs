//! What wakes the shim: signals, turned into something one can wait for together with the agent.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::agent::Agent;
use crate::os;

/// One bell per signal; each rings until it is answered, INT for ever.
#[derive(Debug)]
pub(super) struct Wakeups {
    term: UnixStream,
    int: UnixStream,
    child: UnixStream,
}

/// Which bells rang.
#[derive(Debug)]
pub(super) struct Woken {
    pub(super) agent: bool,
    pub(super) term: bool,
    pub(super) child: bool,
}

impl Wakeups {
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self { term: wakeup(SIGTERM)?, int: wakeup(SIGINT)?, child: wakeup(SIGCHLD)? })
    }

    /// Waits for the agent's end, a signal or the deadline.
    pub(super) fn wait(&self, agent: &Agent, deadline: Option<Instant>) -> io::Result<Woken> {
        let fds = [agent.process.as_fd(), self.int.as_fd(), self.term.as_fd(), self.child.as_fd()];
        let rang = os::poll_until(&fds, deadline)?;
        Ok(Woken {
            agent: rang[0],
            term: rang[2] && answer(&self.term)?,
            child: rang[3] && answer(&self.child)?,
        })
    }

    /// Whether the end was ordered at once. That order stands: it is never answered.
    pub(super) fn hurry(&self) -> io::Result<bool> {
        Ok(os::poll_until(&[self.int.as_fd()], Some(Instant::now()))?[0])
    }

    /// Readable when the end was ordered at once.
    pub(super) fn hurry_fd(&self) -> BorrowedFd<'_> {
        self.int.as_fd()
    }
}

fn wakeup(signal: i32) -> io::Result<UnixStream> {
    let (heard, rung) = UnixStream::pair()?;
    heard.set_nonblocking(true)?;
    pipe::register(signal, rung)?;
    Ok(heard)
}

fn answer(mut wakeup: &UnixStream) -> io::Result<bool> {
    match wakeup.read(&mut [0; 64]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
