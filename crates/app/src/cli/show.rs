//! `callboard show RUN`.

use protocol::present::{StatusKind, StepSummary};
use protocol::protocol_trait::StepStatus;
use protocol::run::RunStatus;
use protocol::{Outcome, Revision, StepId, StepKind, Timestamp};
use runner::RunAtRevision;
use serde_json::json;

use super::{block_on, step_status};
use crate::engine::progress;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, RED, YELLOW, styled};
use crate::present::run_status::{self, EnginePresence};
use crate::present::{self, step_table, wording};
use crate::query::attempts::last_output::LastOutput;
use crate::query::gates::Gate;
use crate::query::hosts;
use crate::query::overview::{EngineStatus, Recovered, RunOverview};
use crate::query::steps::StepActivity;
use crate::query::{RunHandle, entry_text};
use crate::workspace::LocationArgs;

/// How many views are listed. The rest is only counted.
const MAX_SHOWN_VIEWS: usize = 10;

/// Show the status of a run and its steps, its engine, the last error and slow attempts
///
/// With --at, everything is shown as it was at that revision, relative to the time of that revision.
///
/// An attempt is marked slow if it has taken at least twice the median of earlier attempts of the same step, and at
/// least 5 seconds more. The earlier attempts are those that ended with a report, in this run and in the 10 newest other runs
/// of the same workflow. With fewer than 3 of them, no attempt is marked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard show f8c1a491
  callboard show f8c1a491 --at 12
  callboard show peer:spec:feature-name:cycle:1
  callboard show f8c1a491 --json | jq '.steps'
  callboard show f8c1a491 --json | jq '.document.steps | map_values(.status)'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// Show the run as it was at this revision (`callboard log` lists them)
    #[arg(long, value_name = "REV")]
    at: Option<u64>,

    /// Print the status, the steps, the engine and the whole document as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.location, &arguments.run).await?;
        let (run_at, overview) = RunOverview::read(&handle, arguments.at.map(Revision)).await?;
        if arguments.json {
            print_json(&run_at, &overview);
        } else {
            print(&run_at, &overview, arguments.at.is_some());
        }
        Ok(Exit::Success)
    })
}

fn print_json(run_at: &RunAtRevision, overview: &RunOverview) {
    let mut shown = json!({
        "run": run_at.run,
        "protocol": run_at.kind().info().name,
        "title": run_at.spec.title,
        "status": run_status::label_with_engine(&run_at.summary(), engine_presence(run_at, overview)).1,
        "revision": run_at.revision,
        "newest": run_at.newest,
    });
    if run_at.summary().is_rehearsal {
        shown["rehearsal"] = true.into();
    }
    let mut overview_fields = serde_json::to_value(overview).expect("BUG: what we print is plain data");
    if let (Some(shown), Some(fields)) = (shown.as_object_mut(), overview_fields.as_object_mut()) {
        shown.append(fields);
        shown.append(&mut run_at.machine().result_fields());
        // Steps that could continue and have not for a while, such as a group of a team without progress.
        let stalled = run_at.machine().stalled(overview.at).into_iter();
        let stalled: Vec<_> = stalled.map(|(step, why)| json!({ "step": step, "why": why })).collect();
        if !stalled.is_empty() {
            shown.insert("stalled".to_owned(), stalled.into());
        }
        shown.insert("document".to_owned(), run_at.machine().document().to_value());
    }
    output::json_pretty(&shown);
}

fn print(run_at: &RunAtRevision, overview: &RunOverview, is_past: bool) {
    print_header(run_at, is_past, engine_presence(run_at, overview));
    for line in run_at.machine().about() {
        output::data(format_args!("  {}", output::single_line(&line)));
    }
    // The entries that an import, a restore or a recovery has written.
    for Recovered { revision, from } in &overview.recovered {
        output::data(format_args!("  {}", styled(YELLOW, format_args!("revision {revision}: {from}"))));
    }
    print_engine(run_at, overview);
    print_steps(run_at, overview);
    for (_, why) in run_at.machine().stalled(overview.at) {
        output::data(format_args!("{} {why}", styled(YELLOW, "!")));
    }
    print_last_error(run_at, overview);
    // The step table of a protocol already shows how often each step ran.
    let is_shown = |gate: &&Gate| gate.used > 0 || run_at.machine().step_table().is_none();
    for gate in overview.gates.iter().filter(is_shown) {
        output::data(format_args!(
            "gate {}: {} of {} iterations used, loops back to {}",
            gate.step, gate.used, gate.limit, gate.back_to
        ));
    }
    run_at.machine().result().iter().map(present::line).for_each(output::data);
    // Why git refused to merge the work into the base branch.
    overview.not_merged.iter().map(|why| present::attention(why)).for_each(output::data);
    let views = run_at.machine().document().views();
    for view in views.iter().take(MAX_SHOWN_VIEWS) {
        output::data(styled(DIM, &view.path));
    }
    if let Some(more) = views.len().checked_sub(MAX_SHOWN_VIEWS).filter(|more| *more > 0) {
        output::data(styled(DIM, format_args!("and {}", output::count(more, "more file", "more files"))));
    }
}

