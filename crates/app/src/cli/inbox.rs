//! `callboard inbox`.

use std::collections::BTreeSet;

use protocol::brief::Upstream;
use protocol::run::RunStatus;
use protocol::{InboxItemKind, Outcome, Timestamp};
use runner::{RunAtRevision, Summary};
use store::AnyStore;
use supervisor::git::DiffSummary;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, YELLOW, styled};
use crate::query::RunHandle;
use crate::query::inbox::{self, InboxItem};
use crate::workspace::{self, LocationArgs, Workspace};

/// How many log lines of each step are shown.
const LOG_LINES: usize = 10;

/// List what waits for you in all runs, oldest first, with what you need to decide
///
/// Approvals and questions of steps, open questions of reviews, steps without progress, and failed runs. Each item shows what was done, what is
/// asked, and the command to type.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard inbox
  callboard inbox --json | jq -r '.[] | select(.kind == \"approval\") | .id'
  callboard answer f8c1a491/approve#1 approve")]
pub(super) struct Arguments {
    /// Print a JSON array
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let mut items = block_on(async {
        match workspace.existing_store().await? {
            Some(store) => all_items(&workspace, &store).await,
            None => Ok(Vec::new()),
        }
    })?;
    items.sort_by_key(|item| (item.since.is_none(), item.since));
    if arguments.json {
        output::json_pretty(&items);
        return Ok(Exit::Success);
    }
    if items.is_empty() {
        output::note("nothing waits for you");
    }
    let now = workspace.clock.now();
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            output::data("");
        }
        print(item, now);
    }
    Ok(Exit::Success)
}

/// Returns the items of all runs. A run that cannot be read is left out with a note. Of a series, such as the cycles of
/// one spec, only the newest run counts, because it takes over what the earlier ones have left open.
async fn all_items(workspace: &Workspace, store: &AnyStore) -> Result<Vec<InboxItem>, Failure> {
    let rows = store.runs().await?;
    let mut items = Vec::new();
    let mut seen_series = BTreeSet::new();
    for row in rows.iter().rev() {
        let Some(summary) = workspace::summary(row) else { continue };
        let series = workspace.protocols.find(&row.protocol).and_then(|kind| kind.series(&row.run));
        let has_successor =
            series.clone().is_some_and(|series| !seen_series.insert((series, summary.repo_dir.clone())));
        if has_successor || !may_have_items(&summary, series.is_some()) {
            continue;
        }
        let handle = RunHandle { workspace: workspace.clone(), store: store.clone(), run: row.run.clone() };
        match items_of_run(&handle).await {
            Ok(found) => items.extend(found),
            Err(failure) => {
                output::note(format_args!("run `{}` cannot be read: {}", row.run, failure.message));
            }
        }
    }
    Ok(items)
}

/// Whether the run is worth loading. A draining or finishing run asks nothing any more. A run that ended without a failure
/// can have open questions only if it is in a series, whose next run takes the answers.
fn may_have_items(summary: &Summary, is_in_series: bool) -> bool {
    match summary.status {
        RunStatus::Running | RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_) => true,
        RunStatus::Draining(_) | RunStatus::Finishing(_) => false,
        RunStatus::Finished(Outcome::Failed) => true,
        RunStatus::Finished(Outcome::Succeeded | Outcome::Incomplete) => is_in_series,
    }
}

async fn items_of_run(handle: &RunHandle) -> Result<Vec<InboxItem>, Failure> {
    let run_at: RunAtRevision = handle.run_at(None).await?;
    let mut questions: Vec<_> = inbox::questions(&run_at).collect();
    if !questions.is_empty() {
        let history = handle.history(&run_at).await?;
        for item in &mut questions {
            let Some(step) = &item.step else { continue };
            // A step that asks has had no live attempt since it began to ask.
            item.since = history.idle_since.get(step).copied();
            item.changes = inbox::changes(&run_at, step).unwrap_or_else(|error| {
                output::note(format_args!("the changes of run `{}` cannot be shown: {error}", handle.run));
                None
            });
        }
    }
    let mut items = questions;
    items.extend(inbox::stalled(&run_at, handle.workspace.clock.now()));
    items.extend(inbox::of_ended_run(&run_at));
    Ok(items)
}

fn print(item: &InboxItem, now: Timestamp) {
    let ago = item.since.map(|since| format!(", {} ago", output::duration(now.since(since))));
    output::data(format_args!(
        "{}  {}  {}",
        styled(BOLD, &item.id),
        styled(YELLOW, item.kind.word()),
        styled(DIM, format_args!("{}{}", item.title, ago.unwrap_or_default())),
    ));
    // The results of the steps before.
    for Upstream { step, artifacts, logs } in &item.upstream {
        output::data(format_args!("  {step}"));
        artifacts.iter().for_each(|artifact| output::data(format_args!("    file {artifact}")));
        let earlier = logs.len().saturating_sub(LOG_LINES);
        if earlier > 0 {
            let lines = if earlier == 1 { "line" } else { "lines" };
            output::data(styled(DIM, format_args!("    … {earlier} earlier log {lines}")));
        }
        logs[earlier..].iter().for_each(|log| output::data(format_args!("    {}", output::single_line(log))));
    }
    if let Some(DiffSummary { stat, command }) = &item.changes {
        stat.iter().for_each(|line| output::data(format_args!("   {}", output::single_line(line))));
        output::advice(format_args!("  `{command}`"));
    }
    let sign = match item.kind {
        InboxItemKind::FailedRun => " ",
        InboxItemKind::Stalled => "!",
        _ => "?",
    };
    for (number, line) in item.question.trim_end().lines().enumerate() {
        let sign = if number == 0 { sign } else { " " };
        output::data(format_args!("  {} {line}", styled(YELLOW, sign)));
    }
    for command in &item.commands {
        output::advice(format_args!("  `{command}`"));
    }
    if let Some(hint) = &item.hint {
        output::advice(format_args!("  {hint}"));
    }
}
