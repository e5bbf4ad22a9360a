//! What an attempt was given to read and what it gave back, from its directory and the journal.
//!
//! Files of agents may be of any size and any kind: only the beginning of a text and the end of a log are read, and what
//! is missing or strange is said plainly.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::AttemptId;
use protocol::report::{Expected, Report};
use runner::last_lines;
use serde::Serialize;
use supervisor::AttemptDir;
use supervisor::report::{Collected, collect};

/// How much of a prompt or a refused report is shown.
const LONGEST: u64 = 64 * 1024;
/// How many of the last lines of a log are shown.
const LINES: usize = 20;

/// What passed between the engine and one attempt.
#[derive(Debug, Serialize)]
pub(crate) struct Exchange {
    pub(crate) attempt: AttemptId,
    #[serde(flatten)]
    pub(crate) files: Files,
    /// None of one whose files are on another host.
    pub(crate) prompt: Option<Text>,
    pub(crate) answer: Answer,
}

/// Where the files of an attempt are.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Files {
    Directory(PathBuf),
    /// On another host, where nothing can be read from here.
    Host(String),
}

/// A file as far as it can be shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Text {
    /// Its beginning, and how many bytes come after it.
    Read {
        text: String,
        left_out: u64,
    },
    Missing,
    /// It is there and cannot be read, for this reason.
    Unreadable(String),
}

/// What an attempt gave back.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The report that was accepted.
    Report { from: String, report: Box<Report> },
    /// Without one: the last lines it wrote, and the report that was refused, if there is one.
    Output { stdout: Vec<String>, stderr: Vec<String>, refused: Option<Refused> },
    /// Nothing is left of it.
    Gone,
    /// No report was accepted, and what it wrote is on another host.
    Remote,
}

/// A report that was not accepted.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    pub(crate) why: String,
    pub(crate) report: Text,
}

impl Exchange {
    /// Reads what there is. `report` is the one the journal keeps, if one was accepted.
    pub(crate) fn read(
        dir: &AttemptDir,
        attempt: &AttemptId,
        expected: &Expected,
        report: Option<&Report>,
    ) -> Self {
        Self {
            attempt: attempt.clone(),
            files: Files::Directory(dir.path().to_owned()),
            prompt: Some(text(&dir.prompt())),
            answer: answer(dir, expected, report),
        }
    }

    /// What is known of one whose files are on another host: the report, if one was accepted.
    pub(crate) fn remote(host: &str, attempt: &AttemptId, report: Option<&Report>) -> Self {
        let from = || format!("the journal; its files are on `{host}`");
        Self {
            attempt: attempt.clone(),
            files: Files::Host(host.to_owned()),
            prompt: None,
            answer: report.map_or(Answer::Remote, |report| Answer::Report {
                from: from(),
                report: Box::new(report.clone()),
            }),
        }
    }
}

fn answer(dir: &AttemptDir, expected: &Expected, report: Option<&Report>) -> Answer {
    let is_there = dir.path().is_dir();
    let found = collect(dir, expected);
    if let Some(report) = report {
        let from = match found {
            Collected::Valid(_, source) => source.to_string(),
            Collected::Missing if is_there => "its exit code and output".to_owned(),
            Collected::Missing => "the journal; its directory is gone".to_owned(),
            Collected::Unfit(why) => format!("the journal; what lies in its directory now is unfit: {why}"),
        };
        return Answer::Report { from, report: Box::new(report.clone()) };
    }
    if !is_there {
        return Answer::Gone;
    }
    let refused = match found {
        Collected::Unfit(why) => Some(Refused { why, report: text(&dir.report()) }),
        Collected::Valid(..) | Collected::Missing => None,
    };
    Answer::Output {
        stdout: last_lines(&dir.stdout(), LINES),
        stderr: last_lines(&dir.stderr(), LINES),
        refused,
    }
}

/// The beginning of a file.
pub(crate) fn text(path: &Path) -> Text {
    read(path, LONGEST)
}

/// The whole of a file that we wrote ourselves.
pub(crate) fn whole(path: &Path) -> Text {
    read(path, u64::MAX)
}

fn read(path: &Path, longest: u64) -> Text {
    let (file, size) = match supervisor::report::open(path) {
        Ok(Some(opened)) => opened,
        Ok(None) => return Text::Missing,
        Err(why) => return Text::Unreadable(why),
    };
    let mut bytes = Vec::new();
    match file.take(longest).read_to_end(&mut bytes) {
        Ok(_) => Text::Read {
            left_out: size.saturating_sub(bytes.len() as u64),
            text: String::from_utf8_lossy(&bytes).into_owned(),
        },
        Err(error) => Text::Unreadable(error.to_string()),
    }
}
