//! Processes: identified for ever, opened as pidfds, found in `/proc`.

mod end;
mod identity;
mod info;
mod pidfd;
mod stat;
mod table;

pub use end::ProcessEnd;
pub use identity::ProcessIdentity;
pub use info::ProcessInfo;
pub use pidfd::{Process, kill_until_none, poll_until, wait_for_all};
pub use table::{ProcessTable, Row, inherited_variable, inherited_variables};

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{self as kernel, Pid, Signal};

/// The path by which a process starts its own program again. Its child resolves the link between fork and exec, so it is
/// the same program even if the file was replaced or deleted.
pub const OWN_PROGRAM: &str = "/proc/self/exe";

/// Whether a process with this pid exists on this machine.
pub fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// Returns the pid as the kernel takes it, or `None` for a number that no process has.
fn kernel_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Starts a session of its own, so that the engine's terminal and end do not affect this process, and becomes the
/// subreaper, so that every orphaned descendant becomes its child.
pub fn detach_and_become_subreaper() -> io::Result<()> {
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
