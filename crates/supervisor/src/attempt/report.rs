//! Collects an attempt's report from all its sources.
//!
//! In descending order of trust: what `callboard report` accepted, the report file in all its versions (see
//! `report_history`), the markers on standard output within the agent's own messages (see `transcript`).
//! [`protocol::report`] merges them and judges the content. If the sources contradict each other there is no valid
//! report: the attempt fails, and the files are kept as evidence.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

pub use protocol::report::Source;
use protocol::report::{self as content, InvalidReport, Report, ReportIdentity, Statement};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde_json::{Map, Value};

use super::dir::AttemptDir;
use super::report_history::{self, RecordedReport};
use super::transcript;
use crate::atomic_file;

/// The size of the largest report that is read.
pub const MAX_REPORT_SIZE: u64 = 8 * 1024 * 1024;
/// How much of the end of the output is searched for the markers: the largest report, and some text after it.
const MAX_SEARCHED: u64 = MAX_REPORT_SIZE + 64 * 1024;

/// The result of [`collect`].
#[derive(Debug, Clone, PartialEq)]
pub enum Collected {
    /// The merged report, and the sources that it comes from.
    Valid(Box<Report>, Vec<Source>),
    /// There is a report that cannot be accepted, with the reason.
    Invalid(String),
    Missing,
}

/// Why a submission was refused.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("the report has {size} bytes, the limit is {MAX_REPORT_SIZE}")]
    TooLarge { size: usize },
    #[error("the report cannot be accepted: {0}")]
    Invalid(#[from] InvalidReport),
    #[error("could not write `{path}`")]
    Write { path: String, source: io::Error },
}

/// Checks a report and stores it for the engine. Of two submissions, the later one counts in each field that both have.
pub fn submit(dir: &AttemptDir, expected: &ReportIdentity, bytes: &[u8]) -> Result<(), SubmitError> {
    if bytes.len() as u64 > MAX_REPORT_SIZE {
        return Err(SubmitError::TooLarge { size: bytes.len() });
    }
    content::parse(bytes, expected)?;
    let failed =
        |path: PathBuf| move |source| SubmitError::Write { path: path.display().to_string(), source };
    let text = String::from_utf8_lossy(bytes).into_owned();
    report_history::keep(dir, Source::Submitted, text).map_err(failed(dir.recorded_reports()))?;
    // The engine waits for this file.
    atomic_file::replace_file(&dir.submitted(), bytes).map_err(failed(dir.submitted()))
}

/// Merges a report that is not submitted yet with those of the attempt. `None` if that gives no valid report.
pub fn merge_with(dir: &AttemptDir, expected: &ReportIdentity, bytes: &[u8]) -> Option<Report> {
    let mut statements = statements(dir);
    statements.push(Statement { source: Source::Submitted, content: Ok(bytes.to_vec()) });
    content::merge(&statements, expected).ok().flatten().map(|merged| merged.report)
}

/// Reads and merges the reports of all sources.
pub fn collect(dir: &AttemptDir, expected: &ReportIdentity) -> Collected {
    match content::merge(&statements(dir), expected) {
        Ok(Some(merged)) => Collected::Valid(Box::new(merged.report), merged.sources),
        Ok(None) => Collected::Missing,
        Err(invalid) => Collected::Invalid(invalid.to_string()),
    }
}

/// Returns the merged fields unchanged, to be checked against the user's schema for reports. `None` if the report is not
/// valid.
pub fn collect_raw_fields(dir: &AttemptDir, expected: &ReportIdentity) -> Option<Map<String, Value>> {
    content::merge_as_stated(&statements(dir), expected).ok().flatten()
}

/// Returns what the sources said, in the order of time.
fn statements(dir: &AttemptDir) -> Vec<Statement> {
    let kept = report_history::read_recorded(dir);
    // The shim may have missed the newest version, if it was written just before the agent ended.
    let newest = [(Source::Submitted, dir.submitted()), (Source::File, dir.report())];
    let newest = newest.into_iter().filter_map(|(source, path)| {
        let content = read_report(&path).transpose()?;
        let last = kept.iter().rev().find(|kept| kept.source == source).map(|kept| kept.text.as_bytes());
        let is_kept = content.as_ref().is_ok_and(|bytes| Some(bytes.as_slice()) == last);
        (!is_kept).then_some(Statement { source, content })
    });
    let mut newest: Vec<_> = newest.collect();
    let (start, output) = read_output(&dir.stdout()).unwrap_or_else(|reason| {
        newest.push(Statement { source: Source::Markers, content: Err(reason) });
        (0, Vec::new())
    });
    let mut blocks = marked_blocks(&output).into_iter().peekable();
    let (mut statements, mut printed) = (Vec::new(), 0);
    for kept in kept {
        if blocks.peek().is_some() {
            let length = usize::try_from(kept.stdout_len.saturating_sub(start)).unwrap_or(usize::MAX);
            // The blocks that were printed before this report was kept.
            let before = marked_blocks(&output[..length.min(output.len())]).len();
            statements.extend(blocks.by_ref().take(before.saturating_sub(printed)));
            printed = printed.max(before);
        }
        statements.push(kept.into());
    }
    statements.into_iter().chain(blocks).chain(newest).collect()
}

