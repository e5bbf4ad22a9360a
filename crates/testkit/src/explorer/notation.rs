//! How runs, inputs and changes are written in tables and counter-examples.

use protocol::Outcome;
use protocol::run::{
    ActiveTurn, Change, ChangeOf, Ending, Exit, Fact, Request, Run, RunStatus, StopCause, TurnStatus,
};

use super::{Explored, Input, Scene};

/// What the marks of all protocols mean; a protocol adds its own.
pub(super) const LEGEND: &str =
    "○ waits for a place   ▶ plays   ■ was asked to end   z rests before its next attempt
-N after N failed attempts of this turn   ~N after N interruptions   stopped, stopping: stopped; with !: interrupted";

pub(super) fn say_run<P: Explored>(scene: &Scene<P>, run: &Run<P>) -> String {
    let mut text = format!("{:<11}", say_status(run.status));
    for step in P::steps(&scene.definition) {
        let standing = P::say_step(&scene.definition, &run.state, &step);
        let mark = run.active_turns.get(&step).map_or_else(|| standing.mark.to_owned(), say_turn);
        text.push_str(&format!(" {step}{}{mark}", standing.note));
    }
    text
}

fn say_turn(active: &ActiveTurn) -> String {
    let mut mark = match active.status {
        TurnStatus::Queued => "○",
        TurnStatus::BackingOff => "z",
        TurnStatus::Running => "▶",
        TurnStatus::Stopping => "■",
    }
    .to_owned();
    if active.failures > 0 {
        mark.push_str(&format!("-{}", active.failures));
    }
    if active.interruptions > 0 {
        mark.push_str(&format!("~{}", active.interruptions));
    }
    mark
}

pub(super) fn say_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Paused => "paused",
        RunStatus::Stopping(StopCause::Interrupted) => "stopping!",
        RunStatus::Stopping(StopCause::Requested) => "stopping",
        RunStatus::Stopped(StopCause::Interrupted) => "stopped!",
        RunStatus::Stopped(StopCause::Requested) => "stopped",
        RunStatus::Draining(_) => "draining",
        RunStatus::Finishing(_) => "finishing",
        RunStatus::Finished(Outcome::Succeeded) => "SUCCEEDED",
        RunStatus::Finished(Outcome::Incomplete) => "INCOMPLETE",
        RunStatus::Finished(Outcome::Failed) => "FAILED",
    }
}

pub(super) fn say_input<P: Explored>(input: &Input<P>) -> String {
    match input {
        Input::Fact(Fact::BackoffElapsed { attempt }) => format!("{} back-off elapsed", attempt.step),
        Input::Fact(Fact::Ended { attempt, ending }) => {
            let step = &attempt.step;
            match ending {
                Ending::Reported(verdict) => format!("{step} reports {}", P::say_verdict(verdict)),
                Ending::Failed => format!("{step} fails"),
                Ending::Interrupted => format!("{step} is interrupted"),
                Ending::Stopped => format!("{step} is stopped"),
            }
        }
        Input::Deferred => "(due)".to_owned(),
        Input::Slots => "(places)".to_owned(),
        Input::Write(writing) => format!("write: {}", writing.name),
        Input::Ask(request) => match request {
            Request::Pause => "ask: pause".to_owned(),
            Request::Resume => "ask: resume".to_owned(),
            Request::Stop => "ask: stop".to_owned(),
            Request::Interrupt => "ask: interrupt".to_owned(),
            Request::Retry { step: None } => "ask: retry".to_owned(),
            Request::Retry { step: Some(step) } => format!("ask: retry {step}"),
            Request::Skip { step } => format!("ask: skip {step}"),
        },
    }
}

pub(super) fn say_changes<P: Explored>(changes: &[ChangeOf<P>]) -> String {
    if changes.is_empty() {
        return "nothing".to_owned();
    }
    changes.iter().map(say_change::<P>).collect::<Vec<_>>().join(", ")
}

/// Where a write leads, of documents that say so.
pub(super) fn say_written<P: Explored>(was: &P::Document, shown: &P::Document) -> String {
    match P::say_document(shown).filter(|_| was != shown) {
        Some(stands) => format!(" ✎ {stands}"),
        None => String::new(),
    }
}

fn say_change<P: Explored>(change: &ChangeOf<P>) -> String {
    match change {
        Change::Status { status } => say_status(*status).to_owned(),
        Change::Protocol { transition } => P::say_change(transition),
        Change::Queued { step, .. } => format!("call {step}"),
        Change::BackoffElapsed { step } => format!("{step} may go"),
        Change::Started { attempt, counted_attempt } => format!("START {} ({counted_attempt})", attempt.step),
        Change::StopRequested { attempt, .. } => format!("END {}", attempt.step),
        Change::Ended { attempt, exit } => {
            let step = &attempt.step;
            match exit {
                Exit::Reported => format!("{step} leaves"),
                Exit::WillRetry { .. } => format!("{step} rests"),
                Exit::Interrupted { .. } | Exit::Stopped => format!("{step} keeps its turn"),
                Exit::Exhausted => format!("{step} gives up"),
                Exit::Released | Exit::Drained => format!("{step} is dismissed"),
            }
        }
        Change::Dequeued { step } => format!("uncall {step}"),
    }
}
