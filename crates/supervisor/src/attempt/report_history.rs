//! Keeps every report of an attempt, because a later one may overwrite it: an agent and its wrapper write the same file.
//!
//! `callboard report` keeps what it accepts. The shim keeps each version of the report file as it is closed or renamed
//! into place; it lives as long as the agent, unlike the engine. One line per report, in the order of time.

use std::fs::{self, File};
use std::io::{self, BufRead, Read, Write};

use protocol::report::Source;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::dir::AttemptDir;
use super::report::{MAX_REPORT_SIZE, open_agent_file, read_report};

/// How many reports the shim keeps, so that an agent that rewrites its file for ever does not fill the disk. The last
/// version is in the report file in any case.
const MAX_RECORDED_FILES: usize = 100;

/// How many bytes of kept reports are read.
const MAX_READ: u64 = 8 * MAX_REPORT_SIZE;

/// A report that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedReport {
    pub(super) source: Source,
    /// How long the standard output was at that time, which tells what was printed before.
    pub(super) stdout_len: u64,
    pub(super) text: String,
}

/// Keeps a report. One append is one write, so that the lines of two writers do not mix.
pub(super) fn keep(dir: &AttemptDir, source: Source, text: String) -> io::Result<()> {
    let stdout_len = fs::metadata(dir.stdout()).map_or(0, |data| data.len());
    // Starts with a newline, because a full disk may have cut the line before.
    let line = format!("\n{}\n", serde_json::to_string(&RecordedReport { source, stdout_len, text })?);
    // An agent may have put a pipe in its place, which must not block the shim.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::CLOEXEC;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(dir.recorded_reports(), flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(line.as_bytes())
}

/// Keeps the present version of the report file, unless it is torn or equals the last kept one.
pub(crate) fn record_report_file(dir: &AttemptDir) -> io::Result<()> {
    let Ok(Some(bytes)) = read_report(&dir.report()) else { return Ok(()) };
    // A torn version: an agent may write its report in pieces, and close the file after each.
    if serde_json::from_slice::<Map<String, Value>>(&bytes).is_err() {
        return Ok(());
    }
    // Later lines would not be read.
    if fs::metadata(dir.recorded_reports()).is_ok_and(|data| data.len() >= MAX_READ) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let kept = read_recorded(dir);
    let is_last = kept.last().is_some_and(|last| last.source == Source::File && last.text == text);
    let files = kept.iter().filter(|report| report.source == Source::File).count();
    if is_last || files >= MAX_RECORDED_FILES { Ok(()) } else { keep(dir, Source::File, text) }
}

/// Returns the kept reports in the order of time. Lines that were cut are left out.
pub(super) fn read_recorded(dir: &AttemptDir) -> Vec<RecordedReport> {
    let Ok(Some((file, _))) = open_agent_file(&dir.recorded_reports()) else { return Vec::new() };
    let lines = io::BufReader::new(file.take(MAX_READ)).split(b'\n').map_while(Result::ok);
    lines.filter_map(|line| serde_json::from_slice(&line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_line_does_not_damage_the_next_one() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        assert_eq!(read_recorded(&dir), []);
        fs::write(dir.recorded_reports(), "{\"source\": \"fi").unwrap();
        fs::write(dir.stdout(), "said").unwrap();
        keep(&dir, Source::Submitted, "{}\n".to_owned()).unwrap();
        assert_eq!(
            read_recorded(&dir),
            [RecordedReport { source: Source::Submitted, stdout_len: 4, text: "{}\n".to_owned() }]
        );
    }

    #[test]
    fn a_torn_report_file_and_an_unchanged_one_are_not_kept() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        record_report_file(&dir).unwrap();
        for text in ["{", "{}", "{}", "{\"a\": 1}", "{}", "[]"] {
            fs::write(dir.report(), text).unwrap();
            record_report_file(&dir).unwrap();
        }
        let texts: Vec<_> = read_recorded(&dir).into_iter().map(|kept| kept.text).collect();
        assert_eq!(texts, ["{}", "{\"a\": 1}", "{}"]);
        for round in 0..2 * MAX_RECORDED_FILES {
            fs::write(dir.report(), format!("{{\"round\": {round}}}")).unwrap();
            record_report_file(&dir).unwrap();
        }
        assert_eq!(read_recorded(&dir).len(), MAX_RECORDED_FILES);
    }

    #[test]
    fn submitted_reports_leave_room_for_the_report_file() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        for _ in 0..MAX_RECORDED_FILES {
            keep(&dir, Source::Submitted, "{}\n".to_owned()).unwrap();
        }
        fs::write(dir.report(), "{}").unwrap();
        record_report_file(&dir).unwrap();
        assert_eq!(read_recorded(&dir).last().map(|last| last.source), Some(Source::File));
    }

    #[test]
    fn a_pipe_in_place_of_the_kept_reports_blocks_neither_the_shim_nor_the_engine() {
        let root = tempfile::tempdir().unwrap();
        let dir = AttemptDir::at(root.path());
        let path = dir.recorded_reports();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(keep(&dir, Source::File, "{}".to_owned()).is_err());
        assert_eq!(read_recorded(&dir), []);
    }
}