impl From<RecordedReport> for Statement {
    fn from(kept: RecordedReport) -> Self {
        Self { source: kept.source, content: Ok(kept.text.into_bytes()) }
    }
}

pub(super) fn read_report(path: &Path) -> Result<Option<Vec<u8>>, String> {
    open_agent_file(path)?.map(|(file, size)| read_whole(file, size)).transpose()
}

/// Reads a file that is not larger than a report may be.
pub(super) fn read_whole(file: File, size: u64) -> Result<Vec<u8>, String> {
    let too_large = |size: u64| format!("it has {size} bytes or more, the limit is {MAX_REPORT_SIZE}");
    if size > MAX_REPORT_SIZE {
        return Err(too_large(size));
    }
    let mut bytes = Vec::new();
    // The file may still grow.
    file.take(MAX_REPORT_SIZE + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_REPORT_SIZE { Err(too_large(MAX_REPORT_SIZE + 1)) } else { Ok(bytes) }
}

/// Returns the reports between markers in this output.
fn marked_blocks(output: &[u8]) -> Vec<Statement> {
    let text = String::from_utf8_lossy(output);
    let messages = transcript::agent_messages(&text);
    let blocks = content::between_markers(&messages).into_iter();
    let statement = |block: &str| Statement { source: Source::Markers, content: Ok(block.into()) };
    blocks.map(statement).collect()
}

/// Reads the end of the output, which is searched for markers. Returns its offset in the output and its bytes.
fn read_output(stdout: &Path) -> Result<(u64, Vec<u8>), String> {
    let Some((mut file, size)) = open_agent_file(stdout)? else { return Ok((0, Vec::new())) };
    let start = size.saturating_sub(MAX_SEARCHED);
    let tail = || {
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(MAX_SEARCHED).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = tail().map_err(|error: io::Error| error.to_string())?;
    Ok((start, bytes))
}

/// Opens a regular file that the agent wrote. Does not follow a symbolic link and does not block on a pipe. Returns
/// `None` if there is no such file; the error is a message for people.
pub fn open_agent_file(path: &Path) -> Result<Option<(File, u64)>, String> {
    open_agent_file_at(rustix::fs::CWD, path)
}

/// Opens a file as [`open_agent_file`] does, relative to a directory.
pub(super) fn open_agent_file_at(dir: BorrowedFd<'_>, path: &Path) -> Result<Option<(File, u64)>, String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match rustix::fs::openat(dir, path, flags, Mode::empty()) {
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
        let expected = ReportIdentity {
            run_id: RunId::new("f8c1").unwrap(),
            step_id: StepId::new("review").unwrap(),
            agent: "claude".to_owned(),
        };
        let report = json!({
            "schema": content::SCHEMA, "run_id": "f8c1", "step_id": "review", "agent": "claude", "status": "COMPLETED",
            "started_at": "2026-01-01T00:00:00Z", "ended_at": "2026-01-01T00:01:00Z", "logs": ["a \"quoted\" word"],
            "gate_failure": true,
        });
        let message = format!("{}\n{report:#}\n{}", content::MARKER_OPEN, content::MARKER_CLOSE);
        let prompt_event = json!({"type": "user", "message": {"content": content::instructions(&expected, &content::ReportForm::Plain, "/report.json")}});
        let result = json!({"type": "result", "subtype": "success", "result": message});
        std::fs::write(dir.stdout(), format!("{prompt_event}\n{result}\n")).unwrap();
        match collect(&dir, &expected) {
            Collected::Valid(report, sources) => assert!(report.gate_failure && sources == [Source::Markers]),
            other => panic!("{other:?}"),
        }
    }
}
