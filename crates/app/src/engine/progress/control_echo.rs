//! The echo of control keys while the live display is drawn.

use std::io;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Keeps the terminal from echoing `^C` when Ctrl-C is typed: the display would not know that the cursor has moved, and
/// would leave a line behind. Restores the terminal when dropped.
#[derive(Debug)]
pub(super) struct ControlEchoGuard {
    original: Termios,
}

impl ControlEchoGuard {
    /// Returns `None` if this process is in the background, or has no terminal.
    pub(super) fn new() -> Option<Self> {
        let terminal = io::stderr();
        let original = tcgetattr(&terminal).ok().filter(|_| is_in_foreground())?;
        let mut without_echo = original.clone();
        without_echo.local_modes.remove(LocalModes::ECHOCTL);
        tcsetattr(&terminal, OptionalActions::Now, &without_echo).ok()?;
        Some(Self { original })
    }
}

impl Drop for ControlEchoGuard {
    fn drop(&mut self) {
        if is_in_foreground() {
            // The terminal may be gone.
            let _ = tcsetattr(io::stderr(), OptionalActions::Now, &self.original);
        }
    }
}

/// Whether this process is in the foreground. The kernel stops a process in the background that changes the terminal.
fn is_in_foreground() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp())
}
