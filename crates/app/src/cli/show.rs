//! `callboard show RUN`.

use protocol::run::RunStatus;
use protocol::{Outcome, Revision, Stamp, StepId};
use runner::RunAt;
use serde_json::json;

use super::block_on;
use crate::engine::progress;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, RED, YELLOW, styled};
use crate::present::run_status;
use crate::present::run_status::EnginePresence;
use crate::present::{self, Deed, Presentation, StepSummary};
use crate::query::hosts;
use crate::query::last_output::LastOutput;
use crate::query::overview::{EngineStatus, Recovered, RunOverview};
use crate::query::steps::StepActivity;
use crate::query::{RunHandle, entry_text};
use crate::workspace::LocationArgs;

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
  callboard show peer:spec:feature-name:cycle:1
  callboard show f8c1a491 --json | jq '.steps'
  callboard show f8c1a491 --json | jq '.document.steps | map_values(.status)'")]
pub(super) struct Arguments {
    /// The run: its name, a beginning of it, or the id of its cycle
    run: String,

    /// Show it as it was at this revision (`callboard log` lists them)
    #[arg(long, value_name = "REV")]
    at: Option<u64>,

    /// Print status, revision, who does what, and the whole document as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.place, &arguments.run).await?;
        handle.with(Showing { handle: &handle, arguments: &arguments }).await
    })
}

struct Showing<'a> {
    handle: &'a RunHandle,
    arguments: &'a Arguments,
}

impl Deed for Showing<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { handle, arguments } = self;
        let (run_at, overview) = RunOverview::read::<P>(handle, arguments.at.map(Revision)).await?;
        if arguments.json {
            as_json(&run_at, &overview);
        } else {
            in_words(&run_at, &overview, arguments.at.is_some());
        }
        Ok(Exit::Success)
    }
}

fn as_json<P: Presentation>(run_at: &RunAt<P>, overview: &RunOverview) {
    let mut shown = json!({
        "run": run_at.run,
        "protocol": P::NAME,
        "title": run_at.spec.title,
        "status": run_status::shown(run_at.state.run.status, overview.engine.presence()).1,
        "revision": run_at.revision,
        "newest": run_at.newest,
    });
    let mut rest = serde_json::to_value(overview).expect("BUG: what we print is plain data");
    if let (Some(shown), Some(rest)) = (shown.as_object_mut(), rest.as_object_mut()) {
        shown.append(rest);
        shown.append(&mut P::result_fields(&run_at.document));
        shown.insert("document".to_owned(), json!(run_at.document));
    }
    output::json_pretty(&shown);
}

fn in_words<P: Presentation>(run_at: &RunAt<P>, overview: &RunOverview, travels: bool) {
    head(run_at, travels, overview.engine.presence());
    for line in P::about(&run_at.document) {
        output::data(format_args!("  {}", output::single_line(&line)));
    }
    for Recovered { revision, from } in &overview.recovered {
        output::data(format_args!("  {}", styled(YELLOW, format_args!("revision {revision}: {from}"))));
    }
    who_acts(run_at, overview);
    steps(run_at, overview);
    last_error(run_at, overview);
    for gate in &overview.gates {
        output::data(format_args!(
            "iterations: {} has used {} of {}, and sends back to {}",
            gate.step, gate.used, gate.limit, gate.back_to
        ));
    }
    P::result(&run_at.document).iter().for_each(output::data);
    if let Some(view) = P::view(&run_at.document) {
        output::data(styled(DIM, view.path));
    }
}

fn head<P: Presentation>(run_at: &RunAt<P>, travels: bool, engine: EnginePresence) {
    let summary = run_at.summary();
    let (style, word) = run_status::shown(summary.status, engine);
    let when = if travels { format!(" of {}  {}", run_at.newest, run_at.state.at) } else { String::new() };
    output::data(format_args!(
        "{} {}  {}  {}/{} {}  revision {}{when}",
        styled(BOLD, &run_at.run),
        summary.title,
        styled(style, word),
        summary.progress.done,
        summary.progress.total,
        P::STEP.1,
        run_at.revision,
    ));
}

