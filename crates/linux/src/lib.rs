//! What is specific to Linux: pidfds, `/proc`, boot id, pid namespaces, subreapers, inotify, file systems. Another system needs a
//! crate with the same functions. Elsewhere only `doctor` reads limits of this kernel.

mod descriptor_limit;
mod file_system;
mod host;
mod inotify;
mod open_files;
mod process;

pub use descriptor_limit::{raise_descriptor_limit, restore_descriptor_limit, set_descriptor_limit};
pub use file_system::{FileIdentity, check_writable, is_full, network_file_system};
pub use host::{boot_id, effective_user, host_name};
pub use inotify::{DirWatch, DirWatcher, FileWatch, ReportWatch};
pub use open_files::{HeldLock, held_locks, holds_lock, inotify_instances, lock_holder};
pub use process::{
    OWN_PROGRAM, Process, ProcessEnd, ProcessIdentity, ProcessInfo, ProcessTable, Row,
    detach_and_become_subreaper, die_with_parent, inherited_variable, inherited_variables, is_alive,
    kill_until_none, poll_until, wait_for_all,
};

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a descriptor with the runtime, to wait until it becomes readable.
#[expect(
    unsafe_code,
    reason = "the runtime cannot know that a descriptor stays open as long as it is registered"
)]
pub fn register_fd(fd: impl Into<OwnedFd>) -> io::Result<AsyncFd<OwnedFd>> {
    let fd: OwnedFd = fd.into();
    // SAFETY: an `OwnedFd` is open, and stays open and the same until it is dropped, which deregisters it first.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
