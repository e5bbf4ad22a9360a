//! A panic in any task ends the process with exit code 70. Committed state is not affected.

use crate::failure::{Code, Exit, Failure};
use crate::output;

/// Makes every panic end the process with a message that names it as a bug and says what to do.
pub(super) fn install() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default_hook(panic);
        let failure = Failure::new(Exit::Bug, "this is a bug in callboard; committed state is not affected")
            .code(Code::Bug)
            .hint(format_args!(
                "run `callboard explain {}` to see what to do now and what to report",
                Code::Bug
            ));
        output::failure(&failure);
        std::process::exit(i32::from(Exit::Bug.code()));
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Set in the child process that panics.
    const PANICS: &str = "CALLBOARD_TEST_PANICS";

    #[test]
    fn a_panic_in_any_task_ends_the_process_with_exit_code_70() {
        if std::env::var_os(PANICS).is_some() {
            install();
            let _ = crate::cli::block_on(async {
                let task = tokio::spawn(async { panic!("BUG: on purpose") });
                Ok(task.await.is_ok())
            });
            unreachable!("the process has ended");
        }
        let this = "cli::panic_hook::tests::a_panic_in_any_task_ends_the_process_with_exit_code_70";
        let program = std::env::current_exe().unwrap();
        let output =
            Command::new(program).args(["--exact", this, "--nocapture"]).env(PANICS, "1").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(70), "{stderr}");
        assert!(
            stderr.contains("BUG: on purpose") && stderr.contains("error[E018]: this is a bug"),
            "{stderr}"
        );
    }
}
