//! The watch on the report file of one attempt, which the engine makes and the shim reads.
//!
//! To close an inotify instance takes the kernel milliseconds, and every attempt would have to wait for its shim to do so.
//! The engine shares it with the shim as standard input, and closes it in a thread once the attempt has ended. If the
//! engine is gone, the shim closes it.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::FileType;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct ReportWatch(Option<OwnedFd>);

impl ReportWatch {
    /// Watches for files of this directory that are written and closed, or renamed to their name.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        inotify::add_watch(&fd, dir, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        Ok(Self(Some(fd)))
    }

    /// Returns the descriptor for another process.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// Returns the watch that the engine has shared, if it has one. Otherwise the standard input is `/dev/null`.
    pub(crate) fn from_stdin() -> Option<Self> {
        let stdin = io::stdin();
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin).ok()?.st_mode);
        // The kernel gives an inotify instance no type.
        let fd = (kind == FileType::Unknown).then(|| stdin.as_fd().try_clone_to_owned().ok()).flatten();
        fd.map(|fd| Self(Some(fd)))
    }

    /// Reads all events. Returns whether one is about this file, or some are missing.
    pub(crate) fn has_written(&self, path: &Path) -> io::Result<bool> {
        let mut written = false;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => {
                    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
                    written |= name == path.file_name() || event.events().contains(ReadFlags::QUEUE_OVERFLOW);
                }
                Err(Errno::AGAIN) => return Ok(written),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for ReportWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("BUG: it is taken only when it is dropped").as_fd()
    }
}

impl Drop for ReportWatch {
    fn drop(&mut self) {
        if let (Some(fd), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn_blocking(move || drop(fd));
        }
    }
}
