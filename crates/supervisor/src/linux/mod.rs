//! Linux-specific code: pidfds, `/proc`, boot id, pid namespaces, subreapers, inotify. Another system needs a module
//! with the same functions.

mod descriptors;
mod dir_watcher;
mod process;
mod process_end;
mod process_table;
mod report_watch;

pub(crate) use descriptors::set_descriptor_limit;
pub use descriptors::{raise_descriptor_limit, restore_descriptor_limit};
pub use dir_watcher::{DirWatch, DirWatcher};
pub(crate) use process::{Process, kill_until_none, poll_until, wait_for_all};
pub use process::{ProcessIdentity, boot_id};
pub use process_end::ProcessEnd;
pub(crate) use process_table::{
    ProcessTable, command_line, inherited_variable, inherited_variables, is_stopped,
};
pub(crate) use report_watch::ReportWatch;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{self as kernel, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Starts a session of its own, so that the engine's terminal and end do not affect this process, and becomes the
/// subreaper, so that every orphaned descendant becomes its child.
pub(crate) fn detach_and_become_subreaper() -> io::Result<()> {
    match kernel::setsid() {
        // EPERM: started by hand from a shell, this process leads a process group and keeps the shell's session.
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(kernel::set_child_subreaper(Some(kernel::getpid()))?)
}

/// Makes the kernel kill the command's process when the thread that starts it ends in any way. What that process has started
/// is not killed.
#[expect(unsafe_code, reason = "the death signal can only be set by the child itself, between fork and exec")]
pub fn die_with_parent(command: &mut Command) {
    let parent = kernel::getpid();
    let bind = move || {
        kernel::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent ended before the line above, the signal never comes.
        if kernel::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: two system calls and no allocation, both allowed between fork and exec.
    unsafe { command.pre_exec(bind) };
}

/// Registers a descriptor with the runtime, to wait until it becomes readable.
#[expect(
    unsafe_code,
    reason = "the runtime cannot know that a descriptor stays open as long as it is registered"
)]
pub(crate) fn register_fd(fd: impl Into<OwnedFd>) -> io::Result<AsyncFd<OwnedFd>> {
    let fd: OwnedFd = fd.into();
    // SAFETY: an `OwnedFd` is open, and stays open and the same until it is dropped, which deregisters it first.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