/// Returns whether the run has an engine. Not checked for a past revision, which must not be shown as interrupted only because
/// the run has no engine now.
fn engine_presence(run_at: &RunAtRevision, overview: &RunOverview) -> EnginePresence {
    if run_at.revision == run_at.newest { overview.engine.presence() } else { EnginePresence::NotChecked }
}

fn print_header(run_at: &RunAtRevision, is_past: bool, engine: EnginePresence) {
    let summary = run_at.summary();
    let (style, word) = run_status::label_with_engine(&summary, engine);
    let rehearsal = if summary.is_rehearsal { " (rehearsal)" } else { "" };
    let when = if is_past { format!(" of {}  {}", run_at.newest, run_at.state.at) } else { String::new() };
    output::data(format_args!(
        "{} {}{rehearsal}  {}  {}/{} {}  revision {}{when}",
        styled(BOLD, &run_at.run),
        summary.title,
        styled(style, word),
        summary.progress.done,
        summary.progress.total,
        run_at.kind().info().step_nouns.1,
        run_at.revision,
    ));
}

/// Prints the author of the pause or stop, if there was one, and the engine or how to continue without one.
fn print_engine(run_at: &RunAtRevision, overview: &RunOverview) {
    let run = &run_at.run;
    // What to type next depends on the newest revision.
    let is_newest = run_at.revision == run_at.newest;
    let is_resumable =
        is_newest && matches!(run_at.state.run.status, RunStatus::Stopped(_) | RunStatus::Paused);
    if let Some(stopped_by) = &overview.stopped_by {
        let (_, word) = run_status::label(run_at.state.run.status);
        let reason = stopped_by.reason.as_deref().map(|reason| format!(": {}", output::single_line(reason)));
        let reason = reason.unwrap_or_default();
        let next = if is_resumable {
            format!("; run `callboard resume {run}` to continue it")
        } else {
            String::new()
        };
        output::advice(format_args!(
            "{word} {} ago by {}{reason}{next}",
            output::duration(overview.at.since(stopped_by.at)),
            entry_text::author(&stopped_by.by),
        ));
    }
    match &overview.engine {
        EngineStatus::Running { pid, host, since, suspended } => {
            let since = since.map(|since| format!(" for {}", output::duration(overview.at.since(since))));
            let suspended = if *suspended {
                format!(", {}: run `kill -CONT {pid}` to continue it", styled(YELLOW, "suspended"))
            } else {
                String::new()
            };
            output::data(format_args!("engine {pid} on {host}{}{suspended}", since.unwrap_or_default()));
        }
        EngineStatus::Missing if !is_newest => output::data("no engine yet"),
        EngineStatus::Missing if run_at.state.run.is_waiting() => output::advice(format_args!(
            "{}: answer what `callboard inbox` lists, then run `callboard resume {run}`",
            styled(YELLOW, "no engine")
        )),
        EngineStatus::Missing if overview.remote.is_empty() => output::advice(format_args!(
            "{}: run `callboard resume {run}` to continue it",
            styled(YELLOW, "no engine")
        )),
        EngineStatus::Missing => {
            for (host, attempts) in &overview.remote {
                let is_stopping = matches!(run_at.state.run.status, RunStatus::Stopping(_));
                let advise = if is_stopping { hosts::advice_to_stop } else { hosts::advice };
                let advice = advise(run, host, attempts);
                output::advice(format_args!("{}: {advice}", styled(YELLOW, "no engine")));
            }
        }
        EngineStatus::Unknown { why } => {
            output::data(format_args!("cannot tell whether the run has an engine: {why}"));
        }
        // Of a past revision only the last engine that wrote is known.
        EngineStatus::LastWriter { by } => output::data(entry_text::author(by)),
        EngineStatus::NotNeeded => {
            let has_failed =
                matches!(run_at.state.run.status, RunStatus::Finished(Outcome::Incomplete | Outcome::Failed));
            if has_failed && is_newest {
                output::advice(run_at.machine().failure_hint(run));
            }
        }
    }
}

