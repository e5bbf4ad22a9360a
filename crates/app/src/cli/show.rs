//! `callboard show RUN`.

use protocol::steps::{Status, StepDocument, Steps};
use protocol::{Protocol as _, Stamp};
use runner::Journal;
use serde_json::json;
use store::SqliteStore;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{Here, Place};
use crate::render::{self, BOLD, DIM, styled};
use crate::{phase, progress};

/// Show how far a run is: its steps, who works since when, the last errors
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard show f8c1a491
  callboard show f8c1a491 --json | jq '.document.steps | map_values(.status)'")]
pub(super) struct Arguments {
    /// The run, or a beginning of its name
    run: String,

    /// Print phase, revision and the whole document as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    let journal: Journal<Steps, SqliteStore> = block_on(async {
        let store = here.store_with(&arguments.run)?;
        here.load(&store, &arguments.run).await
    })?;
    if arguments.json {
        render::json_pretty(&json!({
            "run": journal.run,
            "protocol": Steps::NAME,
            "phase": journal.folded.run.phase,
            "revision": journal.position.revision,
            "document": journal.document,
        }));
        return Ok(Exit::Delivered);
    }
    let summary = journal.summary();
    let (style, word) = phase::word(summary.phase);
    render::data(format_args!(
        "{} {}  {}  {}/{} steps  revision {}",
        styled(BOLD, &journal.run),
        summary.title,
        styled(style, word),
        summary.progress.done,
        summary.progress.total,
        journal.position.revision,
    ));
    let now = here.clock.now();
    let width = journal.document.steps.keys().map(String::len).max().unwrap_or(0);
    for (id, step) in &journal.document.steps {
        render::data(format_args!(
            "  {} {id:<width$}  {}",
            progress::status(step.status),
            particulars(step, now)
        ));
    }
    render::data(styled(DIM, Steps::view(&journal.document).path));
    Ok(Exit::Delivered)
}

/// What matters of a step in its status.
fn particulars(step: &StepDocument, now: Stamp) -> String {
    let tries = match step.attempts {
        0 | 1 => String::new(),
        many => format!("try {many}  "),
    };
    let time = match (step.status, step.started_at, step.ended_at) {
        (Status::Running | Status::WaitingOnHuman, Some(begun), _) => {
            format!("for {}", render::duration(now.since(begun)))
        }
        (Status::Completed | Status::Failed, Some(begun), Some(ended)) => {
            render::duration(ended.since(begun))
        }
        (
            Status::Running
            | Status::WaitingOnHuman
            | Status::Completed
            | Status::Failed
            | Status::Pending
            | Status::Skipped,
            _,
            _,
        ) => String::new(),
    };
    let error = step.last_error.as_deref().map(|error| format!("  {error}")).unwrap_or_default();
    format!("{tries}{}{error}", styled(DIM, time))
}
