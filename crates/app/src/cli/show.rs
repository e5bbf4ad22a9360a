//! `callboard show RUN`.

use protocol::run::Phase;
use protocol::steps::{Status, StepDocument, Steps};
use protocol::{Outcome, Protocol as _, Revision, SeatName, Stamp};
use runner::Moment;
use serde_json::json;

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::here::Place;
use crate::look::heard::Heard;
use crate::look::questions::{Acts, Answers, Recovered};
use crate::look::seats::Doing;
use crate::look::{Sight, words};
use crate::render::{self, BOLD, DIM, RED, YELLOW, styled};
use crate::{phase, progress};

/// Show how a run stands: who works or waits and since when, the last error, iterations used, what takes long
///
/// With --at it shows the same as it was at a revision, with the time of that revision as the present.
///
/// An attempt takes longer than usual when it has taken twice the median of what attempts of the same step took that
/// ended with a report, and at least 5 seconds more. Compared are earlier turns of this run and the 10 newest other
/// runs of the same workflow; with fewer than 3 to compare with nothing is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard show f8c1a491
  callboard show f8c1a491 --at 12
  callboard show f8c1a491 --json | jq '.seats'
  callboard show f8c1a491 --json | jq '.document.steps | map_values(.status)'")]
pub(super) struct Arguments {
    /// The run, or a beginning of its name
    run: String,

    /// Show it as it was at this revision (`callboard log` lists them)
    #[arg(long, value_name = "REV")]
    at: Option<u64>,

    /// Print phase, revision, who does what, and the whole document as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let (moment, answers) = block_on(async {
        let sight = Sight::of(&arguments.place, &arguments.run).await?;
        Answers::about(&sight, arguments.at.map(Revision)).await
    })?;
    if arguments.json {
        let mut shown = json!({
            "run": moment.run,
            "protocol": Steps::NAME,
            "title": moment.frozen.title,
            "phase": phase::name(moment.folded.run.phase),
            "revision": moment.revision,
            "newest": moment.newest,
        });
        let mut rest = serde_json::to_value(&answers).expect("BUG: what we print is plain data");
        if let (Some(shown), Some(rest)) = (shown.as_object_mut(), rest.as_object_mut()) {
            shown.append(rest);
            shown.insert("document".to_owned(), json!(moment.document));
        }
        render::json_pretty(&shown);
        return Ok(Exit::Delivered);
    }
    head(&moment, arguments.at.is_some());
    for Recovered { revision, from } in &answers.recovered {
        render::data(format_args!("  {}", styled(YELLOW, format_args!("revision {revision}: {from}"))));
    }
    who_acts(&moment, &answers);
    steps(&moment, &answers);
    last_error(&moment, &answers);
    for gate in &answers.gates {
        render::data(format_args!(
            "iterations: {} has used {} of {}, and sends back to {}",
            gate.seat, gate.used, gate.limit, gate.back_to
        ));
    }
    if let Some(view) = Steps::view(&moment.document) {
        render::data(styled(DIM, view.path));
    }
    Ok(Exit::Delivered)
}

fn head(moment: &Moment<Steps>, travels: bool) {
    let summary = moment.summary();
    let (style, word) = phase::word(summary.phase);
    let when = if travels { format!(" of {}  {}", moment.newest, moment.folded.at) } else { String::new() };
    render::data(format_args!(
        "{} {}  {}  {}/{} steps  revision {}{when}",
        styled(BOLD, &moment.run),
        summary.title,
        styled(style, word),
        summary.progress.done,
        summary.progress.total,
        moment.revision,
    ));
}

/// Whose move it is.
fn who_acts(moment: &Moment<Steps>, answers: &Answers) {
    let run = &moment.run;
    let rests = matches!(moment.folded.run.phase, Phase::Halted(_) | Phase::Paused);
    if let Some(held) = &answers.held {
        let (_, word) = phase::word(moment.folded.run.phase);
        let reason = held.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let next = if rests { format!("; `callboard resume {run}` goes on with it") } else { String::new() };
        render::data(format_args!(
            "{word} {} ago by {}{reason}{next}",
            render::duration(answers.at.since(held.at)),
            words::who(&held.by),
        ));
    }
    match &answers.acts {
        Acts::AtWork { pid, host, since, stopped } => {
            let since = since.map(|since| format!(" for {}", render::duration(answers.at.since(since))));
            let stopped = if *stopped {
                format!(", {}: `kill -CONT {pid}` lets it go on", styled(YELLOW, "stopped"))
            } else {
                String::new()
            };
            render::data(format_args!("engine {pid} on {host}{}{stopped}", since.unwrap_or_default()));
        }
        Acts::Missing => render::data(format_args!(
            "{}: `callboard resume {run}` goes on with it",
            styled(YELLOW, "no engine")
        )),
        Acts::Unknown { why } => {
            render::data(format_args!("whether it has an engine cannot be told: {why}"));
        }
        Acts::WroteLast { by } => render::data(words::who(by)),
        Acts::NotNeeded => {
            let failed = moment.folded.run.phase == Phase::Finished(Outcome::Undelivered);
            if failed && moment.revision == moment.newest {
                render::data(progress::lines::after_failure(run));
            }
        }
    }
}

