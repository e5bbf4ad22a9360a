//! What a seat receives: `prompt.md` for reading, `context.json` with the same as data.

use std::fmt::Write as _;

use protocol::brief::{Brief, Finding};
use protocol::report::{self, Expected};
use serde::Serialize;

/// The text of `prompt.md`.
pub(crate) fn prompt(expected: &Expected, brief: &Brief, report_path: &str) -> String {
    let mut text = String::new();
    let Expected { run_id, step_id, agent } = expected;
    writeln!(text, "You are `{agent}`, playing step `{step_id}` of run `{run_id}`.")
        .expect("BUG: a string grows");
    if brief.counted > 1 {
        let error = brief.last_error.as_deref().unwrap_or("no reason was kept");
        writeln!(text, "\nThis is try {} of {}. The one before failed: {error}", brief.counted, brief.of)
            .expect("BUG: a string grows");
    }
    text.push('\n');
    text.push_str(brief.prompt.trim_end());
    text.push('\n');
    for Finding { from, report_path, report } in &brief.findings {
        write!(
            text,
            "\n## Sent back by `{from}` (iteration {})\n\nIts whole report: `{report_path}`\n\n",
            brief.iteration
        )
        .expect("BUG: a string grows");
        for log in &report.logs {
            writeln!(text, "- {log}").expect("BUG: a string grows");
        }
        for artifact in &report.artifacts {
            writeln!(text, "- file `{artifact}`").expect("BUG: a string grows");
        }
    }
    for upstream in &brief.upstream {
        write!(text, "\n## Handed over by `{}`\n\n", upstream.seat).expect("BUG: a string grows");
        for artifact in &upstream.artifacts {
            writeln!(text, "- file `{artifact}`").expect("BUG: a string grows");
        }
        for log in &upstream.logs {
            writeln!(text, "- {log}").expect("BUG: a string grows");
        }
        if upstream.artifacts.is_empty() && upstream.logs.is_empty() {
            text.push_str("Nothing but the word that it is done.\n");
        }
    }
    text.push('\n');
    text.push_str(&report::instructions(expected, report_path));
    text
}

/// The text of `context.json`.
pub(crate) fn context(expected: &Expected, attempt: &str, brief: &Brief, report_path: &str) -> String {
    #[derive(Serialize)]
    struct Context<'a> {
        run_id: &'a str,
        seat: &'a str,
        attempt: &'a str,
        report_path: &'a str,
        #[serde(flatten)]
        brief: &'a Brief,
    }
    let context = Context {
        run_id: expected.run_id.as_str(),
        seat: expected.step_id.as_str(),
        attempt,
        report_path,
        brief,
    };
    let mut text = serde_json::to_string_pretty(&context).expect("BUG: a brief is plain data");
    text.push('\n');
    text
}
