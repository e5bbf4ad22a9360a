//! `callboard ls`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use protocol::run::RunStatus;
use protocol::steps::Steps;
use protocol::steps::load::parse_duration;
use protocol::{Progress, Protocol as _, RunLocation, Timestamp};
use runner::Summary;
use serde::Serialize;
use store::{AnyStore, RunListing};

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output::location_flags;
use crate::output::{self, BOLD, DIM, styled};
use crate::present::run_status::{self, EnginePresence};
use crate::workspace::{self, LocationArgs, Workspace};

/// List the runs of this repository, newest last
///
/// A run is listed if it matches all filters. --limit keeps the last runs of the sorted list, before --reverse.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard ls --unfinished
  callboard ls --status failed --since 3d
  callboard ls --workflow release --sort updated --limit 5
  callboard ls --protocol peer
  callboard ls --json | jq -r '.[] | select(.running > 0) | .run'")]
pub(super) struct Arguments {
    /// Only runs with this status (repeatable)
    #[arg(long, value_name = "STATUS", value_parser = clap::builder::PossibleValuesParser::new(run_status::WORDS))]
    status: Vec<String>,

    /// Only runs that are not finished
    #[arg(long)]
    unfinished: bool,

    /// Only runs of this protocol
    #[arg(long, value_name = "NAME", value_parser = clap::builder::PossibleValuesParser::new(crate::program().protocols.names()))]
    protocol: Option<String>,

    /// Only runs of workflows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    workflow: Option<String>,

    /// Only runs that changed since then: 90m, 12h, 3d, 2026-11-15, 2026-11-15T14:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = parse_since)]
    since: Option<Since>,

    /// The sort order
    #[arg(long, value_name = "BY", default_value = "created")]
    sort: Sort,

    /// Reverse the order
    #[arg(long)]
    reverse: bool,

    /// List at most N runs
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// Print a JSON array
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    Created,
    Updated,
    Name,
    Workflow,
    Status,
    Progress,
}

#[derive(Debug, Clone, Copy)]
enum Since {
    Ago(Duration),
    At(Timestamp),
}

fn parse_since(text: &str) -> Result<Since, String> {
    const DAY: u64 = 24 * 60 * 60;
    if let Some(days) = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()) {
        return Ok(Since::Ago(Duration::from_secs(days.saturating_mul(DAY))));
    }
    let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
    if let Ok(length) = parse_duration(text) {
        Ok(Since::Ago(length))
    } else if let Ok(stamp) = text.parse() {
        Ok(Since::At(stamp))
    } else if let Some(midnight) = date() {
        Ok(Since::At(Timestamp::from_jiff(midnight.timestamp())))
    } else {
        Err("expected a length of time such as 90m, 12h or 3d, a date, or a time such as 2026-11-15T14:00:00Z".to_owned())
    }
}

/// A run and its decoded summary.
struct ListedRun {
    row: RunListing,
    /// `None` if the run cannot be read, or another version wrote it.
    summary: Option<Summary>,
    engine: EnginePresence,
    /// Whether the store is shared with other hosts.
    shared: bool,
    /// The run's directory, if it is missing.
    deleted_dir: Option<String>,
}

#[derive(Serialize)]
struct JsonRun<'a> {
    run: &'a str,
    protocol: &'a str,
    revision: u64,
    /// `None` if the run cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<String>,
    #[serde(flatten)]
    summary: Option<JsonSummary<'a>>,
    /// Why the summary is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'static str>,
}

