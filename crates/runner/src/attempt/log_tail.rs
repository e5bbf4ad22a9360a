//! The last lines of an attempt's log.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// How many bytes at the end of a log are read. Of a longer line, the beginning is missing.
const TAIL_BYTES: u64 = 16 * 1024;
/// The length at which a line is cut, in characters.
const MAX_LINE_CHARS: usize = 300;

/// Returns the last line of a log that is not blank.
pub fn last_line(path: &Path) -> Option<String> {
    last_lines(path, 1).pop()
}

/// Returns the last lines that are not blank, oldest first, without control characters.
pub fn last_lines(path: &Path, lines: usize) -> Vec<String> {
    // Opened without blocking: the agent may have replaced the log by a pipe.
    let Ok(Some((mut file, length))) = supervisor::report::open_agent_file(path) else { return Vec::new() };
    let mut bytes = Vec::new();
    let read = file
        .seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))
        .and_then(|_| file.take(TAIL_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut last: Vec<_> = text
        .lines()
        .rev()
        .map(|line| line.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect::<String>())
        .map(|line| line.trim().to_owned())
        .filter(|line| !line.is_empty())
        .take(lines)
        .collect();
    last.reverse();
    last
}
