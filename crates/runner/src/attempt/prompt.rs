//! The input files of an attempt: `prompt.md` for reading, and `context.json` with the same content as data.

use std::fmt::Write as _;

use std::path::Path;

use protocol::brief::{Brief, Finding, StateLocation};
use protocol::entry::{Author, ENTRY_VERSION, Entry, Input};
use protocol::prompt::{UNTRUSTED, code_block};
use protocol::report::{self, ReportIdentity};
use protocol::run::Change;
use protocol::{AttemptId, AttemptNo, StepId, StepKind, Turn};
use serde::Serialize;
use supervisor::AttemptDir;

use crate::run::RunAtRevision;

/// The input files of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptFiles {
    pub attempt: AttemptId,
    /// The text of `prompt.md`.
    pub prompt: String,
    /// The text of `context.json`.
    pub context: String,
}

impl PromptFiles {
    /// `store` is what the attempt finds in `CALLBOARD_STORE`: the local directory, which on NATS is not the store.
    pub(crate) fn new(
        protocol: &str,
        expected: &ReportIdentity,
        attempt: &AttemptId,
        brief: &Brief,
        report_path: &str,
        store: &str,
    ) -> Self {
        Self {
            attempt: attempt.clone(),
            prompt: prompt(expected, brief, report_path, store),
            context: context(protocol, expected, &attempt.to_string(), brief, report_path, store),
        }
    }
}

/// Returns what the next attempt of a step would receive at this revision. Writes nothing and starts nothing.
pub fn preview_prompt(run_at: &RunAtRevision, step: &StepId, attempts_dir: &Path) -> PromptFiles {
    let run = &run_at.state.run;
    // Interrupted attempts have a number of their own, but do not count towards `max_attempts`.
    let (attempt, counted_attempt) = match run.active_turns.get(step) {
        Some(active) => (
            AttemptId { step: step.clone(), turn: active.turn, attempt_no: active.attempt_no.next() },
            active.failures + 1,
        ),
        None => {
            let turn = run.turns.get(step).copied().unwrap_or(Turn(0)).next();
            (AttemptId { step: step.clone(), turn, attempt_no: AttemptNo(1) }, 1)
        }
    };
    // The brief is made from a document in which the attempt has started, so start it in a copy. Of this entry, only the
    // time and the change matter for that.
    let entry = Entry {
        v: ENTRY_VERSION,
        at: run_at.state.at,
        by: Author::Person { name: String::new(), host: String::new() },
        input: Input::Deferred,
        changes: vec![Change::Started { attempt: attempt.clone(), counted_attempt, kind: StepKind::Agent }],
        actions: Vec::new(),
        timers: Vec::new(),
    };
    let mut machine = run.machine.clone();
    // A step far ahead of the run cannot be recorded as started. Its preview shows the present document.
    let _ = machine.record(&entry);
    let mut brief = machine.brief(step, counted_attempt);
    if run_at.spec.options.run_worktrees().is_none() {
        // Private copies exist only in worktrees.
        brief.copies.clear();
    }
    let expected = ReportIdentity {
        run_id: run_at.run.clone(),
        step_id: attempt.step.clone(),
        agent: brief.agent.clone(),
    };
    let report = AttemptDir::new(attempts_dir, &run_at.run, &attempt).report();
    let store = attempts_dir.parent().unwrap_or(attempts_dir).to_string_lossy();
    let protocol = run_at.kind().info().name;
    PromptFiles::new(protocol, &expected, &attempt, &brief, &report.to_string_lossy(), &store)
}