fn print_steps(run_at: &RunAtRevision, overview: &RunOverview) {
    let mut steps = progress::step_summaries(run_at);
    if let Some(step_table) = run_at.machine().step_table() {
        for line in step_table::lines(&step_table, &steps, Some(overview.at)) {
            output::data(format_args!("  {line}"));
        }
        // Below the table: the steps that are not in it, and those with an activity or an error to show.
        steps.retain(|(name, summary)| {
            let activity = overview.steps.get(name);
            let is_active = !matches!(activity, None | Some(StepActivity::WaitingForSteps { .. }));
            !step_table::has(&step_table, name) || is_active || summary.error.is_some()
        });
        if !steps.is_empty() {
            output::data("");
        }
    }
    let statuses: Vec<_> =
        steps.iter().map(|(name, summary)| status(summary, overview.steps.get(name), overview.at)).collect();
    let status_width = statuses.iter().map(String::len).max().unwrap_or(0);
    let name_width = steps.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or(0);
    for ((name, summary), status) in steps.iter().zip(&statuses) {
        let details = details(summary, overview.steps.get(name), overview.at);
        // The last error is printed below, with its attempt and its log.
        let is_last = |error: &str| overview.last_error.as_ref().is_some_and(|last| last.error == error);
        let error = summary.error.as_deref().filter(|error| !is_last(error)).map(output::single_line);
        let details = [Some(details), error].into_iter().flatten().filter(|text| !text.is_empty());
        let details = details.collect::<Vec<_>>().join("  ");
        let status = styled(present::style(summary.kind.tone()), format_args!("{status:<status_width$}"));
        output::data(format_args!("  {status} {name:<name_width$}  {details}").to_string().trim_end());
    }
}

/// Returns the step's status, followed by the document's own word if that is another one.
fn status(summary: &StepSummary, activity: Option<&StepActivity>, now: Timestamp) -> String {
    let word = match activity {
        Some(StepActivity::BackingOff { until, .. }) if *until > now => "backing off",
        Some(
            StepActivity::BackingOff { .. }
            | StepActivity::WaitingForSlot { .. }
            | StepActivity::WaitingForEngine { .. }
            | StepActivity::WaitingForResume { .. }
            | StepActivity::WaitingForLoopBack { .. },
        ) => "queued",
        Some(StepActivity::WaitingForPerson { .. } | StepActivity::WaitingForConditions { .. }) => {
            StatusKind::Waiting.as_str()
        }
        Some(
            StepActivity::Running { .. }
            | StepActivity::Stopping { .. }
            | StepActivity::Ended { .. }
            | StepActivity::WaitingForSteps { .. },
        )
        | None => summary.kind.as_str(),
    };
    step_status::with_document_status(word, summary)
}

