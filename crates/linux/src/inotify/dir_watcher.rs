//! Waits with inotify until files of a directory are written.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, Event, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use super::{new_instance, read_events};
use crate::register_fd;

/// Watches the directories of all attempts and views of one engine. Create one and share it: closing an inotify instance takes
/// milliseconds, and a user may have only a few hundred of them.
#[derive(Debug, Clone)]
pub struct DirWatcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    fd: AsyncFd<OwnedFd>,
    /// By watch descriptor. Watching a directory twice returns the same descriptor.
    waiters: Mutex<HashMap<i32, Vec<Waiter>>>,
}

/// A [`DirWatch`] that waits for these files.
#[derive(Debug)]
struct Waiter {
    names: Vec<OsString>,
    wakeup: Arc<Notify>,
}

impl DirWatcher {
    /// Creates an inotify instance. Must be called within the runtime that will wait.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Inner { fd: register_fd(new_instance()?)?, waiters: Mutex::default() })))
    }

    /// Watches these files of the directory until they are written and closed, or renamed to their name.
    pub fn watch(&self, dir: &Path, files: &[PathBuf]) -> io::Result<DirWatch> {
        let names = files.iter().filter_map(|file| file.file_name()).map(OsStr::to_owned).collect();
        let wakeup = Arc::new(Notify::new());
        let mut waiters = self.0.waiters();
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        let descriptor = inotify::add_watch(self.0.fd.get_ref(), dir, flags)?;
        waiters.entry(descriptor).or_default().push(Waiter { names, wakeup: wakeup.clone() });
        Ok(DirWatch { inner: self.0.clone(), descriptor, wakeup })
    }
}

impl Inner {
    fn waiters(&self) -> MutexGuard<'_, HashMap<i32, Vec<Waiter>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all pending events and wakes the waiters they concern.
    fn read_all(&self) -> io::Result<()> {
        let waiters = self.waiters();
        read_events(self.fd.get_ref(), |event| {
            waiters_for(&waiters, event).for_each(|waiter| waiter.wakeup.notify_one());
        })
    }
}

fn waiters_for<'a>(
    waiters: &'a HashMap<i32, Vec<Waiter>>,
    event: &Event<'_>,
) -> impl Iterator<Item = &'a Waiter> {
    // After an overflow events are missing: wake every waiter.
    let overflow = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
    let wd = event.wd();
    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
    let in_dir = waiters.iter().filter(move |(descriptor, _)| overflow || **descriptor == wd);
    in_dir
        .flat_map(|(_, waiters)| waiters)
        .filter(move |waiter| overflow || name.as_ref().is_some_and(|name| waiter.names.contains(name)))
}

/// A watch on some files of one directory, until it is dropped.
#[derive(Debug)]
pub struct DirWatch {
    inner: Arc<Inner>,
    descriptor: i32,
    wakeup: Arc<Notify>,
}

impl DirWatch {
    /// Waits until one of the files has been written. Cancel-safe: a notification is kept until it is consumed. All waiters
    /// share one inotify instance, so the first that the runtime wakes reads the events for all.
    pub async fn written(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                () = self.wakeup.notified() => return Ok(()),
                ready = self.inner.fd.readable() => {
                    let mut ready = ready?;
                    self.inner.read_all()?;
                    ready.clear_ready();
                }
            }
        }
    }
}

impl Drop for DirWatch {
    fn drop(&mut self) {
        let mut waiters = self.inner.waiters();
        let Some(in_dir) = waiters.get_mut(&self.descriptor) else { return };
        in_dir.retain(|waiter| !Arc::ptr_eq(&waiter.wakeup, &self.wakeup));
        if in_dir.is_empty() {
            waiters.remove(&self.descriptor);
            // Fails only if the directory was deleted, which removed the watch.
            let _ = inotify::remove_watch(self.inner.fd.get_ref(), self.descriptor);
        }
    }
}