#[derive(Serialize)]
struct JsonSummary<'a> {
    title: &'a str,
    repo_dir: &'a str,
    status: &'static str,
    progress: Progress,
    running: usize,
    /// The hosts of its running attempts, if the store is shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<&'a BTreeSet<String>>,
    updated_at: Timestamp,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    rehearsal: bool,
    /// Whether the directory of its files was deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    files_deleted: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let shared = workspace.nats.is_some();
    let now = workspace.clock.now();
    let (total, mut listed) = block_on(async {
        let Some(store) = workspace.existing_store().await? else { return Ok((0, Vec::new())) };
        let rows = store.runs().await?;
        let total = rows.len();
        let mut listed = Vec::with_capacity(total);
        for row in rows {
            let summary = workspace::summary(&row);
            let engine = engine_of(&store, &row, summary.as_ref()).await?;
            listed.push(ListedRun { row, summary, engine, shared, deleted_dir: None });
        }
        listed.retain(|listed| arguments.matches(listed, now));
        Ok::<_, Failure>((total, listed))
    })?;
    // The sort is stable: of equal runs, and of unreadable ones, the older comes first.
    listed.sort_by(|one, other| compare(arguments.sort, one, other));
    let omitted = listed.len() - arguments.limit.unwrap_or(usize::MAX).min(listed.len());
    listed.drain(..omitted);
    if arguments.reverse {
        listed.reverse();
    }
    find_deleted_dirs(&mut listed);
    if arguments.json {
        output::json_pretty(&listed.iter().map(ListedRun::as_json).collect::<Vec<_>>());
        return Ok(Exit::Success);
    }
    if total == 0 {
        let hints = workspace.lost_store_hints();
        match hints.is_empty() {
            true => output::note("no runs yet; run `callboard run WORKFLOW` to start one"),
            false => hints.iter().for_each(output::note),
        }
    } else if listed.is_empty() {
        output::note(format_args!("{} ({} in total)", arguments.no_match(), total));
    }
    let width = listed.iter().map(|listed| listed.row.run.as_str().len()).max().unwrap_or(0);
    let mut text = String::new();
    for listed in &listed {
        writeln!(text, "{}", listed.line(width, now)).expect("BUG: writing to a string failed");
    }
    output::raw(&text);
    if let Some(note) = note_of_deleted_dirs(&listed) {
        output::note(note);
    }
    Ok(Exit::Success)
}

/// Sets `deleted_dir` of each `steps` run whose directory is missing in an existing repository. A run with an engine is left
/// out: the engine may be about to make the directory.
fn find_deleted_dirs(listed: &mut [ListedRun]) {
    let mut repo_exists = BTreeMap::new();
    let mut names_by_parent = BTreeMap::new();
    for ListedRun { row, summary, engine, deleted_dir, .. } in listed {
        let Some(summary) = summary else { continue };
        if row.protocol != Steps::NAME || *engine == EnginePresence::Alive {
            continue;
        }
        if !*repo_exists.entry(&summary.repo_dir).or_insert_with(|| Path::new(&summary.repo_dir).is_dir()) {
            continue;
        }
        let directory = RunLocation::new(row.run.clone(), summary.repo_dir.clone()).run_dir();
        let Some((parent, name)) = directory.rsplit_once('/') else { continue };
        // Listing the parent directory once is faster than a check of each run.
        let names = match names_by_parent.get(parent) {
            Some(names) => names,
            None => names_by_parent.entry(parent.to_owned()).or_insert(file_names(Path::new(parent))),
        };
        let is_deleted = !names.as_ref().is_none_or(|names| names.contains(OsStr::new(name)));
        *deleted_dir = is_deleted.then_some(directory);
    }
}

/// Returns the names in a directory; `None` if it cannot be read.
fn file_names(directory: &Path) -> Option<HashSet<OsString>> {
    match std::fs::read_dir(directory) {
        Ok(entries) => {
            entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>().ok()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(HashSet::new()),
        Err(_) => None,
    }
}

/// Names the first run whose files were deleted, and the number of the others.
fn note_of_deleted_dirs(listed: &[ListedRun]) -> Option<String> {
    let mut deleted =
        listed.iter().filter_map(|listed| Some((&listed.row.run, listed.deleted_dir.as_ref()?)));
    let (run, directory) = deleted.next()?;
    let others = match deleted.count() {
        0 => String::new(),
        others => format!(" (and those of {})", output::count(others, "other run", "other runs")),
    };
    Some(format!(
        "the files of run `{run}` in `{directory}`{others} are gone, the run is not: `callboard show {run}` shows it, `callboard rm {run}` removes it"
    ))
}

/// Returns whether a run that needs an engine has one. Other runs are skipped, because on NATS each check is a round trip.
async fn engine_of(
    store: &AnyStore,
    row: &RunListing,
    summary: Option<&Summary>,
) -> Result<EnginePresence, Failure> {
    if !summary.is_some_and(run_status::needs_engine) {
        return Ok(EnginePresence::NotChecked);
    }
    Ok(match store.peek_engine_holder(&row.run).await? {
        Some(_) => EnginePresence::Alive,
        None => EnginePresence::Missing,
    })
}

impl Arguments {
    /// The note for an empty list.
    fn no_match(&self) -> &'static str {
        let only_unfinished = self.status.is_empty()
            && self.protocol.is_none()
            && self.workflow.is_none()
            && self.since.is_none()
            && self.limit.is_none();
        if self.unfinished && only_unfinished { "no unfinished runs" } else { "no matching runs" }
    }

    fn matches(&self, listed: &ListedRun, now: Timestamp) -> bool {
        if self.protocol.as_ref().is_some_and(|protocol| *protocol != listed.row.protocol) {
            return false;
        }
        let Some(summary) = &listed.summary else {
            // The filters cannot be checked, so an unreadable run is listed only without filters.
            return self.status.is_empty()
                && !self.unfinished
                && self.workflow.is_none()
                && self.since.is_none();
        };
        let (_, word) = run_status::label_with_engine(summary, listed.engine);
        let is_since = |since: Since| match since {
            Since::Ago(length) => now.since(summary.updated_at) <= length,
            Since::At(stamp) => summary.updated_at >= stamp,
        };
        let has_title = |text: &String| summary.title.to_lowercase().contains(&text.to_lowercase());
        (self.status.is_empty() || self.status.iter().any(|status| status == word))
            && !(self.unfinished && matches!(summary.status, RunStatus::Finished(_)))
            && self.workflow.as_ref().is_none_or(has_title)
            && self.since.is_none_or(is_since)
    }
}

