//! Asking a program one harmless question, such as `--version`, without trusting it to answer or to end.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::os::{self, Process, Table};

/// The most we listen to.
const LONGEST_ANSWER: usize = 4096;

/// Carried by everything that a question starts, so that nothing of it can stay.
const VARIABLE: &str = "CALLBOARD_PROBE";

/// Why a program gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("it could not be started")]
    Start(#[source] io::Error),
    #[error("it did not end within {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    #[error("it ended with {code}")]
    Failed { code: String },
    #[error("it could not be listened to")]
    Io(#[from] io::Error),
}

/// Starts the program with closed stdin, waits for its end, and gives what it wrote. When this returns, nothing that it
/// started is left, not even what left for a session of its own.
pub fn probe(program: &Path, arguments: &[&str], limit: Duration) -> Result<String, ProbeError> {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let name = format!("{}.{}", std::process::id(), ASKED.fetch_add(1, Ordering::Relaxed));
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, &name).stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().map_err(ProbeError::Start)?;
    // The command has copies of the pipe's end: as long as one is open, the pipe does not end.
    drop(command);
    let answer = listen(&child, reader, Instant::now() + limit);
    let swept = end(&child, &name);
    let status = child.wait()?;
    swept?;
    match answer? {
        Heard { ended: false, .. } => Err(ProbeError::TimedOut(limit)),
        Heard { .. } if !status.success() => Err(ProbeError::Failed { code: status.to_string() }),
        Heard { text, .. } => Ok(text),
    }
}

struct Heard {
    ended: bool,
    text: String,
}

/// Listens until the program has ended and the pipe is empty, or the time is up.
fn listen(child: &Child, mut pipe: PipeReader, deadline: Instant) -> io::Result<Heard> {
    let process = Process::child(Pid::from_child(child))?;
    let mut bytes = Vec::new();
    let mut ended = false;
    let mut open = true;
    while (open || !ended) && Instant::now() < deadline {
        let fds = match open {
            true => vec![process.as_fd(), pipe.as_fd()],
            false => vec![process.as_fd()],
        };
        // Once it has ended we only empty the pipe: whoever else holds it open is not waited for.
        let until = if ended { Instant::now() } else { deadline };
        let ready = os::poll_until(&fds, Some(until))?;
        ended |= ready[0];
        match ready.get(1) {
            Some(true) => {
                let mut part = [0; 1024];
                let length = pipe.read(&mut part)?;
                open = length > 0;
                // The rest is read and dropped, so that a talkative program can end.
                bytes.extend_from_slice(&part[..length.min(LONGEST_ANSWER.saturating_sub(bytes.len()))]);
            }
            Some(false) if ended => open = false,
            Some(false) | None => {}
        }
    }
    Ok(Heard { ended, text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// Kills the program and everything that it started.
fn end(child: &Child, name: &str) -> io::Result<()> {
    let line = format!("{VARIABLE}={name}").into_bytes();
    let pid = Pid::from_child(child);
    os::kill_until_none(|| {
        let table = Table::read()?;
        let mut rows = table.marked(std::slice::from_ref(&line));
        rows.extend(table.row(pid));
        Ok(table.with_descendants(rows))
    })?;
    Ok(())
}
