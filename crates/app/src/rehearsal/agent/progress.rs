//! Reports the progress of a phase with `callboard report --partial`, as any agent can.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

use linux::OWN_PROGRAM;
use serde_json::Value;

/// Reports a partial output. The messages of `callboard report` go to the log of the attempt.
pub(super) fn report_partial(output: &Value) -> io::Result<()> {
    let mut report = Command::new(OWN_PROGRAM)
        .args(["report", "--partial"])
        .stdin(Stdio::piped())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .spawn()?;
    if let Some(mut stdin) = report.stdin.take() {
        stdin.write_all(output.to_string().as_bytes())?;
    }
    let status = report.wait()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("`callboard report --partial` ended with {status}")))
}