fn compare(sort: Sort, one: &ListedRun, other: &ListedRun) -> std::cmp::Ordering {
    let by_number = |number: fn(&Summary) -> u64| {
        let key = |listed: &ListedRun| listed.summary.as_ref().map(number);
        key(one).cmp(&key(other))
    };
    let by_text = |text: fn(&Summary) -> &str| {
        let key = |listed: &ListedRun| listed.summary.as_ref().map(|summary| text(summary).to_owned());
        key(one).cmp(&key(other))
    };
    match sort {
        // The store returns runs in this order.
        Sort::Created => std::cmp::Ordering::Equal,
        Sort::Updated => by_number(|summary| u64::try_from(summary.updated_at.as_micros()).unwrap_or(0)),
        Sort::Name => one.row.run.cmp(&other.row.run),
        Sort::Workflow => by_text(|summary| &summary.title),
        Sort::Status => {
            let key = |listed: &ListedRun| {
                listed.summary.as_ref().map(|summary| run_status::label_with_engine(summary, listed.engine).1)
            };
            key(one).cmp(&key(other))
        }
        Sort::Progress => by_number(|summary| {
            let (done, total) = (summary.progress.done as u64, summary.progress.total.max(1) as u64);
            done.saturating_mul(1_000_000) / total
        }),
    }
}

impl ListedRun {
    fn as_json(&self) -> JsonRun<'_> {
        JsonRun {
            run: self.row.run.as_str(),
            protocol: &self.row.protocol,
            revision: self.row.revision.0,
            created_at: self.is_readable().then(|| Timestamp::from_jiff(self.row.created).to_string()),
            summary: self.summary.as_ref().map(|summary| JsonSummary {
                title: &summary.title,
                repo_dir: &summary.repo_dir,
                status: run_status::label_with_engine(summary, self.engine).1,
                progress: summary.progress,
                running: summary.running,
                hosts: self.shared.then_some(&summary.hosts),
                updated_at: summary.updated_at,
                rehearsal: summary.is_rehearsal,
                files_deleted: self.deleted_dir.is_some(),
            }),
            problem: self.summary.is_none().then(|| self.problem()),
        }
    }

    /// Whether the store can read the run. It leaves the protocol of an unreadable one empty.
    fn is_readable(&self) -> bool {
        !self.row.protocol.is_empty()
    }

    /// Why the summary is missing.
    fn problem(&self) -> &'static str {
        match self.is_readable() {
            true => "written by another version of callboard",
            false => "cannot be read",
        }
    }

    fn line(&self, width: usize, now: Timestamp) -> String {
        let run = styled(BOLD, format_args!("{:<width$}", self.row.run));
        let Some(summary) = &self.summary else {
            let why = match self.is_readable() {
                true => self.problem().to_owned(),
                false => format!("{}: run `callboard show {}` to see why", self.problem(), self.row.run),
            };
            return format!("{run}  {}", styled(DIM, location_flags::add_to(&why)));
        };
        let (style, word) = run_status::label_with_engine(summary, self.engine);
        let ago = output::duration(now.since(summary.updated_at));
        let hosts: Vec<_> = summary.hosts.iter().filter(|_| self.shared).map(String::as_str).collect();
        let on = if hosts.is_empty() { String::new() } else { format!(", on {}", hosts.join(" and ")) };
        let rehearsal = if summary.is_rehearsal { " (rehearsal)" } else { "" };
        format!(
            "{run}  {}  {:>3}/{:<3}  {}{rehearsal}  {}",
            styled(style, format_args!("{word:<11}")),
            summary.progress.done,
            summary.progress.total,
            summary.title,
            styled(DIM, format_args!("{ago} ago{on}")),
        )
    }
}