/// Whose move it is.
fn who_acts<P: Presentation>(run_at: &RunAt<P>, overview: &RunOverview) {
    let run = &run_at.run;
    let rests = matches!(run_at.state.run.status, RunStatus::Stopped(_) | RunStatus::Paused);
    if let Some(held) = &overview.halted_by {
        let (_, word) = run_status::word(run_at.state.run.status);
        let reason = held.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let next = if rests { format!("; `callboard resume {run}` goes on with it") } else { String::new() };
        output::advice(format_args!(
            "{word} {} ago by {}{reason}{next}",
            output::duration(overview.at.since(held.at)),
            entry_text::author(&held.by),
        ));
    }
    match &overview.engine {
        EngineStatus::Running { pid, host, since, stopped } => {
            let since = since.map(|since| format!(" for {}", output::duration(overview.at.since(since))));
            let stopped = if *stopped {
                format!(", {}: `kill -CONT {pid}` lets it go on", styled(YELLOW, "stopped"))
            } else {
                String::new()
            };
            output::data(format_args!("engine {pid} on {host}{}{stopped}", since.unwrap_or_default()));
        }
        EngineStatus::Missing if overview.remote.is_empty() => output::advice(format_args!(
            "{}: `callboard resume {run}` goes on with it",
            styled(YELLOW, "no engine")
        )),
        EngineStatus::Missing => {
            for (host, attempts) in &overview.remote {
                let is_to_end = matches!(run_at.state.run.status, RunStatus::Stopping(_));
                let advise = if is_to_end { hosts::advice_to_stop } else { hosts::advice };
                let advice = advise(run, host, attempts);
                output::advice(format_args!("{}: {advice}", styled(YELLOW, "no engine")));
            }
        }
        EngineStatus::Unknown { why } => {
            output::data(format_args!("whether it has an engine cannot be told: {why}"));
        }
        EngineStatus::LastWriter { by } => output::data(entry_text::author(by)),
        EngineStatus::NotNeeded => {
            let failed =
                matches!(run_at.state.run.status, RunStatus::Finished(Outcome::Incomplete | Outcome::Failed));
            if failed && run_at.revision == run_at.newest {
                output::advice(P::after_failure(run, &run_at.document));
            }
        }
    }
}

fn steps<P: Presentation>(run_at: &RunAt<P>, overview: &RunOverview) {
    let steps = progress::step_summaries(run_at);
    let (wide, width) = progress::widths(&steps);
    for (name, shown) in &steps {
        let told = particulars(shown, overview.steps.get(name), overview.at);
        // Told below, with where it comes from.
        let is_last = |error: &str| overview.last_error.as_ref().is_some_and(|last| last.error == error);
        let error = shown.error.as_deref().filter(|error| !is_last(error)).map(output::single_line);
        let told = [Some(told), error].into_iter().flatten().filter(|text| !text.is_empty());
        let (status, told) = (progress::status(shown, wide), told.collect::<Vec<_>>().join("  "));
        output::data(format_args!("  {status} {name:<width$}  {told}").to_string().trim_end());
    }
}

