//! A broken invariant of ours ends the process with its own code, whichever task it happens in. Nothing is lost: what
//! was committed stands.

use crate::failure::{Code, Exit, Failure};
use crate::output;

/// From now on a panic ends the process, says whose fault it is, and what to do.
pub(super) fn name_ours() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        let failure = Failure::new(Exit::Bug, "this is a bug in callboard; what was committed stands")
            .code(Code::Bug)
            .hint(format_args!("`callboard explain {}` tells what to do now, and what to report", Code::Bug));
        output::failure(&failure);
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set for the copy of this test that panics.
    const PANICS: &str = "CALLBOARD_TEST_PANICS";

    #[test]
    fn a_panic_in_any_task_ends_the_process_with_70_and_says_that_it_is_our_bug() {
        if std::env::var_os(PANICS).is_some() {
            name_ours();
            let _ = crate::cli::block_on(async {
                let task = tokio::spawn(async { panic!("BUG: on purpose") });
                Ok(task.await.is_ok())
            });
            unreachable!("the process has ended");
        }
        let this =
            "cli::bugs::tests::a_panic_in_any_task_ends_the_process_with_70_and_says_that_it_is_our_bug";
        let program = std::env::current_exe().unwrap();
        let output =
            Command::new(program).args(["--exact", this, "--nocapture"]).env(PANICS, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{said}");
        assert!(said.contains("BUG: on purpose") && said.contains("error[E018]: this is a bug"), "{said}");
    }
}
