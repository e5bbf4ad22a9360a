//! `callboard ls`.

use protocol::Stamp;
use runner::Summary;
use serde::Serialize;
use store::{RunRow, Store as _};

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::here::{self, Here, Place};
use crate::phase;
use crate::render::{self, BOLD, DIM, styled};

/// List the runs of this repository, newest last
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Print a JSON array
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Row<'a> {
    run: &'a str,
    protocol: &'a str,
    revision: u64,
    created_at: String,
    #[serde(flatten)]
    summary: Option<Summary>,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let here = Here::find(&arguments.place, Flags::default())?;
    let rows = block_on(async {
        match here.existing_store()? {
            Some(store) => Ok(store.runs().await?),
            None => Ok(Vec::new()),
        }
    })?;
    if arguments.json {
        render::json_pretty(&rows.iter().map(as_json).collect::<Vec<_>>());
        return Ok(Exit::Delivered);
    }
    if rows.is_empty() {
        render::note("no runs yet; `callboard run WORKFLOW` starts one");
    }
    let now = here.clock.now();
    let width = rows.iter().map(|row| row.run.as_str().len()).max().unwrap_or(0);
    for row in &rows {
        render::data(line(row, width, now));
    }
    Ok(Exit::Delivered)
}

fn as_json(row: &RunRow) -> Row<'_> {
    Row {
        run: row.run.as_str(),
        protocol: &row.protocol,
        revision: row.revision.0,
        created_at: Stamp::from_timestamp(row.created).to_string(),
        summary: here::summary(row),
    }
}

fn line(row: &RunRow, width: usize, now: Stamp) -> String {
    let run = styled(BOLD, format_args!("{:<width$}", row.run));
    let Some(summary) = here::summary(row) else {
        return format!("{run}  {}", styled(DIM, "written by another version of callboard"));
    };
    let (style, word) = phase::word(summary.phase);
    let ago = render::duration(now.since(summary.updated_at));
    format!(
        "{run}  {}  {:>3}/{:<3}  {}  {}",
        styled(style, format_args!("{word:<11}")),
        summary.progress.done,
        summary.progress.total,
        summary.title,
        styled(DIM, format_args!("{ago} ago")),
    )
}