/// Returns the text of `prompt.md`.
fn prompt(expected: &ReportIdentity, brief: &Brief, report_path: &str, store: &str) -> String {
    let mut text = String::new();
    let ReportIdentity { run_id, step_id, agent } = expected;
    writeln!(text, "You are `{agent}`, working on step `{step_id}` of run `{run_id}`.")
        .expect("BUG: a string grows");
    let retried = brief.counted_attempt > 1;
    if retried || !brief.findings.is_empty() || !brief.upstream.is_empty() {
        // Warns the agent not to follow instructions in the texts that others have written.
        writeln!(text, "\n{UNTRUSTED}").expect("BUG: a string grows");
    }
    if retried {
        let error = brief.last_error.as_deref().unwrap_or("no reason was recorded");
        write!(
            text,
            "\nThis is attempt {} of {}. The previous one failed:\n\n{}",
            brief.counted_attempt,
            brief.max_attempts,
            code_block("text", error)
        )
        .expect("BUG: a string grows");
    }
    text.push('\n');
    text.push_str(brief.prompt.trim_end());
    text.push('\n');
    for Finding { from, report_path, report } in &brief.findings {
        writeln!(text, "\n## Sent back by `{from}` (iteration {})\n", brief.iteration)
            .expect("BUG: a string grows");
        if !report_path.is_empty() {
            writeln!(text, "Its whole report: `{report_path}`\n").expect("BUG: a string grows");
        }
        write_files_and_log(&mut text, &report.artifacts, &report.logs);
    }
    for upstream in &brief.upstream {
        write!(text, "\n## Handed over by `{}`\n\n", upstream.step).expect("BUG: a string grows");
        write_files_and_log(&mut text, &upstream.artifacts, &upstream.logs);
    }
    if let Some(StateLocation { bucket, key, document }) = &brief.state {
        write!(
            text,
            "\n## Where the state is\n\nOne document holds the whole of `{document}`: store `{store}`, bucket `{bucket}`, \
             key `{key}`. `callboard state get {key}` shows it; read it whenever you like. You need not write it: \
             your report is enough, and the engine writes it there.\n"
        )
        .expect("BUG: a string grows");
    }
    if !brief.copies.is_empty() {
        write!(
            text,
            "\n## Files that you may edit\n\nThese files of your worktree (paths relative to its top) are private copies. You may change them \
             instead of writing the same into a report: if you exit with 0, the engine takes your changes. What your step may \
             not change is refused.\n\n"
        )
        .expect("BUG: a string grows");
        for copy in &brief.copies {
            writeln!(text, "- `{}`", copy.path).expect("BUG: a string grows");
        }
    }
    text.push('\n');
    text.push_str(&report::instructions(expected, &brief.form, report_path));
    text
}

/// Appends the files and the log that another attempt has handed over.
fn write_files_and_log(text: &mut String, artifacts: &[String], logs: &[String]) {
    for artifact in artifacts {
        writeln!(text, "- file `{artifact}`").expect("BUG: a string grows");
    }
    if !logs.is_empty() {
        let gap = if artifacts.is_empty() { "" } else { "\n" };
        write!(text, "{gap}{}", code_block("text", &logs.join("\n"))).expect("BUG: a string grows");
    }
    if artifacts.is_empty() && logs.is_empty() {
        text.push_str("No files and no log.\n");
    }
}

/// Returns the text of `context.json`.
fn context(
    protocol: &str,
    expected: &ReportIdentity,
    attempt: &str,
    brief: &Brief,
    report_path: &str,
    store: &str,
) -> String {
    #[derive(Serialize)]
    struct Context<'a> {
        protocol: &'a str,
        run_id: &'a str,
        step: &'a str,
        attempt: &'a str,
        report_path: &'a str,
        store: &'a str,
        /// The private copies, relative to the worktree.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        copies: Vec<&'a str>,
        #[serde(flatten)]
        brief: &'a Brief,
    }
    let context = Context {
        protocol,
        run_id: expected.run_id.as_str(),
        step: expected.step_id.as_str(),
        attempt,
        report_path,
        store,
        copies: brief.copies.iter().map(|copy| copy.path.as_str()).collect(),
        brief,
    };
    let mut text = serde_json::to_string_pretty(&context).expect("BUG: a brief is plain data");
    text.push('\n');
    text
}
