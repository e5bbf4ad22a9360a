//! The watch on the report file of one attempt, which the engine makes and the shim reads.
//!
//! The shim gets it as its standard input. To close an inotify instance that was just used takes the kernel milliseconds, so
//! the engine keeps it for another attempt once the shim has ended. If the engine is gone, the shim closes it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::FileType;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};

use super::{new_instance, read_events};

/// inotify instances to recycle, without watches and pending events. At most as many as there were shims at the same
/// time.
static FREE: Mutex<Vec<OwnedFd>> = Mutex::new(Vec::new());

/// An inotify instance that watches the directory of one attempt.
#[derive(Debug)]
pub struct ReportWatch {
    instance: OwnedFd,
    /// The watch descriptor; `None` in the shim, which did not make the watch.
    watch: Option<i32>,
}

impl ReportWatch {
    /// Watches for files of this directory that are written and closed, or renamed to their name.
    pub fn new(dir: &Path) -> io::Result<Self> {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let instance = match free {
            Some(instance) => instance,
            None => new_instance()?,
        };
        let watch = inotify::add_watch(&instance, dir, WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO)?;
        Ok(Self { instance, watch: Some(watch) })
    }

    /// Keeps the instance for another attempt. The shim that shares it must have ended.
    pub fn recycle(self) {
        let removed = self.watch.is_some_and(|watch| inotify::remove_watch(&self.instance, watch).is_ok());
        // Events of this attempt must not be taken for those of the next one.
        if removed && read_events(&self, |_| {}).is_ok() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(self.instance);
        }
    }

    /// Returns the descriptor for another process.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// Returns the watch that the engine has shared, if it has one. Otherwise the standard input is `/dev/null`.
    pub fn inherited_as_stdin() -> Option<Self> {
        let stdin = io::stdin();
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&stdin).ok()?.st_mode);
        // The kernel gives an inotify instance no type.
        let is_watch = kind == FileType::Unknown;
        let instance = is_watch.then(|| stdin.as_fd().try_clone_to_owned().ok()).flatten()?;
        Some(Self { instance, watch: None })
    }

    /// Reads all events. Returns whether one is about this file, or some are missing.
    pub fn take_written(&self, path: &Path) -> io::Result<bool> {
        let mut written = false;
        read_events(self, |event| {
            let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()));
            written |= name == path.file_name() || event.events().contains(ReadFlags::QUEUE_OVERFLOW);
        })?;
        Ok(written)
    }
}

impl AsFd for ReportWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.instance.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_watch_tells_nothing_of_the_attempt_before() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let reports = dirs.each_ref().map(|dir| dir.path().join("report.json"));
        let before = ReportWatch::new(dirs[0].path()).unwrap();
        std::fs::write(&reports[0], "{}").unwrap();
        before.recycle();

        let watch = ReportWatch::new(dirs[1].path()).unwrap();
        std::fs::write(&reports[0], "{}").unwrap();
        assert!(!watch.take_written(&reports[1]).unwrap());
        std::fs::write(&reports[1], "{}").unwrap();
        assert!(watch.take_written(&reports[1]).unwrap());
    }
}
