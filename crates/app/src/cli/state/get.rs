//! `callboard state get [KEY]`.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use protocol::RunId;
use runner::Read;
use serde_json::{Value, json};
use store::{AnyStore, Store as _, StoredDocument};

use super::super::block_on;
use super::{Key, at_pointer};
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::{self, Deed, Presentation};
use crate::workspace::{self, LocationArgs, Workspace};

/// Print the document of a run
///
/// With --json it comes with what a change of it has to know: `{"run", "protocol", "revision", "sequence", "document"}`.
/// `sequence` is null where the document does not count its changes.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state get peer:spec:login:cycle:1
  callboard state get peer:spec:login:cycle:1 --path /phases/plan/output
  callboard state get f8c1a491 --json | jq .sequence")]
pub(super) struct Arguments {
    #[command(flatten)]
    key: Key,

    /// Only what is at this JSON pointer (RFC 6901); --json has it as `value`
    #[arg(long, value_name = "POINTER")]
    path: Option<String>,

    /// Print one line of JSON with revision and sequence
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, path, json, place } = arguments;
    let key = key.get()?;
    let workspace = Workspace::find(&place, Flags::default())?;
    let work = async {
        let store = workspace.store_with(&key).await?;
        let (run, stored) = find(&workspace, &store, &key).await?;
        let protocol = stored.protocol.clone();
        present::by_name(&protocol, &run, Getting { store: &store, run: &run, stored, path, json }).await
    };
    // A server has to be waited for.
    if workspace.nats.is_some() { block_on(work) } else { at_once(work) }
}

/// Whoever gives a whole name is answered by one look.
async fn find(
    workspace: &Workspace,
    store: &AnyStore,
    key: &str,
) -> Result<(RunId, StoredDocument), Failure> {
    let whole = workspace::name_of_run(key).ok();
    if let Some(run) = whole
        && let Some(stored) = store.document(&run).await?
    {
        return Ok((run, stored));
    }
    let run = workspace.resolve(store, key).await?;
    let stored = store.document(&run).await?.ok_or_else(|| workspace.no_such_run(key))?;
    Ok((run, stored))
}

/// Does what waits for nothing without setting up all that waiting takes: it would cost as much as the look. A store that has
/// to be waited for is waited for.
fn at_once<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut work = pin!(work);
    match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => block_on(work),
    }
}

struct Getting<'a> {
    store: &'a AnyStore,
    run: &'a RunId,
    stored: StoredDocument,
    path: Option<String>,
    json: bool,
}

impl Deed for Getting<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { store, run, stored, path, json } = self;
        let Read { document, revision } = runner::read::<P, _>(store, run, stored).await?;
        if path.is_none() && !json {
            output::json_pretty(&document);
            return Ok(Exit::Success);
        }
        let sequence = P::sequence(&document);
        let document: Value = json!(document);
        let (name, value) = match &path {
            Some(pointer) => ("value", at_pointer(&document, pointer)?),
            None => ("document", &document),
        };
        if json {
            output::json(&json!({
                "run": run,
                "protocol": P::NAME,
                "revision": revision,
                "sequence": sequence,
                name: value,
            }));
        } else {
            output::json_pretty(value);
        }
        Ok(Exit::Success)
    }
}
