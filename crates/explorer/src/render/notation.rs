//! The notation of runs, inputs and changes in tables and counter-examples.

use protocol::Outcome;
use protocol::run::{
    ActiveTurn, AttemptConsequence, Change, Ending, Fact, Request, Run, RunStatus, RunStopCause, TurnStatus,
};

use crate::{Explored, Input, from_json, typed};

/// The meaning of the symbols in tables of every protocol. The `LEGEND` of each protocol has the others.
pub(super) const LEGEND: &str = "○ queued   ▶ running   ■ stopping   z backing off
-N after N failed attempts of this turn   ~N after N interruptions   stopping!, stopped!: the engine was interrupted";

pub(crate) fn describe_run<P: Explored>(run: &Run) -> String {
    let machine = typed::<P>(run);
    let mut text = format!("{:<11}", describe_status(run.status));
    for step in P::steps(&machine.definition, &machine.state) {
        let notation = P::describe_step(&machine.definition, &machine.state, &step);
        let active = run.active_turns.get(&P::step_id(&step));
        let symbol = active.map_or_else(|| notation.symbol.to_owned(), describe_turn);
        text.push_str(&format!(" {step}{}{symbol}", notation.note));
    }
    text
}

fn describe_turn(active: &ActiveTurn) -> String {
    let mut symbol = match active.status {
        TurnStatus::Queued => "○",
        TurnStatus::BackingOff => "z",
        TurnStatus::Waiting => "?",
        TurnStatus::Running => "▶",
        TurnStatus::Stopping => "■",
    }
    .to_owned();
    if active.failures > 0 {
        symbol.push_str(&format!("-{}", active.failures));
    }
    if active.interruptions > 0 {
        symbol.push_str(&format!("~{}", active.interruptions));
    }
    symbol
}

pub(crate) fn describe_status(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Paused => "paused",
        RunStatus::Stopping(RunStopCause::EngineInterrupted) => "stopping!",
        RunStatus::Stopping(RunStopCause::Requested) => "stopping",
        RunStatus::Stopped(RunStopCause::EngineInterrupted) => "stopped!",
        RunStatus::Stopped(RunStopCause::Requested) => "stopped",
        RunStatus::Draining(_) => "draining",
        RunStatus::Finishing(_) => "finishing",
        RunStatus::Finished(Outcome::Succeeded) => "SUCCEEDED",
        RunStatus::Finished(Outcome::Incomplete) => "INCOMPLETE",
        RunStatus::Finished(Outcome::Failed) => "FAILED",
    }
}

pub(crate) fn describe_input<P: Explored>(input: &Input) -> String {
    match input {
        Input::Fact(Fact::BackoffElapsed { attempt }) => format!("{} back-off elapsed", attempt.step),
        Input::Fact(Fact::Ended { attempt, ending }) => {
            let step = &attempt.step;
            match ending {
                Ending::Reported(verdict) => {
                    format!("{step} reports {}", P::describe_verdict(&from_json(verdict)))
                }
                Ending::Failed => format!("{step} fails"),
                Ending::Interrupted => format!("{step} is interrupted"),
                Ending::Stopped => format!("{step} is stopped"),
            }
        }
        Input::Fact(Fact::Answered { step, verdict, .. }) => {
            format!("{step} is answered {}", P::describe_verdict(&from_json(verdict)))
        }
        Input::Deferred => "(deferred)".to_owned(),
        Input::StartQueued => "(slots)".to_owned(),
        Input::Write(writing) => format!("write: {}", writing.name),
        Input::Request(request) => match request {
            Request::Pause => "request: pause".to_owned(),
            Request::Resume => "request: resume".to_owned(),
            Request::Stop => "request: stop".to_owned(),
            Request::Interrupt => "request: interrupt".to_owned(),
            Request::Retry { step: None } => "request: retry".to_owned(),
            Request::Retry { step: Some(step) } => format!("request: retry {step}"),
            Request::Skip { step } => format!("request: skip {step}"),
            Request::Protocol(request) => format!("request: {}", P::request_text(&from_json(request))),
        },
    }
}

pub(crate) fn describe_changes<P: Explored>(changes: &[Change<P::Change>]) -> String {
    if changes.is_empty() {
        return "nothing".to_owned();
    }
    changes.iter().map(describe_change::<P>).collect::<Vec<_>>().join(", ")
}

/// Returns the new status of a document, if the document has changed.
pub(crate) fn describe_document_change<P: Explored>(before: &Run, after: &Run) -> String {
    let (was, shown) = (&typed::<P>(before).document, &typed::<P>(after).document);
    match P::describe_document(shown).filter(|_| was != shown) {
        Some(document_status) => format!(" ✎ {document_status}"),
        None => String::new(),
    }
}

fn describe_change<P: Explored>(change: &Change<P::Change>) -> String {
    match change {
        Change::Status { status } => describe_status(*status).to_owned(),
        Change::Protocol { transition } => P::describe_change(transition),
        Change::Queued { step, .. } => format!("queue {step}"),
        Change::Waiting { step, .. } => format!("ASK {step}"),
        Change::Answered { step, .. } => format!("{step} is answered"),
        Change::BackoffElapsed { step } => format!("requeue {step}"),
        Change::Started { attempt, counted_attempt, .. } => {
            format!("START {} ({counted_attempt})", attempt.step)
        }
        Change::StopRequested { attempt, .. } => format!("STOP {}", attempt.step),
        Change::Ended { attempt, consequence, .. } => {
            let step = &attempt.step;
            match consequence {
                AttemptConsequence::Reported => format!("{step} ends"),
                AttemptConsequence::WillRetry { .. } => format!("{step} backs off"),
                AttemptConsequence::Interrupted { .. } | AttemptConsequence::Stopped => {
                    format!("{step} keeps its turn")
                }
                AttemptConsequence::Exhausted => format!("{step} is exhausted"),
                AttemptConsequence::Released | AttemptConsequence::FailedWhileDraining => {
                    format!("{step} is released")
                }
            }
        }
        Change::Dequeued { step } => format!("dequeue {step}"),
    }
}
