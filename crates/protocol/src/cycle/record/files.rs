//! The files under `.progress/`: old versions go to `history/`, logs only grow.

use std::fmt::Write as _;

use super::Recorder;
use crate::cycle::document::parts::{file_part, log_part};
use crate::cycle::document::times;
use crate::cycle::layout::{self, Heading};
use crate::cycle::report::Common;
use crate::cycle::step::Role;

impl Recorder<'_> {
    /// Replaces a file. The body that it had in the `previous` version goes to `history/`.
    pub(super) fn write_versioned(&mut self, path: &str, previous: Option<&str>, body: String) {
        let old = self.document.files.insert(path.to_owned(), body);
        self.parts.insert(file_part(path));
        if let (Some(old), Some(previous)) = (old, previous) {
            let kept = layout::history_path(path, previous);
            self.parts.insert(file_part(&kept));
            self.document.files.entry(kept).or_insert(old);
        }
    }

    /// Writes notes in Markdown, which have their version in their heading only.
    pub(super) fn write_notes(&mut self, path: &str, title: &str, body: &str, common: &Common) {
        let old = self.document.files.get(path).and_then(|old| layout::version_of(old));
        let iteration = self.document.state.current_iteration;
        let version = times::next_version(old.as_deref(), iteration);
        let heading = Heading {
            title,
            version: &version,
            previous: old.as_deref(),
            iteration,
            updated: &self.time,
            summary: common.summary.as_deref().unwrap_or("updated"),
        };
        let body = layout::notes(&heading, body);
        self.write_versioned(path, old.as_deref(), body);
    }

    /// Appends to a log.
    pub(super) fn append(&mut self, path: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let iteration = self.document.state.current_iteration;
        self.parts.insert(log_part(path, iteration));
        self.document.logs.entry(path.to_owned()).or_default().entry(iteration).or_default().push_str(text);
    }

    pub(super) fn log_document(&mut self, role: Role, version: &str, is_new: bool, common: &Common) {
        let iteration = self.document.state.current_iteration;
        let action = if is_new { "create" } else { "update" };
        let change = common.summary.as_deref().unwrap_or("updated");
        let line = layout::document_line(role.as_str(), version, action, change, iteration, &self.time);
        self.append(&format!("{role}/changes.log"), &line);
    }

    pub(super) fn log_decision(&mut self, content: &str, source: &str) {
        let line = format!("[{}] {source}: {}\n", self.time, content.replace('\n', " "));
        self.append(layout::DECISIONS, &line);
    }

    pub(super) fn set_outputs(&mut self, role: Role, files: &[&str]) {
        let written = files.iter().filter(|file| {
            self.document.files.contains_key(**file) || self.document.logs.contains_key(**file)
        });
        let outputs: Vec<_> = written.map(|file| (*file).to_owned()).collect();
        self.document.state.agents.of_mut(role).output_files = outputs;
    }

    /// Marks that the code of this iteration is closed.
    pub(super) fn close_code(&mut self) {
        let (iteration, time) = (self.document.state.current_iteration, self.time.clone());
        self.append(layout::CHANGES, &layout::marker_line(iteration, &time));
        let changes = self.document.state.changes.get_or_insert_default();
        changes.iteration_markers.insert(iteration.to_string(), time);
    }

    /// Appends the iteration to the timeline.
    pub(super) fn append_timeline(&mut self) {
        let state = &self.document.state;
        let Some(iteration) = state.iterations.last() else { return };
        let mut text = String::new();
        if iteration.number == 1 {
            text.push_str("# Timeline\n");
        }
        let mut line = |line: String| writeln!(text, "{line}").expect("BUG: a string takes all");
        line(format!("\n## Iteration {}\n", iteration.number));
        line(format!("- [{}] engine: iteration started", iteration.started_at));
        if let Some(extension) = &iteration.extension {
            line(format!("- [{}] user: {}", iteration.started_at, extension.replace('\n', " ")));
        }
        for role in Role::ALL {
            let agent = state.agents.of(role);
            let Some(result) = iteration.agent_results.get(role.as_str()) else { continue };
            let at = agent.completed_at.as_ref().unwrap_or(&self.time);
            let message = agent.last_message.as_deref().unwrap_or("no message").replace('\n', " ");
            line(format!("- [{at}] {role}: {}, {message}", result.status));
        }
        let feedback = state.coordination.feedback_log.iter();
        for entry in feedback.filter(|entry| entry.iteration == Some(iteration.number)) {
            let content = entry.content.replace('\n', " ");
            line(format!("- [{}] {} → {}: {content}", entry.timestamp, entry.source, entry.target));
        }
        for issue in &iteration.issues_found {
            line(format!("- open: {}", issue.replace('\n', " ")));
        }
        let end = if iteration.resolved { "iteration completed" } else { "iteration ended with open issues" };
        line(format!("- [{}] engine: {end}", self.time));
        self.append(layout::TIMELINE, &text);
    }

    /// Writes the final report.
    pub(super) fn write_summary(&mut self) {
        let state = &self.document.state;
        let mut text = format!("# {}\n\n", state.title);
        let mut line = |line: String| writeln!(text, "{line}").expect("BUG: a string takes all");
        line(format!("- Cycle: {}", state.cycle_id));
        line(format!("- Started: {}", state.created_at));
        line(format!("- Ended: {}", self.time));
        line(format!("- Iterations: {} of {}", state.current_iteration, state.max_iterations));
        let issues = state.iterations.last().map_or(&[][..], |iteration| &iteration.issues_found);
        line(format!("- Open issues: {}", issues.len()));
        if let Some(results) = &state.test_results {
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
