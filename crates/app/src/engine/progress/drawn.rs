//! The terminal: a line per running attempt with its time and its last line of output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use protocol::AttemptId;
use protocol::entry::Entry;
use protocol::run::{Change, Run};

use crate::output;
use crate::present::Presentation;

/// How often the lines are drawn again.
const TICK: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Drawn {
    lines: MultiProgress,
    bars: BTreeMap<AttemptId, ProgressBar>,
}

impl Drawn {
    pub(super) fn new() -> Self {
        let lines = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        output::draws(&lines);
        Self { lines, bars: BTreeMap::new() }
    }

    /// Prints a line above the running attempts.
    pub(super) fn say(&self, line: &str) {
        // The terminal is gone; the run goes on without it.
        let _ = self.lines.println(line);
    }

    pub(super) fn clear(&mut self) {
        for bar in self.bars.values() {
            bar.finish_and_clear();
        }
        self.bars.clear();
        let _ = self.lines.clear();
    }

    /// Shows an attempt that has been at work for this long.
    pub(super) fn begin(&mut self, attempt: &AttemptId, length: Duration) {
        if self.bars.contains_key(attempt) {
            return;
        }
        let bar = self.lines.add(ProgressBar::no_length().with_elapsed(length));
        bar.set_prefix(attempt.to_string());
        bar.enable_steady_tick(TICK);
        self.bars.insert(attempt.clone(), bar);
    }

    /// Shows the last line of this file beside the attempt.
    pub(super) fn output(&mut self, attempt: &AttemptId, stdout: PathBuf) {
        self.begin(attempt, Duration::ZERO);
        let Some(bar) = self.bars.get(attempt) else { return };
        let style = ProgressStyle::with_template("  {spinner} {prefix:<24} {elapsed:>5}  {last:.dim}");
        let style = style.expect("BUG: the template is fixed").with_key(
            "last",
            move |_: &_, out: &mut dyn std::fmt::Write| {
                if let Some(line) = runner::last_line(&stdout) {
                    let _ = out.write_str(&line);
                }
            },
        );
        bar.set_style(style);
    }

    /// Follows what an entry says about attempts.
    pub(super) fn follow<P: Presentation>(&mut self, entry: &Entry<P>) {
        for change in &entry.changes {
            match change {
                Change::Started { attempt, .. } => self.begin(&Run::<P>::id(attempt), Duration::ZERO),
                Change::Ended { attempt, .. } => {
                    if let Some(bar) = self.bars.remove(&Run::<P>::id(attempt)) {
                        bar.finish_and_clear();
                        self.lines.remove(&bar);
                    }
                }
                Change::Status { .. }
                | Change::Protocol { .. }
                | Change::Queued { .. }
                | Change::BackoffElapsed { .. }
                | Change::StopRequested { .. }
                | Change::Dequeued { .. } => {}
            }
        }
    }
}
