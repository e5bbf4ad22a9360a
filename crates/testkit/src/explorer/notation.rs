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
    for step in P::steps(&scene.definition) {
        let standing = P::say_standing(&scene.definition, &run.play, &step);
        let mark = run.chairs.get(&step).map_or_else(|| standing.mark.to_owned(), say_chair);
        text.push_str(&format!(" {step}{}{mark}", standing.note));
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
        Input::Fact(Fact::Rested { attempt }) => format!("{} has rested", attempt.step),
        Input::Fact(Fact::Over { attempt, ending }) => {
            let step = &attempt.step;
            match ending {
                Ending::Reported(verdict) => format!("{step} reports {}", P::say_verdict(verdict)),
                Ending::Failed => format!("{step} fails"),
                Ending::Interrupted => format!("{step} is interrupted"),
                Ending::Stopped => format!("{step} is stopped"),
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
        Change::Phase { phase } => say_phase(*phase).to_owned(),
        Change::Play { play } => P::say_change(play),
        Change::Called { step, .. } => format!("call {step}"),
        Change::Rested { step } => format!("{step} may go"),
        Change::Began { attempt, counted } => format!("START {} ({counted})", attempt.step),
        Change::AskedToEnd { attempt, .. } => format!("END {}", attempt.step),
        Change::Over { attempt, exit } => {
            let step = &attempt.step;
            match exit {
                Exit::Reported => format!("{step} leaves"),
                Exit::Repeats { .. } => format!("{step} rests"),
                Exit::Interrupted { .. } | Exit::Halted => format!("{step} keeps its turn"),
                Exit::GaveUp => format!("{step} gives up"),
                Exit::Dismissed | Exit::Drained => format!("{step} is dismissed"),
            }
        }
        Change::Uncalled { step } => format!("uncall {step}"),
    }
}
