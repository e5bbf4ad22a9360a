//! Waits with inotify until a file is closed by a writer.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::inotify::{self, WatchFlags};
use tokio::io::unix::AsyncFd;

use super::{new_instance, read_events};
use crate::register_fd;

/// Fires whenever a process closes a file that it had open for writing, and when the file or its directory is removed
/// or renamed.
///
/// The kernel closes the files of a killed process, too, so every writer triggers it.
#[derive(Debug)]
pub struct FileWatch(AsyncFd<OwnedFd>);

impl FileWatch {
    /// Subscribes to every close after this call. Must be called within the runtime that will wait.
    pub fn subscribe(file: &Path) -> io::Result<Self> {
        let instance = new_instance()?;
        let moved_or_deleted = WatchFlags::MOVE_SELF | WatchFlags::DELETE_SELF;
        let written = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
        inotify::add_watch(&instance, file, written | moved_or_deleted)?;
        // Renaming the directory causes no event on the file. Renaming a directory above is noticed at the next write.
        if let Some(directory) = file.parent() {
            inotify::add_watch(&instance, directory, moved_or_deleted)?;
        }
        Ok(Self(register_fd(instance)?))
    }

    /// Waits for an event since the last call. Several events count as one. Cancel-safe.
    pub async fn wait(&mut self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        // The content of the events does not matter: each of them, even an overflow, means "read again".
        read_events(self.0.get_ref(), |_| {})?;
        ready.clear_ready();
        Ok(())
    }
}
