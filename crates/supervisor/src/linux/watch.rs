//! Tells when files of a directory have been written, without looking at them and without polling.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, Event, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// Keeps watch over the directories of all attempts of one engine. Make one and share it: closing an inotify instance
/// makes the kernel wait for milliseconds, and a user may have only some hundred of them.
#[derive(Debug, Clone)]
pub struct DirWatcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fd: AsyncFd<OwnedFd>,
    /// By watch descriptor. The kernel gives one directory one descriptor, however often it is watched.
    posts: Mutex<HashMap<i32, Vec<Post>>>,
}

/// Somebody who waits for these files.
#[derive(Debug)]
struct Post {
    names: Vec<OsString>,
    wakeup: Arc<Notify>,
}

impl DirWatcher {
    /// To be called within the runtime that will wait.
    pub fn new() -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Shared { fd: super::listen(fd)?, posts: Mutex::default() })))
    }

    /// Watches for these files of the directory: written and closed, or moved into place. Half-written ones are
    /// nobody's business.
    pub(crate) fn watch(&self, dir: &Path, files: &[PathBuf]) -> io::Result<DirWatch> {
        let names = files.iter().filter_map(|file| file.file_name()).map(OsStr::to_owned).collect();
        let wakeup = Arc::new(Notify::new());
        let mut posts = self.0.posts();
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        let descriptor = inotify::add_watch(self.0.fd.get_ref(), dir, flags)?;
        posts.entry(descriptor).or_default().push(Post { names, wakeup: wakeup.clone() });
        Ok(DirWatch { shared: self.0.clone(), descriptor, wakeup })
    }
}

impl Shared {
    fn posts(&self) -> MutexGuard<'_, HashMap<i32, Vec<Post>>> {
        self.posts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all that waits and rings for everyone concerned.
    fn read_all(&self) -> io::Result<()> {
        let posts = self.posts();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(self.fd.get_ref(), &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => concerned(&posts, &event).for_each(|post| post.wakeup.notify_one()),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn concerned<'a>(posts: &'a HashMap<i32, Vec<Post>>, event: &Event<'_>) -> impl Iterator<Item = &'a Post> {
    // After an overflow we do not know what we missed: let everybody look.
    let overflow = event.events().contains(ReadFlags::QUEUE_OVERFLOW);
    let wd = event.wd();
    let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).to_owned());
    let in_dir = posts.iter().filter(move |(descriptor, _)| overflow || **descriptor == wd);
    in_dir
        .flat_map(|(_, posts)| posts)
        .filter(move |post| overflow || name.as_ref().is_some_and(|name| post.names.contains(name)))
}

/// A watch on some files of one directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct DirWatch {
    shared: Arc<Shared>,
    descriptor: i32,
    wakeup: Arc<Notify>,
}

impl DirWatch {
    /// Waits until one of the files has been written. Cancel-safe: the bell keeps ringing until somebody has heard it.
    /// Whoever of all the waiting is woken first reads for all the others.
    pub(crate) async fn written(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                biased;
                () = self.wakeup.notified() => return Ok(()),
                ready = self.shared.fd.readable() => {
                    let mut ready = ready?;
                    self.shared.read_all()?;
                    ready.clear_ready();
                }
            }
        }
    }
}

impl Drop for DirWatch {
    fn drop(&mut self) {
        let mut posts = self.shared.posts();
        let Some(here) = posts.get_mut(&self.descriptor) else { return };
        here.retain(|post| !Arc::ptr_eq(&post.wakeup, &self.wakeup));
        if here.is_empty() {
            posts.remove(&self.descriptor);
            // Fails only if the directory is gone, and the kernel's watch with it.
            let _ = inotify::remove_watch(self.shared.fd.get_ref(), self.descriptor);
        }
    }
}