/// Returns the number of attempts, the time and the note of a step.
fn details(summary: &StepSummary, activity: Option<&StepActivity>, now: Timestamp) -> String {
    let attempts = (summary.attempts > 1).then(|| format!("attempt {}", summary.attempts));
    let time = match activity {
        Some(activity) => Some(activity_text(activity, now)),
        None => summary.took().map(|took| styled(DIM, output::duration(took))),
    };
    let note = summary.note.as_deref().map(|note| styled(DIM, output::single_line(note)));
    [attempts, time, note].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// Says what a step is doing or waiting for, and for how long.
fn activity_text(activity: &StepActivity, now: Timestamp) -> String {
    let length = |since: &Timestamp| output::duration(now.since(*since));
    match activity {
        StepActivity::Running { since, kind, slow, last_output, host, .. } => {
            // A step of the kind `Command` runs checks.
            let checks = if *kind == StepKind::Command { "checks " } else { "" };
            let working = styled(DIM, format_args!("{checks}for {}{}", length(since), on_host(host)));
            let slow = slow.as_ref().map(|slow| {
                let millis = |ms| output::duration(std::time::Duration::from_millis(ms));
                let (median, now) = (millis(slow.baseline_ms), millis(slow.elapsed_ms));
                format!("{}: {now} so far, median {median}", styled(YELLOW, "slow"))
            });
            let last_output = last_output.as_ref().map(|output| last_output_text(output, now));
            [Some(working), slow, last_output].into_iter().flatten().collect::<Vec<_>>().join("  ")
        }
        StepActivity::Stopping { since, host, .. } => {
            format!("stopping for {}{}", length(since), on_host(host))
        }
        StepActivity::Ended { .. } => "its agent has ended; an engine has to record the result".to_owned(),
        StepActivity::BackingOff { until, .. } if *until > now => {
            let (length, until) = (output::duration(until.since(now)), to_the_second(*until));
            format!("for another {length}, until {until}")
        }
        StepActivity::BackingOff { .. } => "back-off elapsed".to_owned(),
        StepActivity::WaitingForSlot { since } => format!("waits for a slot (--jobs) for {}", length(since)),
        StepActivity::WaitingForEngine { since } => format!("waits for an engine for {}", length(since)),
        StepActivity::WaitingForResume { since } => format!("held for {}", length(since)),
        StepActivity::WaitingForLoopBack { since } => format!("waits for a loop-back for {}", length(since)),
        StepActivity::WaitingForPerson { since, question, .. } => {
            let question = question.as_deref().map(|question| format!(": {}", output::single_line(question)));
            format!("waits for a person for {}{}", length(since), question.unwrap_or_default())
        }
        StepActivity::WaitingForConditions { since, conditions, question, .. } => {
            let (conditions, length) = (wording::conditions(conditions), length(since));
            format!("waits for {conditions} for {length}: {}", output::single_line(question))
        }
        StepActivity::WaitingForSteps { steps } if steps.is_empty() => String::new(),
        StepActivity::WaitingForSteps { steps } => {
            let names: Vec<_> = steps.iter().map(StepId::as_str).collect();
            styled(DIM, format_args!("waits for {}", names.join(", ")))
        }
    }
}

/// Returns ` on HOST` for an attempt on another host.
fn on_host(host: &Option<String>) -> String {
    host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default()
}

/// Says when a running agent last wrote output, and its last line.
fn last_output_text(last_output: &LastOutput, now: Timestamp) -> String {
    match last_output {
        LastOutput::Nothing => "no output yet".to_owned(),
        LastOutput::Output { at, line, .. } => {
            let line = line.as_deref().map(|line| format!(": {}", output::single_line(line)));
            format!("last output {} ago{}", output::duration(now.since(*at)), line.unwrap_or_default())
        }
    }
}

/// Formats a time without fractions of a second.
fn to_the_second(stamp: Timestamp) -> String {
    let second = jiff::Timestamp::from_second(stamp.as_micros().div_euclid(1_000_000));
    second.map_or_else(|_| stamp.to_string(), |second| second.to_string())
}

/// Prints the last error, unless the run succeeded.
fn print_last_error(run_at: &RunAtRevision, overview: &RunOverview) {
    let succeeded = run_at.state.run.status == RunStatus::Finished(Outcome::Succeeded);
    let Some(last) = overview.last_error.as_ref().filter(|_| !succeeded) else { return };
    let ago = output::duration(overview.at.since(last.at));
    let step = &last.attempt.step;
    let machine = run_at.machine();
    let succeeded_or_skipped = machine.has_step(step) && machine.unblocks_dependents(step);
    let (style, what_followed) = match succeeded_or_skipped {
        true if machine.step_status(step) == StepStatus::Skipped => {
            (DIM, format!(" ({step} was skipped since)"))
        }
        true => (DIM, format!(" ({step} succeeded since)")),
        false => (RED, String::new()),
    };
    output::data(format_args!(
        "{}: {}, {ago} ago{what_followed}: {}",
        styled(style, "last error"),
        wording::attempt(machine.kind(), &last.attempt, last.kind),
        output::single_line(&last.error)
    ));
    match (&last.log, &last.host) {
        (Some(log), _) => output::data(format_args!("  {}", styled(DIM, log.display()))),
        (None, Some(host)) => {
            output::data(format_args!("  {}", styled(DIM, format_args!("its logs are on {host}"))));
        }
        // An effect without checks never had a directory.
        (None, None) if last.kind == StepKind::Effect => {}
        (None, None) => output::data(format_args!("  {}", styled(DIM, "its directory is gone"))),
    }
}

#[cfg(test)]
mod tests;
