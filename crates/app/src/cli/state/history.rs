//! `callboard state history [KEY]`.

use protocol::Revision;
use runner::for_each_entry;
use serde_json::Value;

use super::super::block_on;
use super::Key;
use super::writes::{Follower, Write};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, styled};
use crate::query::RunHandle;
use crate::workspace::LocationArgs;

/// Show every write to the document of a run: when, by whom, and what changed
///
/// Read from the journal, so it is complete even if the document's own `history` was cut. Journal entries that did not
/// change the document are not shown; `callboard log` shows all entries.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state history peer:spec:login:cycle:1
  callboard state history peer:spec:login:cycle:1 --last 5
  callboard state history f8c1a491 --json | jq -r .by | sort | uniq -c")]
pub(super) struct Arguments {
    #[command(flatten)]
    key: Key,

    /// Only the last N writes
    #[arg(long, short = 'n', value_name = "N")]
    last: Option<usize>,

    /// Print one JSON object per write: `sequence`, `revision`, `at`, `phase`, `event`, `by`, `changed`
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, last, json, location } = arguments;
    let writes = block_on(async {
        let handle = RunHandle::of(&location, &key.get()?).await?;
        read_writes(&handle).await
    })?;
    let left_out = last.map_or(0, |last| writes.len().saturating_sub(last));
    for write in &writes[left_out..] {
        if json {
            output::json(write);
        } else {
            output::data(line(write));
        }
    }
    Ok(Exit::Success)
}

async fn read_writes(handle: &RunHandle) -> Result<Vec<Write>, Failure> {
    const FIRST: Revision = Revision(1);
    let RunHandle { store, run, workspace } = handle;
    let newest = handle.newest().await?;
    let mut follower = Follower::at(handle, Some(FIRST)).await?;
    let first = store.entry(run, FIRST).await?.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
    let mut writes = vec![follower.current(&first)?];
    for_each_entry(store.as_ref(), run, FIRST, newest, |stored| {
        writes.extend(follower.apply(&stored)?);
        Ok::<_, Failure>(())
    })
    .await?;
    Ok(writes)
}

/// The number of changed fields that a line names.
const MAX_NAMED: usize = 3;

fn line(write: &Write) -> String {
    let Write { sequence, revision, at, phase, event, by, changed } = write;
    let number = sequence.map_or_else(|| "-".to_owned(), |sequence| sequence.to_string());
    let words = [phase, event].into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    let mut fields: Vec<_> = changed.iter().take(MAX_NAMED).map(|field| output::single_line(field)).collect();
    if changed.iter().any(String::is_empty) {
        fields = vec!["the whole document".to_owned()];
    }
    let more = changed.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let revision = styled(DIM, format_args!("revision {revision}"));
    let columns = [words, output::single_line(by), format!("{}{more}", fields.join(", ")), revision];
    let columns: Vec<_> = columns.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{} {}  {}", styled(BOLD, format_args!("{number:>4}")), styled(DIM, at), columns.join("  "))
}