/// What matters of a step in its status.
fn particulars(shown: &StepSummary, doing: Option<&StepActivity>, now: Stamp) -> String {
    let tries = (shown.attempts > 1).then(|| format!("attempt {}", shown.attempts));
    let time = match doing {
        Some(doing) => Some(activity(doing, now)),
        None => shown.took().map(|took| styled(DIM, output::duration(took))),
    };
    let remark = shown.note.as_deref().map(|remark| styled(DIM, output::single_line(remark)));
    [tries, time, remark].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// What a step does, and since when.
fn activity(doing: &StepActivity, now: Stamp) -> String {
    let length = |since: &Stamp| output::duration(now.since(*since));
    match doing {
        StepActivity::Running { since, slow, last_output, host, .. } => {
            let working = styled(DIM, format_args!("for {}{}", length(since), on(host)));
            let slow = slow.as_ref().map(|slow| {
                let millis = |ms| output::duration(std::time::Duration::from_millis(ms));
                let (usual, now) = (millis(slow.baseline_ms), millis(slow.elapsed_ms));
                format!("{}: usual {usual}, now {now}", styled(YELLOW, "longer than usual"))
            });
            let last_output = last_output.as_ref().map(|output| last_output_text(output, now));
            [Some(working), slow, last_output].into_iter().flatten().collect::<Vec<_>>().join("  ")
        }
        StepActivity::Stopping { since, host, .. } => {
            format!("being ended for {}{}", length(since), on(host))
        }
        StepActivity::Ended { .. } => "no agent of it is at work; an engine takes up what is left".to_owned(),
        StepActivity::BackingOff { until, .. } if *until > now => {
            let (length, until) = (output::duration(until.since(now)), to_the_second(*until));
            format!("rests for another {length}, until {until}")
        }
        StepActivity::BackingOff { .. } => "has rested".to_owned(),
        StepActivity::WaitingForSlot { since } => format!("waits for a place (--jobs) for {}", length(since)),
        StepActivity::WaitingForEngine { since } => format!("waits for an engine for {}", length(since)),
        StepActivity::Held { since } => format!("held, ready for {}", length(since)),
        StepActivity::WaitingForLoopBack { since } => format!("waits for the way back for {}", length(since)),
        StepActivity::WaitingForSteps { steps } if steps.is_empty() => String::new(),
        StepActivity::WaitingForSteps { steps } => {
            let names: Vec<_> = steps.iter().map(StepId::as_str).collect();
            styled(DIM, format_args!("waits for {}", names.join(", ")))
        }
    }
}

/// Where, if not here.
fn on(host: &Option<String>) -> String {
    host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default()
}

/// What an agent at work has last written, and when.
fn last_output_text(last_output: &LastOutput, now: Stamp) -> String {
    match last_output {
        LastOutput::Nothing => "no output yet".to_owned(),
        LastOutput::Output { at, line, .. } => {
            let line = line.as_deref().map(|line| format!(": {}", output::single_line(line)));
            format!("last output {} ago{}", output::duration(now.since(*at)), line.unwrap_or_default())
        }
    }
}

/// Finer than that nobody waits.
fn to_the_second(stamp: Stamp) -> String {
    let second = jiff::Timestamp::from_second(stamp.as_micros().div_euclid(1_000_000));
    second.map_or_else(|_| stamp.to_string(), |second| second.to_string())
}

/// A succeeded run's troubles are over.
fn last_error<P: Presentation>(run_at: &RunAt<P>, overview: &RunOverview) {
    let succeeded = run_at.state.run.status == RunStatus::Finished(Outcome::Succeeded);
    let Some(last) = overview.last_error.as_ref().filter(|_| !succeeded) else { return };
    let ago = output::duration(overview.at.since(last.at));
    let step = &last.attempt.step;
    let (definition, state) = (&run_at.spec.definition, &run_at.state.run.state);
    let mended = present::find_step::<P>(definition, step)
        .is_some_and(|step| P::unblocks_dependents(definition, state, &step));
    let (style, since) =
        if mended { (DIM, format!(" ({step} is done since)")) } else { (RED, String::new()) };
    output::data(format_args!(
        "{}: {}, {ago} ago{since}: {}",
        styled(style, "last error"),
        last.attempt,
        output::single_line(&last.error)
    ));
    match (&last.log, &last.host) {
        (Some(log), _) => output::data(format_args!("  {}", styled(DIM, log.display()))),
        (None, Some(host)) => {
            output::data(format_args!("  {}", styled(DIM, format_args!("its logs are on {host}"))));
        }
        (None, None) => output::data(format_args!("  {}", styled(DIM, "its directory is gone"))),
    }
}
