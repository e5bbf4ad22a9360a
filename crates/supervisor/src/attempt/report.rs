//! Collects an attempt's report from all its sources.
//!
//! In descending order of trust: what `callboard report` accepted, the report file, the markers on standard output
//! within the agent's own messages (see `transcript`). [`protocol::report`] judges the content. In doubt there is no
//! valid report, which costs an attempt, and the files are kept as evidence.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use protocol::report::{self as content, Expected, InvalidReport, Report};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::dir::AttemptDir;
use super::transcript;
use crate::atomic_file;

/// The size of the largest report that is read.
pub const MAX_REPORT_SIZE: u64 = 8 * 1024 * 1024;
/// How much of the end of the output is searched for the markers: the largest report, and some text after it.
const MAX_SEARCHED: u64 = MAX_REPORT_SIZE + 64 * 1024;

/// Where a report was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Submitted with `callboard report`.
    Submitted,
    /// Written to `REPORT_PATH`.
    File,
    /// Printed between the markers.
    Markers,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Submitted => "the submitted report",
            Self::File => "the report file",
            Self::Markers => "the report between the markers",
        })
    }
}

/// The result of [`collect`].
#[derive(Debug, Clone, PartialEq)]
pub enum Collected {
    Valid(Box<Report>, Source),
    /// There is a report that cannot be accepted, with the reason.
    Unfit(String),
    Missing,
}

/// Why a submission was refused.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("the report has {size} bytes, the limit is {MAX_REPORT_SIZE}")]
    TooLarge { size: usize },
    #[error("the report cannot be accepted: {0}")]
    Unfit(#[from] InvalidReport),
    #[error("could not write `{path}`")]
    Write { path: String, source: io::Error },
}

/// Checks a report and stores it for the engine. A later one replaces it.
pub fn submit(dir: &AttemptDir, expected: &Expected, bytes: &[u8]) -> Result<(), SubmitError> {
    if bytes.len() as u64 > MAX_REPORT_SIZE {
        return Err(SubmitError::TooLarge { size: bytes.len() });
    }
    content::parse(bytes, expected)?;
    let path = dir.submitted();
    atomic_file::replace_file(&path, bytes)
        .map_err(|source| SubmitError::Write { path: path.display().to_string(), source })
}

/// Reads all sources. All valid reports must agree on the verdict.
pub fn collect(dir: &AttemptDir, expected: &Expected) -> Collected {
    let read = |found: Result<Option<Vec<u8>>, String>| match found {
        Ok(None) => None,
        Ok(Some(bytes)) => Some(content::parse(&bytes, expected).map_err(|unfit| unfit.to_string())),
        Err(reason) => Some(Err(reason)),
    };
    let sources = [
        (Source::Submitted, read(read_report(&dir.submitted()))),
        (Source::File, read(read_report(&dir.report()))),
        (Source::Markers, read(read_markers(&dir.stdout()))),
    ];
    judge(sources.into_iter().filter_map(|(source, found)| Some((source, found?))))
}

/// The most trusted source that has a report must be valid: text in the output does not repair a broken file. Invalid
/// reports of less trusted sources are ignored, because an agent that prints its instructions prints our example, too.
fn judge(found: impl Iterator<Item = (Source, Result<Report, String>)>) -> Collected {
    let mut best: Option<(Report, Source)> = None;
    for (source, report) in found {
        match (report, &best) {
            (Ok(report), None) => best = Some((report, source)),
            (Err(reason), None) => return Collected::Unfit(format!("{source}: {reason}")),
            (Ok(report), Some((first, from))) if verdict(&report) != verdict(first) => {
                let (one, other) = (describe(first), describe(&report));
                return Collected::Unfit(format!("contradictory: {from} says {one}, {source} says {other}"));
            }
            (Ok(_) | Err(_), Some(_)) => {}
        }
    }
    best.map_or(Collected::Missing, |(report, source)| Collected::Valid(Box::new(report), source))
}

fn verdict(report: &Report) -> (content::Status, bool) {
    (report.status, report.gate_failure)
}

fn describe(report: &Report) -> String {
    let gate = if report.gate_failure { " with gate_failure" } else { "" };
    format!("{}{gate}", report.status)
}

fn read_report(path: &Path) -> Result<Option<Vec<u8>>, String> {
    let Some((file, size)) = open(path)? else { return Ok(None) };
    let too_large = |size: u64| format!("it has {size} bytes or more, the limit is {MAX_REPORT_SIZE}");
    if size > MAX_REPORT_SIZE {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    // The file may still grow.
    file.take(MAX_REPORT_SIZE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_REPORT_SIZE { Err(too_large(MAX_REPORT_SIZE + 1)) } else { Ok(Some(bytes)) }
}

fn read_markers(stdout: &Path) -> Result<Option<Vec<u8>>, String> {
    let Some((mut file, size)) = open(stdout)? else { return Ok(None) };
    let tail = || {
        file.seek(SeekFrom::Start(size.saturating_sub(MAX_SEARCHED)))?;
        let mut bytes = Vec::new();
        file.take(MAX_SEARCHED).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = tail().map_err(|error: io::Error| error.to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(content::between_markers(&transcript::agent_messages(&text)).map(|block| block.as_bytes().to_vec()))
}

/// Opens a regular file that the agent wrote. Does not follow a symbolic link and does not block on a pipe. Returns
/// `None` if there is no such file; the error is a message for people.
pub fn open(path: &Path) -> Result<Option<(File, u64)>, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return Err("it is a symbolic link".to_owned()),
        Err(error) => return Err(io::Error::from(error).to_string()),
    };
    let data = file.metadata().map_err(|error| error.to_string())?;
    if data.is_file() { Ok(Some((file, data.len()))) } else { Err("it is not a regular file".to_owned()) }
}

#[cfg(test)]
mod tests {
    use protocol::{RunId, StepId};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gate_failure_in_stream_json_is_honoured() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        let expected = Expected {
            run_id: RunId::new("f8c1").unwrap(),
            step_id: StepId::new("review").unwrap(),
            agent: "claude".to_owned(),
        };
        let report = json!({
            "schema": content::SCHEMA, "run_id": "f8c1", "step_id": "review", "agent": "claude", "status": "COMPLETED",
            "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z", "logs": ["a \"quoted\" word"],
            "gate_failure": true,
        });
        let said = format!("{}\n{report:#}\n{}", content::MARKER_OPEN, content::MARKER_CLOSE);
        let told = json!({"type": "user", "message": {"content": content::instructions(&expected, content::Form::Plain, "/report.json")}});
        let result = json!({"type": "result", "subtype": "success", "result": said});
        std::fs::write(dir.stdout(), format!("{told}\n{result}\n")).unwrap();
        match collect(&dir, &expected) {
            Collected::Valid(report, Source::Markers) => assert!(report.gate_failure),
            other => panic!("{other:?}"),
        }
    }
}
