//! Progress of a phase, written into the run's document as every agent can: read its number, patch it.

use std::io;
use std::process::{Command, Stdio};

use serde_json::Value;
use supervisor::adapter::rehearsal::PLAYER_PROGRAM;

/// Makes this the output of the phase so far.
pub(super) fn hand_in(key: Option<&str>, phase: &str, output: &Value) -> io::Result<()> {
    let key = key.ok_or_else(|| io::Error::other("the run has no document that agents may write"))?;
    let read: Value = serde_json::from_slice(&callboard(&["state", "get", key, "--json"])?)?;
    let sequence = read["sequence"].as_u64().ok_or_else(|| io::Error::other("its document has no number"))?;
    let set = format!("/phases/{phase}/output={output}");
    callboard(&["state", "patch", key, "--expect", &sequence.to_string(), "--set", &set]).map(drop)
}

/// What our own program prints. What it has to say goes into the attempt's log.
fn callboard(arguments: &[&str]) -> io::Result<Vec<u8>> {
    let output = Command::new(PLAYER_PROGRAM)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(io::Error::other(format!("`callboard {}` ended with {}", arguments[..2].join(" "), output.status)))
}
