//! `callboard state history [KEY]`.

use protocol::Revision;
use runner::for_each_entry;
use serde_json::Value;
use store::Store as _;

use super::super::block_on;
use super::Key;
use super::writes::{Follower, Write};
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, styled};
use crate::present::{Deed, Presentation};
use crate::query::RunHandle;
use crate::workspace::LocationArgs;

/// Show every write of the document of a run: which, when, what, by whom
///
/// From the journal, so it is complete even where the document's own `history` was state. An entry of the journal that
/// left the document alone is not shown: `callboard log` shows all.
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

    /// Print one JSON object per write: sequence, revision, at, phase, event, by, changed
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, last, json, place } = arguments;
    let writes = block_on(async {
        let handle = RunHandle::of(&place, &key.get()?).await?;
        handle.with(Telling { handle: &handle }).await
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

struct Telling<'a> {
    handle: &'a RunHandle,
}

impl Deed for Telling<'_> {
    type Done = Vec<Write>;

    async fn with<P: Presentation>(self) -> Result<Vec<Write>, Failure> {
        const FIRST: Revision = Revision(1);
        let RunHandle { store, run, workspace } = self.handle;
        let newest = self.handle.newest().await?;
        let mut follower = Follower::<P>::at(self.handle, Some(FIRST)).await?;
        let first = store.entry(run, FIRST).await?.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
        let mut writes = vec![follower.present(&first)?];
        for_each_entry(store, run, FIRST, newest, |stored| {
            writes.extend(follower.take(&stored)?);
            Ok::<_, Failure>(())
        })
        .await?;
        Ok(writes)
    }
}

/// As many places as a line names.
const NAMED: usize = 3;

fn line(write: &Write) -> String {
    let Write { sequence, revision, at, phase, event, by, changed } = write;
    let number = sequence.map_or_else(|| "-".to_owned(), |sequence| sequence.to_string());
    let words = [phase, event].into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
    let mut places: Vec<_> = changed.iter().take(NAMED).map(|place| output::single_line(place)).collect();
    if changed.iter().any(String::is_empty) {
        places = vec!["all of it".to_owned()];
    }
    let more = changed.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let revision = styled(DIM, format_args!("revision {revision}"));
    let told = [words, output::single_line(by), format!("{}{more}", places.join(", ")), revision];
    let told: Vec<_> = told.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{} {}  {}", styled(BOLD, format_args!("{number:>4}")), styled(DIM, at), told.join("  "))
}