fn steps(moment: &Moment<Steps>, answers: &Answers) {
    let width = moment.document.steps.keys().map(String::len).max().unwrap_or(0);
    for (id, step) in &moment.document.steps {
        let doing = SeatName::new(id).ok().and_then(|seat| answers.seats.get(&seat));
        let told = particulars(step, doing, answers.at);
        // Told below, with where it comes from.
        let is_last = |error: &str| answers.last_error.as_ref().is_some_and(|last| last.error == error);
        let error = step.last_error.as_deref().filter(|error| !is_last(error)).map(render::harmless);
        let told = [Some(told), error].into_iter().flatten().filter(|text| !text.is_empty());
        let (status, told) = (progress::status(step.status), told.collect::<Vec<_>>().join("  "));
        render::data(format_args!("  {status} {id:<width$}  {told}").to_string().trim_end());
    }
}

/// What matters of a step in its status.
fn particulars(step: &StepDocument, doing: Option<&Doing>, now: Stamp) -> String {
    let tries = (step.attempts > 1).then(|| format!("try {}", step.attempts));
    let time = match (doing, step.status, step.started_at, step.ended_at) {
        (Some(doing), ..) => Some(activity(doing, now)),
        (None, Status::Completed | Status::Failed, Some(begun), Some(ended)) => {
            Some(styled(DIM, render::duration(ended.since(begun))))
        }
        // The document's own words: by whom, and why.
        (None, Status::Skipped, ..) => step.logs.first().map(|why| {
            let why = why.strip_prefix("Skipped ").unwrap_or(why);
            styled(DIM, render::harmless(why))
        }),
        (None, ..) => None,
    };
    [tries, time].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// What a seat does, and since when.
fn activity(doing: &Doing, now: Stamp) -> String {
    let length = |since: &Stamp| render::duration(now.since(*since));
    match doing {
        Doing::AtWork { since, slow, heard, .. } => {
            let working = styled(DIM, format_args!("for {}", length(since)));
            let slow = slow.as_ref().map(|slow| {
                let millis = |ms| render::duration(std::time::Duration::from_millis(ms));
                let (usual, now) = (millis(slow.usual_ms), millis(slow.now_ms));
                format!("{}: usual {usual}, now {now}", styled(YELLOW, "longer than usual"))
            });
            let heard = heard.as_ref().map(|heard| last_output(heard, now));
            [Some(working), slow, heard].into_iter().flatten().collect::<Vec<_>>().join("  ")
        }
        Doing::Ending { since, .. } => format!("being ended for {}", length(since)),
        Doing::Ended { .. } => "no agent of it is at work; an engine takes up what is left".to_owned(),
        Doing::Resting { until, .. } if *until > now => {
            let (length, until) = (render::duration(until.since(now)), to_the_second(*until));
            format!("rests for another {length}, until {until}")
        }
        Doing::Resting { .. } => "has rested".to_owned(),
        Doing::WaitsForPlace { since } => format!("waits for a place (--jobs) for {}", length(since)),
        Doing::WaitsForEngine { since } => format!("waits for an engine for {}", length(since)),
        Doing::Held { since } => format!("held, ready for {}", length(since)),
        Doing::WaitsForWayBack { since } => format!("waits for the way back for {}", length(since)),
        Doing::WaitsFor { seats } if seats.is_empty() => String::new(),
        Doing::WaitsFor { seats } => {
            let names: Vec<_> = seats.iter().map(SeatName::as_str).collect();
            styled(DIM, format_args!("waits for {}", names.join(", ")))
        }
    }
}

/// What an agent at work has last written, and when.
fn last_output(heard: &Heard, now: Stamp) -> String {
    match heard {
        Heard::Nothing => "no output yet".to_owned(),
        Heard::Output { at, line, .. } => {
            let line = line.as_deref().map(|line| format!(": {}", render::harmless(line)));
            format!("last output {} ago{}", render::duration(now.since(*at)), line.unwrap_or_default())
        }
    }
}

/// Finer than that nobody waits.
fn to_the_second(stamp: Stamp) -> String {
    let second = jiff::Timestamp::from_second(stamp.as_micros().div_euclid(1_000_000));
    second.map_or_else(|_| stamp.to_string(), |second| second.to_string())
}

/// A delivered run's troubles are over.
fn last_error(moment: &Moment<Steps>, answers: &Answers) {
    let delivered = moment.folded.run.phase == Phase::Finished(Outcome::Delivered);
    let Some(last) = answers.last_error.as_ref().filter(|_| !delivered) else { return };
    let ago = render::duration(answers.at.since(last.at));
    let seat = &last.attempt.seat;
    let mended = moment.folded.run.play.done.contains(seat);
    let (style, since) =
        if mended { (DIM, format!(" ({seat} is done since)")) } else { (RED, String::new()) };
    render::data(format_args!(
        "{}: {}, {ago} ago{since}: {}",
        styled(style, "last error"),
        last.attempt,
        render::harmless(&last.error)
    ));
    match &last.log {
        Some(log) => render::data(format_args!("  {}", styled(DIM, log.display()))),
        None => render::data(format_args!("  {}", styled(DIM, "its directory is gone"))),
    }
}
