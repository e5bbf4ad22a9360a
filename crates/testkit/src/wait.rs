//! Waiting for files: blocks on inotify and checks again after every event.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// How long a test waits for an event. It only keeps a broken test from hanging.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Waits until `find` returns something. Calls it again whenever `directory` changes.
#[track_caller]
pub fn wait_until<T>(directory: &Path, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    // The watch comes first, so that a change during the first call is seen.
    let watch = Watch::new(directory).unwrap_or_else(|error| panic!("cannot watch {directory:?}: {error}"));
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = find() {
            return found;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "no {what} within the deadline, watching {}", directory.display());
        watch.wait(left);
    }
}

/// An inotify watch of one directory.
#[derive(Debug)]
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn new(directory: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MODIFY
            | WatchFlags::MOVED_TO
            | WatchFlags::CREATE
            | WatchFlags::DELETE;
        inotify::add_watch(&fd, directory, flags)?;
        Ok(Self(fd))
    }

    /// Waits for the next change, at most this long.
    pub(crate) fn wait(&self, at_most: Duration) {
        readable(&self.0, at_most);
        let mut buffer = [0; 4096];
        // The kind of change does not matter: the caller looks again.
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|length| length > 0) {}
    }
}

/// Blocks until the descriptor is readable. Returns whether it is.
pub(crate) fn readable(fd: impl AsFd, at_most: Duration) -> bool {
    let deadline = Instant::now() + at_most;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).expect("a deadline is a length of time");
        let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(error) => panic!("cannot poll: {error}"),
        }
    }
}
