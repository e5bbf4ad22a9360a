//! What happened, one line each, for people.

use anstyle::Style;
use protocol::entry::Entry;
use protocol::run::{Change, Exit, RunStatus, StopCause};
use protocol::{Outcome, RunId};
use runner::EngineExit;

use super::{EngineNews, Heir};
use crate::engine::process::process;
use crate::output::{self, CYAN, DIM, GREEN, RED, YELLOW, styled};
use crate::present::Presentation;

/// The lines an entry is worth.
pub(crate) fn of<P: Presentation>(entry: &Entry<P>) -> Vec<String> {
    let evidence = entry.input.evidence();
    let error = evidence.and_then(|evidence| evidence.error.as_deref()).unwrap_or("no reason was given");
    let error = output::harmless(error);
    let took = evidence
        .and_then(|evidence| evidence.duration_ms)
        .map(|ms| styled(DIM, output::duration(std::time::Duration::from_millis(ms))))
        .unwrap_or_default();
    let mut lines = Vec::new();
    for change in &entry.changes {
        match change {
            Change::Started { attempt, .. } => lines.push(format!("{} {attempt} started", styled(CYAN, "▸"))),
            Change::Ended { attempt, exit } => lines.push(match exit {
                Exit::Reported => match defeat(entry, &attempt.step) {
                    Some(why) => format!("{} {attempt} failed: {why} {took}", styled(RED, "✗")),
                    None => format!("{} {attempt} done {took}", styled(GREEN, "✓")),
                },
                Exit::WillRetry { .. } => {
                    let wait = entry.timers.first().map_or(0, |timer| timer.length_ms);
                    let wait = output::duration(std::time::Duration::from_millis(wait));
                    format!("{} {attempt} failed, again in {wait}: {error}", styled(YELLOW, "✗"))
                }
                Exit::Drained => format!("{} {attempt} failed: {error}", styled(YELLOW, "✗")),
                Exit::Exhausted => format!("{} {attempt} failed: {error}", styled(RED, "✗")),
                Exit::Interrupted { .. } => {
                    format!("{} {attempt} was interrupted: {error}", styled(YELLOW, "↻"))
                }
                Exit::Stopped | Exit::Released => format!("{} {attempt} was stopped", styled(DIM, "■")),
            }),
            Change::Status { status: RunStatus::Stopping(cause) } => lines.push(match cause {
                StopCause::Interrupted => {
                    "interrupted: ending the agents; press Ctrl-C again to kill them".to_owned()
                }
                StopCause::Requested => "stopped: ending the agents".to_owned(),
            }),
            Change::Status { status: RunStatus::Draining(_) } => {
                let (one, many) = P::STEP;
                lines.push(format!("a {one} has failed: running {many} may finish, nothing more starts"));
            }
            Change::Status { status: RunStatus::Paused } => {
                lines.push("paused: nothing more starts".to_owned())
            }
            Change::Protocol { transition } => lines.extend(P::line(transition)),
            Change::Status { .. }
            | Change::Queued { .. }
            | Change::BackoffElapsed { .. }
            | Change::StopRequested { .. }
            | Change::Dequeued { .. } => {}
        }
    }
    lines
}

/// Why the step has failed for good though its report was fit, if the entry says so.
fn defeat<P: Presentation>(entry: &Entry<P>, step: &P::Step) -> Option<&'static str> {
    entry.changes.iter().find_map(|change| match change {
        Change::Protocol { transition } => P::defeat(transition, step),
        Change::Status { .. }
        | Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::Started { .. }
        | Change::StopRequested { .. }
        | Change::Ended { .. }
        | Change::Dequeued { .. } => None,
    })
}

/// How a run rests, in a word.
pub(super) fn rest(rest: EngineExit) -> (Style, &'static str) {
    match rest {
        EngineExit::Finished(Outcome::Succeeded) => (GREEN, "succeeded"),
        EngineExit::Finished(Outcome::Incomplete) => (YELLOW, "incomplete"),
        EngineExit::Finished(Outcome::Failed) => (RED, "failed"),
        EngineExit::Stopped(StopCause::Interrupted | StopCause::Requested) => (YELLOW, "stopped"),
        EngineExit::Remote => (YELLOW, "remote"),
        EngineExit::Abandoned => (YELLOW, "abandoned"),
    }
}

/// What became of the run's engine, which is another process.
pub(super) fn engine(run: &RunId, engine: &EngineNews, heir: Heir) -> String {
    let resume = match heir {
        Heir::Anybody => format!("`callboard resume {run}` goes on with it"),
        Heir::Us => "it is this host's turn".to_owned(),
    };
    match engine {
        EngineNews::AtWork { pid, host } => format!("its engine is {}", process(*pid, host.as_deref())),
        EngineNews::Missing => format!("{} it has no engine; {resume}", styled(YELLOW, "!")),
        EngineNews::Gone { pid, host: None } => {
            format!("{} its engine, process {pid}, has ended; {resume}", styled(YELLOW, "!"))
        }
        EngineNews::Gone { pid, host } => {
            let engine = process(*pid, host.as_deref());
            format!("{} its engine, {engine}, leads no more; {resume}", styled(YELLOW, "!"))
        }
    }
}
