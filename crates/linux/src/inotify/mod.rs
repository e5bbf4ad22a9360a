//! Waiting for writes of files.

mod dir_watcher;
mod file_watch;
mod report_watch;

pub use dir_watcher::{DirWatch, DirWatcher};
pub use file_watch::FileWatch;
pub use report_watch::ReportWatch;

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::inotify::{self, CreateFlags, Event, Reader};
use rustix::io::Errno;

fn new_instance() -> io::Result<OwnedFd> {
    Ok(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?)
}

/// Reads all pending events.
fn read_events(instance: impl AsFd, mut on_event: impl FnMut(&Event<'_>)) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = Reader::new(instance, &mut buffer);
    loop {
        match reader.next() {
            Ok(event) => on_event(&event),
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
