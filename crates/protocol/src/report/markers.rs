//! Reports between markers on standard output.

/// The marker before a report.
pub const MARKER_OPEN: &str = "<<<RUN_REPORT_JSON";
/// The marker after a report.
pub const MARKER_CLOSE: &str = "RUN_REPORT_JSON>>>";

/// Returns the complete blocks between markers.
///
/// The opening marker must begin a line and the closing one must end a line, so that an agent can mention them or repeat the
/// instructions. A block that is opened twice begins at the second opening; one that is never closed is ignored.
pub fn between_markers(stdout: &str) -> Vec<&str> {
    let (mut content_start, mut blocks) = (None, Vec::new());
    let mut line_start = 0;
    for line in stdout.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if line.trim_start().starts_with(MARKER_OPEN) {
            content_start = Some(line_start + indent + MARKER_OPEN.len());
        }
        if let (Some(from), true) = (content_start, line.trim_end().ends_with(MARKER_CLOSE)) {
            let to = line_start + line.trim_end().len() - MARKER_CLOSE.len();
            if from <= to {
                blocks.push(stdout[from..to].trim());
                content_start = None;
            }
        }
        line_start += line.len();
    }
    blocks
}
