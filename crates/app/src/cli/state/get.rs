//! `callboard state get [KEY]`.

use runner::Read;
use serde_json::{Value, json};

use super::{Key, at_pointer};
use crate::face::{Deed, Face};
use crate::failure::{Exit, Failure};
use crate::here::Place;
use crate::look::Sight;
use crate::render;

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
    json: bool,

    #[command(flatten)]
    place: Place,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, path, json, place } = arguments;
    super::super::block_on(async {
        let sight = Sight::of(&place, &key.get()?).await?;
        sight.with(Getting { sight: &sight, path, json }).await
    })
}

struct Getting<'a> {
    sight: &'a Sight,
    path: Option<String>,
    json: bool,
}

impl Deed for Getting<'_> {
    type Done = Exit;

    async fn with<P: Face>(self) -> Result<Exit, Failure> {
        let Self { sight, path, json } = self;
        let read = runner::read::<P, _>(&sight.store, &sight.run).await?;
        let Read { document, revision } = read.ok_or_else(|| sight.here.no_such_run(sight.run.as_str()))?;
        if path.is_none() && !json {
            render::json_pretty(&document);
            return Ok(Exit::Delivered);
        }
        let sequence = P::sequence(&document);
        let document: Value = json!(document);
        let (name, value) = match &path {
            Some(pointer) => ("value", at_pointer(&document, pointer)?),
            None => ("document", &document),
        };
        if json {
            render::json(&json!({
                "run": sight.run,
                "protocol": P::NAME,
                "revision": revision,
                "sequence": sequence,
                name: value,
            }));
        } else {
            render::json_pretty(value);
        }
        Ok(Exit::Delivered)
    }
}
