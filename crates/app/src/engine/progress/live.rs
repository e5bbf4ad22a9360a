//! The live display of a terminal: the table of the run's steps, if its protocol has one, and one line per running attempt,
//! with its time and its last line of output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol::entry::Entry;
use protocol::run::Change;
use protocol::{AttemptId, Machine};

use super::control_echo::ControlEchoGuard;
use crate::output;
use crate::present::step_table;

const REDRAW_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct LiveDisplay {
    lines: MultiProgress,
    bars: BTreeMap<AttemptId, ProgressBar>,
    /// The lines of the table, above the attempts.
    table: Vec<ProgressBar>,
    /// `None` if the display was removed, or this process is in the background or has no terminal.
    echo_guard: Option<ControlEchoGuard>,
}

impl LiveDisplay {
    pub(super) fn new() -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        output::set_live_display(&lines);
        Self { lines, bars: BTreeMap::new(), table: Vec::new(), echo_guard: ControlEchoGuard::new() }
    }

    /// Prints a line above the display.
    pub(super) fn print(&self, line: &str) {
        // The run continues even if the terminal is gone.
        let _ = self.lines.println(line);
    }

    pub(super) fn clear(&mut self) {
        for bar in self.bars.values().chain(&self.table) {
            bar.finish_and_clear();
        }
        self.bars.clear();
        self.table.clear();
        let _ = self.lines.clear();
        self.echo_guard = None;
    }

    /// Adds an attempt that has run for this long.
    pub(super) fn add(&mut self, attempt: &AttemptId, elapsed: Duration) {
        if self.bars.contains_key(attempt) {
            return;
        }
        let bar = self.lines.add(ProgressBar::no_length().with_elapsed(elapsed));
        let style = ProgressStyle::with_template("  {spinner} {prefix:<24} {elapsed:>5}");
        bar.set_style(style.expect("BUG: the progress template is invalid"));
        bar.set_prefix(attempt.to_string());
        bar.enable_steady_tick(REDRAW_INTERVAL);
        self.bars.insert(attempt.clone(), bar);
    }

    /// Shows the steps of the run as a table, if its protocol has one.
    pub(super) fn show_step_table(&mut self, machine: &dyn Machine) {
        let Some(step_table) = machine.step_table() else { return };
        let steps = machine.steps().into_iter().map(|step| (step.clone(), machine.step_summary(&step)));
        let lines = step_table::lines(&step_table, &steps.collect::<Vec<_>>(), None);
        while self.table.len() < lines.len() {
            let style = ProgressStyle::with_template("  {msg}").expect("BUG: the template is invalid");
            let bar = ProgressBar::no_length().with_style(style);
            self.table.push(self.lines.insert(self.table.len(), bar));
        }
        for (bar, line) in self.table.iter().zip(&lines) {
            bar.set_message(output::sanitize(line).into_owned());
        }
        for bar in self.table.drain(lines.len()..) {
            bar.finish_and_clear();
            self.lines.remove(&bar);
        }
    }

    /// Shows the last line of the file `stdout` on the line of the attempt, from now on.
    pub(super) fn show_output(&mut self, attempt: &AttemptId, stdout: PathBuf) {
        self.add(attempt, Duration::ZERO);
        let Some(bar) = self.bars.get(attempt) else { return };
        let style = ProgressStyle::with_template("  {spinner} {prefix:<24} {elapsed:>5}  {last:.dim}");
        let style = style.expect("BUG: the progress template is invalid").with_key(
            "last",
            move |_: &_, out: &mut dyn std::fmt::Write| {
                if let Some(line) = runner::last_line(&stdout) {
                    let _ = out.write_str(&line);
                }
            },
        );
        bar.set_style(style);
    }

    /// Adds the attempts that an entry starts and removes those it ends.
    pub(super) fn apply(&mut self, entry: &Entry) {
        for change in &entry.changes {
            match change {
                Change::Started { attempt, .. } => self.add(attempt, Duration::ZERO),
                Change::Ended { attempt, .. } => {
                    if let Some(bar) = self.bars.remove(attempt) {
                        bar.finish_and_clear();
                        self.lines.remove(&bar);
                    }
                }
                Change::Status { .. }
                | Change::Protocol { .. }
                | Change::Queued { .. }
                | Change::Waiting { .. }
                | Change::Answered { .. }
                | Change::BackoffElapsed { .. }
                | Change::StopRequested { .. }
                | Change::Dequeued { .. } => {}
            }
        }
    }
}
