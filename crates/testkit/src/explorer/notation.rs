//! How runs, inputs and changes are written in tables and counter-examples.

use protocol::Outcome;
use protocol::run::{Chair, Change, ChangeOf, Ending, Exit, Fact, Halt, Phase, Posture, Request, Run};

use super::{Explored, Input, Scene};

/// What the marks of all protocols mean; a protocol adds its own.
pub(super) const LEGEND: &str =
    "○ waits for a place   ▶ plays   ■ was asked to end   z rests before its next try
-N after N failed tries of this turn   ~N after N interruptions   halted, halting: stopped; with !: interrupted";

pub(super) fn say_run<P: Explored>(scene: &Scene<P>, run: &Run<P>) -> String {
    let mut text = format!("{:<11}", say_phase(run.phase));
    for seat in P::seats(&scene.definition) {
        let standing = P::say_standing(&scene.definition, &run.play, &seat);
        let mark = run.chairs.get(&seat).map_or_else(|| standing.mark.to_owned(), say_chair);
        text.push_str(&format!(" {seat}{}{mark}", standing.note));
    }
    text
}

fn say_chair(chair: &Chair) -> String {
    let mut mark = match chair.posture {
        Posture::Called => "○",
        Posture::Resting => "z",
        Posture::Playing => "▶",
        Posture::Ending => "■",
    }
    .to_owned();
    if chair.failures > 0 {
        mark.push_str(&format!("-{}", chair.failures));
    }
    if chair.interruptions > 0 {
        mark.push_str(&format!("~{}", chair.interruptions));
    }
    mark
}

pub(super) fn say_phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Open => "open",
        Phase::Paused => "paused",
        Phase::Halting(Halt::Interrupted) => "halting!",
        Phase::Halting(Halt::Stopped) => "halting",
        Phase::Halted(Halt::Interrupted) => "halted!",
        Phase::Halted(Halt::Stopped) => "halted",
        Phase::Draining(_) => "draining",
        Phase::Closing(_) => "closing",
        Phase::Finished(Outcome::Delivered) => "DELIVERED",
        Phase::Finished(Outcome::Undelivered) => "UNDELIVERED",
    }
}

pub(super) fn say_input<P: Explored>(input: &Input<P>) -> String {
    match input {
        Input::Fact(Fact::Rested { attempt }) => format!("{} has rested", attempt.seat),
        Input::Fact(Fact::Over { attempt, ending }) => {
            let seat = &attempt.seat;
            match ending {
                Ending::Reported(verdict) => format!("{seat} reports {}", P::say_verdict(verdict)),
                Ending::Failed => format!("{seat} fails"),
                Ending::Interrupted => format!("{seat} is interrupted"),
                Ending::Stopped => format!("{seat} is stopped"),
            }
        }
        Input::Due => "(due)".to_owned(),
        Input::Places => "(places)".to_owned(),
        Input::Write(writing) => format!("write: {}", writing.name),
        Input::Ask(request) => match request {
            Request::Pause => "ask: pause".to_owned(),
            Request::Resume => "ask: resume".to_owned(),
            Request::Stop => "ask: stop".to_owned(),
            Request::Interrupt => "ask: interrupt".to_owned(),
            Request::Retry { seat: None } => "ask: retry".to_owned(),
            Request::Retry { seat: Some(seat) } => format!("ask: retry {seat}"),
            Request::Skip { seat } => format!("ask: skip {seat}"),
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
        Change::Phase { phase } => say_phase(*phase).to_owned(),
        Change::Play { play } => P::say_change(play),
        Change::Called { seat, .. } => format!("call {seat}"),
        Change::Rested { seat } => format!("{seat} may go"),
        Change::Began { attempt, counted } => format!("START {} ({counted})", attempt.seat),
        Change::AskedToEnd { attempt, .. } => format!("END {}", attempt.seat),
        Change::Over { attempt, exit } => {
            let seat = &attempt.seat;
            match exit {
                Exit::Reported => format!("{seat} leaves"),
                Exit::Repeats { .. } => format!("{seat} rests"),
                Exit::Interrupted { .. } | Exit::Halted => format!("{seat} keeps its turn"),
                Exit::GaveUp => format!("{seat} gives up"),
                Exit::Dismissed | Exit::Drained => format!("{seat} is dismissed"),
            }
        }
        Change::Uncalled { seat } => format!("uncall {seat}"),
    }
}
