//! Runs a program with a harmless argument such as `--version`, without relying on it to answer or to end.

use std::io::{self, PipeReader, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use linux::{Process, ProcessTable};
use rustix::process::Pid;

/// How much of the output is kept.
const MAX_OUTPUT: usize = 4096;

/// Marks every process that a probe starts, so that all of them can be killed.
const VARIABLE: &str = "CALLBOARD_PROBE";

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("it could not be started")]
    Start(#[source] io::Error),
    #[error("it did not end within {} s and was killed", .0.as_secs())]
    TimedOut(Duration),
    #[error("it ended with {status}")]
    Failed { status: String },
    #[error("its output could not be read")]
    Io(#[from] io::Error),
}

/// Runs the program with empty stdin and returns what it wrote to stdout and stderr. When this returns, every process
/// that it started has ended, even one in its own session.
pub fn probe(program: &Path, arguments: &[&str], limit: Duration) -> Result<String, ProbeError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let probe_id = format!("{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(program);
    command.args(arguments).env(VARIABLE, &probe_id).stdin(Stdio::null());
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().map_err(ProbeError::Start)?;
    // The command holds copies of the pipe's write end, which would keep the pipe open.
    drop(command);
    let output = read_output(&child, reader, Instant::now() + limit);
    let killed = kill_all(&child, &probe_id);
    let status = child.wait()?;
    killed?;
    match output? {
        Output { ended: false, .. } => Err(ProbeError::TimedOut(limit)),
        Output { .. } if !status.success() => Err(ProbeError::Failed { status: status.to_string() }),
        Output { text, .. } => Ok(text),
    }
}

struct Output {
    ended: bool,
    text: String,
}

/// Reads until the program has ended and the pipe is empty, or the deadline has passed.
fn read_output(child: &Child, mut pipe: PipeReader, deadline: Instant) -> io::Result<Output> {
    let process = Process::running(Pid::from_child(child))?;
    let mut bytes = Vec::new();
    let mut ended = false;
    let mut open = true;
    while (open || !ended) && Instant::now() < deadline {
        let fds = match open {
            true => vec![process.as_fd(), pipe.as_fd()],
            false => vec![process.as_fd()],
        };
        // After its end the pipe is only emptied: another process may keep it open.
        let until = if ended { Instant::now() } else { deadline };
        let ready = linux::poll_until(&fds, Some(until))?;
        ended |= ready[0];
        match ready.get(1) {
            Some(true) => {
                let mut buffer = [0; 1024];
                let length = pipe.read(&mut buffer)?;
                open = length > 0;
                // Read and drop the rest, so that a program with much output can end.
                bytes.extend_from_slice(&buffer[..length.min(MAX_OUTPUT.saturating_sub(bytes.len()))]);
            }
            Some(false) if ended => open = false,
            Some(false) | None => {}
        }
    }
    Ok(Output { ended, text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// Kills the program and every process that it started.
fn kill_all(child: &Child, probe_id: &str) -> io::Result<()> {
    let mark = format!("{VARIABLE}={probe_id}").into_bytes();
    let pid = Pid::from_child(child);
    linux::kill_until_none(|| {
        let table = ProcessTable::read()?;
        let mut rows = table.marked(std::slice::from_ref(&mark))?;
        rows.extend(table.row(pid));
        Ok(table.with_descendants(rows))
    })?;
    Ok(())
}
