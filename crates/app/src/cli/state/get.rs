//! `callboard state get [KEY]`.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use protocol::RunId;
use runner::DocumentAt;
use serde_json::json;
use store::{AnyStore, StoredDocument};

use super::super::block_on;
use super::{Key, at_pointer};
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{self, LocationArgs, Workspace};

/// Print the document of a run
///
/// With --json, prints `{"run", "protocol", "revision", "sequence", "document"}`. `state patch` needs the `sequence`; it is
/// null if the document has none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state get peer:spec:login:cycle:1
  callboard state get peer:spec:login:cycle:1 --path /phases/plan/output
  callboard state get f8c1a491 --json | jq .sequence")]
pub(super) struct Arguments {
    #[command(flatten)]
    key: Key,

    /// Print only the value at this JSON pointer (RFC 6901); with --json as `value`
    #[arg(long, value_name = "POINTER")]
    path: Option<String>,

    /// Print one line of JSON with the revision and the sequence
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, path, json, location } = arguments;
    let key = key.get()?;
    let workspace = Workspace::find(&location, Flags::default())?;
    let work = async {
        let store = workspace.store_for_run(&key).await?;
        let (run, stored) = find(&workspace, &store, &key).await?;
        let protocol = stored.protocol.clone();
        let DocumentAt { document, revision } =
            runner::read_document(store.as_ref(), workspace.protocols, &run, stored).await?;
        let (sequence, document) = (document.sequence(), document.to_value());
        let (name, value) = match &path {
            Some(pointer) => ("value", at_pointer(&document, pointer)?),
            None => ("document", &document),
        };
        if json {
            output::json(&json!({
                "run": run,
                "protocol": protocol,
                "revision": revision,
                "sequence": sequence,
                name: value,
            }));
        } else {
            output::json_pretty(value);
        }
        Ok(Exit::Success)
    };
    // Only NATS needs a runtime.
    if workspace.nats.is_some() { block_on(work) } else { poll_once(work) }
}

/// Finds the run and its document. A complete name needs only one read.
async fn find(
    workspace: &Workspace,
    store: &AnyStore,
    key: &str,
) -> Result<(RunId, StoredDocument), Failure> {
    if let Ok(run) = workspace::parse_run_name(key)
        && let Some(stored) = store.document(&run).await?
    {
        return Ok((run, stored));
    }
    let run = workspace.resolve(store, key).await?;
    let stored = store.document(&run).await?.ok_or_else(|| workspace.no_such_run(key))?;
    Ok((run, stored))
}

/// Polls the work once without a runtime, because starting a runtime costs as much as the read. Falls back to a runtime if
/// the store is not ready at once.
fn poll_once<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut work = pin!(work);
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => block_on(work),
    }
}
