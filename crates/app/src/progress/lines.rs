//! What happened, one line each, for people.

use anstyle::Style;
use protocol::entry::Entry;
use protocol::run::{Change, Exit, Halt, Phase};
use protocol::steps::{Change as Play, Steps};
use protocol::{Outcome, RunId, SeatName};
use runner::Rest;

use super::EngineNews;
use crate::render::{self, CYAN, DIM, GREEN, RED, YELLOW, styled};

/// The lines an entry is worth.
pub(crate) fn of(entry: &Entry<Steps>) -> Vec<String> {
    let evidence = entry.input.evidence();
    let error = evidence.and_then(|evidence| evidence.error.as_deref()).unwrap_or("no reason was given");
    let error = render::harmless(error);
    let took = evidence
        .and_then(|evidence| evidence.duration_ms)
        .map(|ms| styled(DIM, render::duration(std::time::Duration::from_millis(ms))))
        .unwrap_or_default();
    let mut lines = Vec::new();
    for change in &entry.changes {
        match change {
            Change::Began { attempt, .. } => lines.push(format!("{} {attempt} started", styled(CYAN, "▸"))),
            Change::Over { attempt, exit } => lines.push(match exit {
                Exit::Reported if failed(entry, &attempt.seat) => {
                    format!("{} {attempt} failed: its gate failed once too often {took}", styled(RED, "✗"))
                }
                Exit::Reported => format!("{} {attempt} done {took}", styled(GREEN, "✓")),
                Exit::Repeats { .. } => {
                    let wait = entry.timers.first().map_or(0, |timer| timer.length_ms);
                    let wait = render::duration(std::time::Duration::from_millis(wait));
                    format!("{} {attempt} failed, again in {wait}: {error}", styled(YELLOW, "✗"))
                }
                Exit::Drained => format!("{} {attempt} failed: {error}", styled(YELLOW, "✗")),
                Exit::GaveUp => format!("{} {attempt} failed: {error}", styled(RED, "✗")),
                Exit::Interrupted { .. } => {
                    format!("{} {attempt} was interrupted: {error}", styled(YELLOW, "↻"))
                }
                Exit::Halted | Exit::Dismissed => format!("{} {attempt} was stopped", styled(DIM, "■")),
            }),
            Change::Phase { phase: Phase::Halting(halt) } => lines.push(match halt {
                Halt::Interrupted => {
                    "interrupted: ending the agents; press Ctrl-C again to kill them".to_owned()
                }
                Halt::Stopped => "stopped: ending the agents".to_owned(),
            }),
            Change::Phase { phase: Phase::Draining(_) } => {
                lines.push("a step has failed: running steps may finish, nothing more starts".to_owned());
            }
            Change::Phase { phase: Phase::Paused } => lines.push("paused: nothing more starts".to_owned()),
            Change::Play { play } => lines.extend(played(play)),
            Change::Phase { .. }
            | Change::Called { .. }
            | Change::Rested { .. }
            | Change::AskedToEnd { .. }
            | Change::Uncalled { .. } => {}
        }
    }
    lines
}

/// Whether the entry says that the step has failed for good.
fn failed(entry: &Entry<Steps>, step: &SeatName) -> bool {
    entry.changes.iter().any(|change| matches!(change, Change::Play { play: Play::Failed(id) } if id == step))
}

fn played(play: &Play) -> Option<String> {
    match play {
        Play::GateFailed(gate) => Some(format!("{} the gate of {gate} failed", styled(YELLOW, "⟲"))),
        // Of a run that was rebuilt: it is known how often, not by whom and to where.
        Play::Reset { gates, targets, .. } if gates.is_empty() || targets.is_empty() => None,
        Play::Reset { gates, targets, .. } => {
            let names =
                |seats: &[SeatName]| seats.iter().map(SeatName::as_str).collect::<Vec<_>>().join(", ");
            Some(format!("{} back to {}, because of {}", styled(YELLOW, "⟲"), names(targets), names(gates)))
        }
        Play::Skipped(step) => Some(format!("{} {step} is skipped", styled(DIM, "»"))),
        Play::Retried(step) => Some(format!("{} {step} is tried again", styled(CYAN, "↻"))),
        Play::Done(_) | Play::Failed(_) => None,
    }
}

/// How a run rests, in a word.
pub(super) fn rest(rest: Rest) -> (Style, &'static str) {
    match rest {
        Rest::Finished(Outcome::Delivered) => (GREEN, "delivered"),
        Rest::Finished(Outcome::Undelivered) => (RED, "undelivered"),
        Rest::Halted(Halt::Interrupted) => (YELLOW, "interrupted"),
        Rest::Halted(Halt::Stopped) => (YELLOW, "stopped"),
        Rest::Abandoned => (YELLOW, "abandoned"),
    }
}

/// What became of the run's engine, which is another process.
pub(super) fn engine(run: &RunId, engine: EngineNews) -> String {
    let resume = format!("`callboard resume {run}` goes on with it");
    match engine {
        EngineNews::AtWork { pid } => format!("its engine is process {pid}"),
        EngineNews::Missing => format!("{} it has no engine; {resume}", styled(YELLOW, "!")),
        EngineNews::Gone { pid } => {
            format!("{} its engine, process {pid}, has ended; {resume}", styled(YELLOW, "!"))
        }
    }
}

/// What to type when a run has ended undelivered.
pub(crate) fn after_failure(run: &RunId) -> String {
    format!(
        "`callboard retry {run}` tries what failed again, `callboard skip {run} STEP --reason WHY` goes on without it"
    )
}
