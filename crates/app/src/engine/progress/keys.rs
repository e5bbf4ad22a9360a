//! The keyboard while the live display is drawn.

use std::io;

use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Keeps the terminal from showing `^C` when that is typed. The display would not know that the cursor has moved, and leave a line
/// behind. The terminal is as before when this is dropped.
#[derive(Debug)]
pub(super) struct HiddenKeys {
    before: Termios,
}

impl HiddenKeys {
    /// Returns `None` if this process does not have the terminal.
    pub(super) fn new() -> Option<Self> {
        let terminal = io::stderr();
        let before = tcgetattr(&terminal).ok().filter(|_| has_terminal())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHOCTL);
        tcsetattr(&terminal, OptionalActions::Now, &hidden).ok()?;
        Some(Self { before })
    }
}

impl Drop for HiddenKeys {
    fn drop(&mut self) {
        if has_terminal() {
            // The terminal may be gone.
            let _ = tcsetattr(io::stderr(), OptionalActions::Now, &self.before);
        }
    }
}

/// Whether this process is in the foreground. A process in the background that changed the terminal would be stopped.
fn has_terminal() -> bool {
    tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp())
}
