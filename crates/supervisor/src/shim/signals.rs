//! The signals of the shim as descriptors, so that it can wait for them together with the agent.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use linux::ReportWatch;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::agent::Agent;

/// One socket per signal, which becomes readable when the signal arrives. INT is never read, so it stays readable.
#[derive(Debug)]
pub(super) struct Signals {
    term: UnixStream,
    int: UnixStream,
    child: UnixStream,
}

/// The events that ended a wait. SIGINT ends one, too: [`Signals::int_received`] tells.
#[derive(Debug)]
pub(super) struct Woken {
    pub(super) agent: bool,
    pub(super) term: bool,
    pub(super) child: bool,
    pub(super) report_watch: bool,
}

impl Signals {
    /// Installs the signal handlers.
    pub(super) fn install() -> io::Result<Self> {
        Ok(Self { term: socket(SIGTERM)?, int: socket(SIGINT)?, child: socket(SIGCHLD)? })
    }

    /// Waits for the agent's end, a signal, a file in the attempt's directory (`report_watch`) or the deadline.
    pub(super) fn wait(
        &self,
        agent: &Agent,
        report_watch: Option<&ReportWatch>,
        deadline: Option<Instant>,
    ) -> io::Result<Woken> {
        let fds = [agent.process.as_fd(), self.int.as_fd(), self.term.as_fd(), self.child.as_fd()];
        let fds: Vec<_> = fds.into_iter().chain(report_watch.map(AsFd::as_fd)).collect();
        let ready = linux::poll_until(&fds, deadline)?;
        Ok(Woken {
            agent: ready[0],
            term: ready[2] && drain(&self.term)?,
            child: ready[3] && drain(&self.child)?,
            report_watch: ready.get(4).is_some_and(|ready| *ready),
        })
    }

    /// Whether SIGINT has arrived. It asks for a stop without a grace period.
    pub(super) fn int_received(&self) -> io::Result<bool> {
        Ok(linux::poll_until(&[self.int.as_fd()], Some(Instant::now()))?[0])
    }

    /// Returns a descriptor that is readable once SIGINT has arrived.
    pub(super) fn int_fd(&self) -> BorrowedFd<'_> {
        self.int.as_fd()
    }
}

fn socket(signal: i32) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    pipe::register(signal, writer)?;
    Ok(reader)
}

fn drain(mut socket: &UnixStream) -> io::Result<bool> {
    match socket.read(&mut [0; 64]) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}
