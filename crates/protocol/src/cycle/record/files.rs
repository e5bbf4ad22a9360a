//! Writes the files in `.workflow/.cycle/ID.progress/`: old versions go to `history/`, logs only grow.
//!
//! The JSON of the cycle is the master file beside that directory, `ID.json`.

use std::fmt::Write as _;

use serde_json::json;

use super::Recorder;
use super::sections::Version;
use crate::cycle::document::parts::{file_part, log_part};
use crate::cycle::document::times;
use crate::cycle::layout::{self, Heading};
use crate::cycle::report::CommonFields;
use crate::cycle::step::Role;

impl Recorder<'_> {
    /// Replaces a file. The body that it had in the `previous` version goes to `history/`.
    pub(super) fn write_versioned(&mut self, path: &str, previous: Option<&str>, body: String) {
        let old = self.document.files.insert(path.to_owned(), body);
        self.parts.insert(file_part(path));
        if let (Some(old), Some(previous)) = (old, previous) {
            let old_path = layout::history_path(path, previous);
            self.parts.insert(file_part(&old_path));
            self.document.files.entry(old_path).or_insert(old);
        }
    }

    /// Writes a version of a Markdown file.
    pub(super) fn write_page(
        &mut self,
        path: &str,
        title: &str,
        version: &Version,
        body: &str,
        common: &CommonFields,
    ) {
        let heading = Heading {
            title,
            version: &version.number,
            previous: version.previous.as_deref(),
            iteration: self.document.master_file.current_iteration,
            updated: &self.time,
            summary: common.summary.as_deref().unwrap_or("updated"),
        };
        let body = layout::page(&heading, body);
        self.write_versioned(path, version.previous.as_deref(), body);
    }

    /// Writes a Markdown file whose version is only in its heading, because the master file has no section for it.
    pub(super) fn write_notes(&mut self, path: &str, title: &str, body: &str, common: &CommonFields) {
        // A file that another program wrote may have no version. It goes to `history/`, too.
        let version_of = |old: &String| layout::version_of(old).unwrap_or_else(|| "0.0.0".to_owned());
        let previous = self.document.files.get(path).map(version_of);
        let number = times::next_version(previous.as_deref(), self.document.master_file.current_iteration);
        self.write_page(path, title, &Version { number, previous }, body, common);
    }

    /// Appends to a log.
    pub(super) fn append(&mut self, path: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let iteration = self.document.master_file.current_iteration;
        self.parts.insert(log_part(path, iteration));
        self.document.logs.entry(path.to_owned()).or_default().entry(iteration).or_default().push_str(text);
    }

    /// Appends a new version to the `changes.log` of a role.
    pub(super) fn log_version(&mut self, role: Role, version: &Version, common: &CommonFields) {
        let line = json!({
            "timestamp": self.time,
            "version": version.number,
            "agent": role,
            "action": if version.previous.is_none() { "create" } else { "update" },
            "change": common.summary.as_deref().unwrap_or("updated"),
            "iteration": self.document.master_file.current_iteration,
        });
        self.append(&format!("{role}/changes.log"), &format!("{line}\n"));
    }

    /// Appends an answer to `decisions.log`.
    pub(super) fn log_decision(&mut self, content: &str, source: &str) {
        let line = format!("[{}] {source}: {}\n", self.time, content.replace('\n', " "));
        self.append(layout::DECISIONS, &line);
    }

    /// Marks in `iteration_markers` and in the log of the coding phase, `cd/changes.log`, that the coding of this iteration has
    /// ended.
    pub(super) fn mark_end_of_coding(&mut self) {
        let (iteration, time) = (self.document.master_file.current_iteration, self.time.clone());
        self.append(layout::CHANGES, &layout::marker_line(iteration, &time));
        let changes = self.document.master_file.changes.get_or_insert_default();
        changes.iteration_markers.insert(iteration.to_string(), time);
    }

    /// Appends the iteration to the timeline.
    pub(super) fn append_timeline(&mut self) {
        let state = &self.document.master_file;
        let Some(iteration) = state.iterations.last() else { return };
        let started = &iteration.started_at;
        let mut lines = vec![format!("[{started}] engine: iteration started")];
        let task = state.task_history.first().filter(|_| iteration.number == 1);
        lines.extend(task.or(iteration.extension.as_ref()).map(|text| format!("[{started}] user: {text}")));
        for role in Role::ALL {
            let agent = state.agents.of(role);
            let Some(result) = iteration.agent_results.get(role.as_str()) else { continue };
            let at = agent.completed_at.as_ref().unwrap_or(&self.time);
            let message = agent.last_message.as_deref().unwrap_or("no message");
            lines.push(format!("[{at}] {role}: {}, {message}", result.status));
        }
        let feedback = state.coordination.feedback_log.iter();
        let feedback = feedback.filter(|entry| entry.iteration == Some(iteration.number));
        lines.extend(feedback.map(|entry| {
            format!("[{}] {} → {}: {}", entry.timestamp, entry.source, entry.target, entry.content)
        }));
        lines.extend(iteration.issues_found.iter().map(|issue| format!("open: {issue}")));
        let end = if iteration.resolved { "iteration completed" } else { "iteration ended with open issues" };
        lines.push(format!("[{}] engine: {end}", self.time));
        let heading = if iteration.number == 1 { "# Timeline\n" } else { "" };
        let mut text = format!("{heading}\n## Iteration {}\n\n", iteration.number);
        layout::push_list(&mut text, &lines);
        self.append(layout::TIMELINE, &text);
    }

    /// Writes the final report.
    pub(super) fn write_summary(&mut self) {
        let state = &self.document.master_file;
        let mut text = format!("# {}\n\n", state.title);
        let mut line = |line: String| writeln!(text, "{line}").expect("BUG: a string takes all");
        line(format!("- Cycle: {}", state.cycle_id));
        line(format!("- Started: {}", state.created_at));
        line(format!("- Ended: {}", self.time));
        line(format!("- Iterations: {} of {}", state.current_iteration, state.max_iterations));
        let issues = state.iterations.last().map_or(&[][..], |iteration| &iteration.issues_found);
        line(format!("- Open issues: {}", issues.len()));
        if let Some(results) = &state.test_results {
            // Results without a source were not measured: the agent claims them.
            let source = results.unknown.get("source").and_then(|source| source.as_str()).unwrap_or("claim");
            line(format!("- Tests: {} % of {} pass ({source})", results.pass_rate, results.total_tests));
        }
        if let Some(changes) = &state.changes {
            line(format!("- Changed files: {}", changes.total_files));
        }
        line("\n## Phases\n".to_owned());
        for role in Role::ALL {
            let message =
                state.agents.of(role).last_message.as_deref().unwrap_or("no message").replace('\n', " ");
            line(format!("- {role}: {message}"));
        }
        if !issues.is_empty() {
            line("\n## Open issues\n".to_owned());
            for issue in issues {
                line(format!("- {}", issue.replace('\n', "\n  ")));
            }
        }
        line(format!("\n## To extend it\n\n    callboard extend {} \"MORE REQUIREMENTS\"", state.cycle_id));
        self.document.files.insert(layout::SUMMARY.to_owned(), text);
        self.parts.insert(file_part(layout::SUMMARY));
    }
}
