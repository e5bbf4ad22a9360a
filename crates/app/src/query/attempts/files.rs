//! The prompt of an attempt and its report or output, read from its directory and the journal.
//!
//! Files of agents may have any size and content, so only the beginning of a text and the end of a log are read.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::report::{Report, ReportIdentity};
use protocol::{AttemptId, StepKind};
use runner::last_lines;
use serde::Serialize;
use supervisor::AttemptDir;
use supervisor::report::{Collected, collect};

/// Bytes of a prompt or a rejected report that are shown.
const MAX_BYTES: u64 = 64 * 1024;
/// Lines at the end of a log that are shown.
const MAX_LINES: usize = 20;

/// What an attempt was given, and what it handed back.
#[derive(Debug, Serialize)]
pub(crate) struct AttemptIo {
    pub(crate) id: AttemptId,
    /// Whether an agent, a command, a person or the engine did the work.
    #[serde(skip_serializing_if = "StepKind::is_agent")]
    pub(crate) kind: StepKind,
    #[serde(flatten)]
    pub(crate) files: AttemptFiles,
    /// `None` if no agent did the work, or the files are on another host.
    pub(crate) prompt: Option<FileText>,
    pub(crate) report: AttemptReport,
}

/// Where the files of an attempt are.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptFiles {
    Directory(PathBuf),
    /// On another host, so they cannot be read here.
    Host(String),
}

/// The text of a file.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileText {
    /// The beginning of the file, and the number of bytes that were left out.
    Read {
        text: String,
        left_out: u64,
    },
    Missing,
    /// The file exists and cannot be read for this reason.
    Unreadable(String),
}

/// The report of an attempt, or its output if no report was accepted.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AttemptReport {
    Accepted {
        from: String,
        report: Box<Report>,
    },
    /// No accepted report: the end of its output, and `report.json` if a report was rejected.
    Missing {
        stdout: Vec<String>,
        stderr: Vec<String>,
        rejected: Option<RejectedReport>,
    },
    /// No accepted report, and its directory was removed.
    Gone,
    /// No agent and no command did the work, and there is no report.
    None,
    /// No accepted report, and its output is on another host.
    Remote,
}

#[derive(Debug, Serialize)]
pub(crate) struct RejectedReport {
    pub(crate) reason: String,
    /// `report.json`; `None` if the report came from another source, such as the output.
    pub(crate) report: Option<FileText>,
}

impl AttemptIo {
    /// Reads the files of an attempt on this host. `report` is the accepted report from the journal.
    pub(crate) fn read(
        dir: &AttemptDir,
        (attempt, kind): (&AttemptId, StepKind),
        expected: &ReportIdentity,
        report: Option<&Report>,
    ) -> Self {
        let (prompt, report) = match kind {
            StepKind::Agent => (Some(beginning(&dir.prompt())), report_of(dir, expected, report)),
            StepKind::Command | StepKind::Effect | StepKind::Person => {
                (None, report_without_agent(dir, kind, report))
            }
        };
        Self {
            id: attempt.clone(),
            kind,
            files: AttemptFiles::Directory(dir.path().to_owned()),
            prompt,
            report,
        }
    }

    /// Describes an attempt whose files are on another host by its accepted report.
    pub(crate) fn remote(
        host: &str,
        (attempt, kind): (&AttemptId, StepKind),
        report: Option<&Report>,
    ) -> Self {
        let from = || format!("the journal; its files are on `{host}`");
        Self {
            id: attempt.clone(),
            kind,
            files: AttemptFiles::Host(host.to_owned()),
            prompt: None,
            report: report.map_or(AttemptReport::Remote, |report| AttemptReport::Accepted {
                from: from(),
                report: Box::new(report.clone()),
            }),
        }
    }
}

/// Returns the report of an attempt whose work no agent did.
fn report_without_agent(dir: &AttemptDir, kind: StepKind, report: Option<&Report>) -> AttemptReport {
    let by = if kind == StepKind::Command { "its checks" } else { "the engine" };
    match report {
        Some(report) => AttemptReport::Accepted { from: by.to_owned(), report: Box::new(report.clone()) },
        None if kind == StepKind::Command && dir.path().is_dir() => output_of(dir, None),
        None if kind == StepKind::Command => AttemptReport::Gone,
        None => AttemptReport::None,
    }
}

fn report_of(dir: &AttemptDir, expected: &ReportIdentity, report: Option<&Report>) -> AttemptReport {
    let has_directory = dir.path().is_dir();
    let found = collect(dir, expected);
    if let Some(report) = report {
        let from = match found {
            Collected::Valid(_, sources) => {
                sources.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            }
            Collected::Missing if !report.copy_edits.is_empty() => "the files that it edited".to_owned(),
            Collected::Missing if has_directory => "its exit code and output".to_owned(),
            Collected::Missing => "the journal; its directory was removed".to_owned(),
            Collected::Invalid(why) => format!("the journal; the report in its directory is invalid: {why}"),
        };
        return AttemptReport::Accepted { from, report: Box::new(report.clone()) };
    }
    if !has_directory {
        return AttemptReport::Gone;
    }
    let rejected = match found {
        Collected::Invalid(reason) => {
            let report = beginning(&dir.report());
            let report = Some(report).filter(|report| !matches!(report, FileText::Missing));
            Some(RejectedReport { reason, report })
        }
        Collected::Valid(..) | Collected::Missing => None,
    };
    output_of(dir, rejected)
}

fn output_of(dir: &AttemptDir, rejected: Option<RejectedReport>) -> AttemptReport {
    AttemptReport::Missing {
        stdout: last_lines(&dir.stdout(), MAX_LINES),
        stderr: last_lines(&dir.stderr(), MAX_LINES),
        rejected,
    }
}

/// Reads the beginning of a file that may be large: a prompt, or what an agent wrote.
fn beginning(path: &Path) -> FileText {
    read(path, MAX_BYTES)
}

/// Reads a whole file that the engine wrote.
pub(crate) fn read_whole_file(path: &Path) -> FileText {
    read(path, u64::MAX)
}

fn read(path: &Path, limit: u64) -> FileText {
    let (file, size) = match supervisor::report::open_agent_file(path) {
        Ok(Some(opened)) => opened,
        Ok(None) => return FileText::Missing,
        Err(why) => return FileText::Unreadable(why),
    };
    let mut bytes = Vec::new();
    match file.take(limit).read_to_end(&mut bytes) {
        Ok(_) => FileText::Read {
            left_out: size.saturating_sub(bytes.len() as u64),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        },
        Err(error) => FileText::Unreadable(error.to_string()),
    }
}
