//! What only Linux gives us: pidfds, `/proc`, boot id, pid namespaces, subreapers. Other systems get a file of the
//! same functions beside this one.

mod departure;
mod descriptors;
mod process;
mod table;
mod watch;

pub use departure::Departure;
pub use descriptors::raise_descriptor_limit;
pub(crate) use descriptors::set_descriptor_limit;
pub use process::{Identity, boot_id};
pub(crate) use process::{Process, kill_until_none, poll_until, wait_for_all};
pub(crate) use table::{Table, command_line, inherited, inherited_all, is_stopped};
pub(crate) use watch::DirWatch;
pub use watch::DirWatcher;

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{self as kernel, Signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Leaves the engine's session, so that neither its terminal nor its end reaches us, and becomes the parent of every
/// orphan below us, so that none can get lost.
pub(crate) fn stand_alone() -> io::Result<()> {
    match kernel::setsid() {
        // EPERM: whoever started us by hand made us the leader of a group; then the session stays theirs.
        Ok(_) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(kernel::set_child_subreaper(Some(kernel::getpid()))?)
}

/// Makes the command's process die with this one, however this one dies.
#[expect(unsafe_code, reason = "the death signal can only be set by the child itself, between fork and exec")]
pub(crate) fn die_with_parent(command: &mut Command) {
    let parent = kernel::getpid();
    let bind = move || {
        kernel::set_parent_process_death_signal(Some(Signal::KILL))?;
        // We may have been orphaned before the line above: then the signal never comes.
        if kernel::getppid() == Some(parent) { Ok(()) } else { Err(rustix::io::Errno::SRCH.into()) }
    };
    // SAFETY: two system calls and no allocation, both allowed between fork and exec.
    unsafe { command.pre_exec(bind) };
}

/// Lets the runtime tell when the descriptor becomes readable.
#[expect(
    unsafe_code,
    reason = "the runtime cannot know that a descriptor stays open as long as it is registered"
)]
pub(crate) fn listen(fd: impl Into<OwnedFd>) -> io::Result<AsyncFd<OwnedFd>> {
    let fd: OwnedFd = fd.into();
    // SAFETY: an `OwnedFd` is open, and stays open and the same until it is dropped, which deregisters it first.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}
