//! Progress lines for people.

use anstyle::Style;
use protocol::entry::Entry;
use protocol::run::{AttemptConsequence, Change, RunStatus, RunStopCause};
use protocol::{Outcome, ProtocolKind, RunId, StepId};
use runner::EngineExit;

use super::{EngineChange, WatchMode};
use crate::engine::process::process_name;
use crate::output::{self, CYAN, DIM, GREEN, RED, YELLOW, styled};
use crate::present;
use crate::present::wording;

/// Returns the lines of an entry.
pub(crate) fn of(kind: &dyn ProtocolKind, entry: &Entry) -> Vec<String> {
    let (step_noun, steps_noun) = kind.info().step_nouns;
    let evidence = entry.input.evidence();
    let error = evidence.and_then(|evidence| evidence.error.as_deref()).unwrap_or("no reason given");
    let error = output::single_line(error);
    let took = evidence
        .and_then(|evidence| evidence.duration_ms)
        .map(|ms| styled(DIM, output::duration(std::time::Duration::from_millis(ms))))
        .unwrap_or_default();
    let mut lines = Vec::new();
    for change in &entry.changes {
        match change {
            Change::Started { attempt, kind: step_kind, .. } => {
                lines.push(format!(
                    "{} {} started",
                    styled(CYAN, "▸"),
                    wording::attempt(kind, attempt, *step_kind)
                ));
            }
            Change::Ended { attempt, consequence, kind: step_kind } => {
                let name = wording::attempt(kind, attempt, *step_kind);
                lines.push(match consequence {
                    AttemptConsequence::Reported => match failure_reason(kind, entry, &attempt.step) {
                        Some(why) => format!("{} {name} failed: {why} {took}", styled(RED, "✗")),
                        None => format!("{} {name} finished {took}", styled(GREEN, "✓")),
                    },
                    AttemptConsequence::WillRetry { .. } => {
                        let wait = entry.timers.first().map_or(0, |timer| timer.length_ms);
                        let wait = output::duration(std::time::Duration::from_millis(wait));
                        format!("{} {name} failed, retrying in {wait}: {error}", styled(YELLOW, "✗"))
                    }
                    AttemptConsequence::FailedWhileDraining => {
                        format!("{} {name} failed: {error}", styled(YELLOW, "✗"))
                    }
                    // No attempt is left.
                    AttemptConsequence::Exhausted => format!("{} {name} failed: {error}", styled(RED, "✗")),
                    AttemptConsequence::Interrupted { .. } => {
                        format!("{} {name} was interrupted: {error}", styled(YELLOW, "↻"))
                    }
                    AttemptConsequence::Stopped | AttemptConsequence::Released => {
                        format!("{} {name} was stopped", styled(DIM, "■"))
                    }
                });
            }
            Change::Status { status: RunStatus::Stopping(cause) } => lines.push(match cause {
                RunStopCause::EngineInterrupted => {
                    "interrupted: stopping the agents; press Ctrl-C again to kill them".to_owned()
                }
                RunStopCause::Requested => "stop requested: stopping the agents".to_owned(),
            }),
            Change::Status { status: RunStatus::Draining(_) } => {
                lines.push(format!(
                    "a {step_noun} failed: running {steps_noun} may finish, no new {step_noun} starts"
                ));
            }
            Change::Status { status: RunStatus::Paused } => {
                lines.push(format!("paused: no new {step_noun} starts"));
            }
            Change::Protocol { transition } => {
                lines.extend(kind.change_line(transition).as_ref().map(present::line));
            }
            Change::Waiting { step, conditions } => {
                let what = match conditions.as_slice() {
                    [] => "a person".to_owned(),
                    names => wording::conditions(names),
                };
                lines.push(format!("{} {step} waits for {what}", styled(YELLOW, "?")));
            }
            Change::Answered { step, conditions } => {
                let what = match (conditions.as_slice(), wording::fulfilled_conditions(entry)) {
                    ([], _) => "was answered".to_owned(),
                    (_, Some(names)) => format!("may start: {}", wording::conditions_hold(names)),
                    (names, None) => format!("no longer waits for {}", wording::conditions(names)),
                };
                lines.push(format!("{} {step} {what}", styled(GREEN, "✓")));
            }
            Change::Status { .. }
            | Change::Queued { .. }
            | Change::BackoffElapsed { .. }
            | Change::StopRequested { .. }
            | Change::Dequeued { .. } => {}
        }
    }
    lines
}

/// Returns the reason if the entry fails the step although the report of its agent was valid.
fn failure_reason(kind: &dyn ProtocolKind, entry: &Entry, step: &StepId) -> Option<&'static str> {
    entry.changes.iter().find_map(|change| match change {
        Change::Protocol { transition } => kind.failure_reason(transition, step),
        Change::Status { .. }
        | Change::Queued { .. }
        | Change::BackoffElapsed { .. }
        | Change::Started { .. }
        | Change::StopRequested { .. }
        | Change::Ended { .. }
        | Change::Waiting { .. }
        | Change::Answered { .. }
        | Change::Dequeued { .. } => None,
    })
}

/// Returns the word for the result of a run.
pub(super) fn outcome(exit: EngineExit) -> (Style, &'static str) {
    match exit {
        EngineExit::Finished(Outcome::Succeeded) => (GREEN, "succeeded"),
        EngineExit::Finished(Outcome::Incomplete) => (YELLOW, "incomplete"),
        EngineExit::Finished(Outcome::Failed) => (RED, "failed"),
        EngineExit::Stopped(RunStopCause::EngineInterrupted | RunStopCause::Requested) => (YELLOW, "stopped"),
        EngineExit::Waiting => (YELLOW, "waiting"),
        // All live attempts are on other hosts.
        EngineExit::Remote => (YELLOW, "remote"),
        // The user interrupted the engine three times, and it left its agents running.
        EngineExit::AttemptsLeftAlive => (YELLOW, "abandoned"),
    }
}

/// Describes the engine of a run, which is another process.
pub(super) fn engine(run: &RunId, engine: &EngineChange, mode: WatchMode) -> String {
    let next = match mode {
        WatchMode::Observe => format!("run `callboard resume {run}` to continue"),
        WatchMode::TakeOver => "continuing here".to_owned(),
    };
    match engine {
        EngineChange::Running { pid, host } => {
            format!("its engine is {}", process_name(*pid, host.as_deref()))
        }
        EngineChange::Missing => format!("{} it has no engine; {next}", styled(YELLOW, "!")),
        EngineChange::Gone { pid, host: None } => {
            format!("{} its engine, process {pid}, has exited; {next}", styled(YELLOW, "!"))
        }
        EngineChange::Gone { pid, host } => {
            let engine = process_name(*pid, host.as_deref());
            format!("{} its engine, {engine}, has lost its lease; {next}", styled(YELLOW, "!"))
        }
    }
}
