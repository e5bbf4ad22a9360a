//! `callboard state watch [KEY]`.

use runner::EngineExit;
use serde_json::{Value, json};
use store::Store as _;

use super::super::block_on;
use super::writes::{Follower, Write};
use super::{Key, at_pointer};
use crate::engine;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::{Deed, Presentation};
use crate::query::RunHandle;
use crate::workspace::LocationArgs;

/// Follow the document of a run: a line of JSON for each write
///
/// The first line is the document as it is; each further one tells of a write, as `state history --json` does, with the
/// document after it. Nothing is polled, and no write is left out.
///
/// Ends with 0 when what --until waits for is so, or, without it, when the run is finished. If the run is finished and it is
/// not so, ends with 1. A run that is stopped or interrupted can go on, so it is waited for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state watch peer:spec:login:cycle:1 | jq -r .event
  callboard state watch peer:spec:login:cycle:1 --until /phases/plan/status=completed > /dev/null
  callboard state watch peer:spec:login:cycle:1 --path /phases/execute/output")]
pub(super) struct Arguments {
    #[command(flatten)]
    key: Key,

    /// Wait until the value at a JSON pointer is this; what is not JSON is taken as a text
    #[arg(long, value_name = "POINTER=VALUE")]
    until: Option<String>,

    /// Only what is at this JSON pointer, as `value`; null where there is nothing
    #[arg(long, value_name = "POINTER")]
    path: Option<String>,

    #[command(flatten)]
    place: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, until, path, place } = arguments;
    let until = until.as_deref().map(goal).transpose()?;
    if let Some(path) = path.as_deref().filter(|path| !path.is_empty() && !path.starts_with('/')) {
        at_pointer(&Value::Null, path)?;
    }
    block_on(async {
        let handle = RunHandle::of(&place, &key.get()?).await?;
        handle.with(Watching { handle: &handle, until, path }).await
    })
}

/// What is waited for.
#[derive(Debug, PartialEq)]
struct Goal {
    pointer: String,
    value: Value,
}

fn goal(given: &str) -> Result<Goal, Failure> {
    let split = given.split_once('=').filter(|(pointer, _)| pointer.starts_with('/'));
    let (pointer, value) = split.ok_or_else(|| {
        Failure::usage(format_args!("`--until {given}` does not say what to wait for"))
            .hint("write it as POINTER=VALUE, such as `/metadata/status=completed`")
    })?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok(Goal { pointer: pointer.to_owned(), value })
}

struct Watching<'a> {
    handle: &'a RunHandle,
    until: Option<Goal>,
    path: Option<String>,
}

impl Deed for Watching<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let RunHandle { store, run, workspace } = self.handle;
        let mut interrupts = engine::interrupts()?;
        let mut follower = Follower::<P>::at(self.handle, None).await?;
        let newest = follower.run_at.revision;
        let mut journal = store.watch(run, newest).await?;
        let stored = store.entry(run, newest).await?.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
        let present = follower.present(&stored)?;
        let mut is_so = self.tell(&follower, &present);
        loop {
            if let Some(exit) = self.ends(&follower, is_so) {
                return Ok(exit);
            }
            let news = tokio::select! {
                news = journal.next() => news?,
                _ = interrupts.recv() => return Ok(Exit::Interrupted),
            };
            for stored in news {
                if let Some(write) = follower.take(&stored)? {
                    is_so = self.tell(&follower, &write);
                    if is_so && self.until.is_some() {
                        return Ok(Exit::Success);
                    }
                }
            }
        }
    }
}

impl Watching<'_> {
    /// Prints a write with what it left, and says whether that is what we wait for.
    fn tell<P: Presentation>(&self, follower: &Follower<'_, P>, write: &Write) -> bool {
        let document = json!(follower.run_at.document);
        let is_so =
            self.until.as_ref().is_some_and(|goal| document.pointer(&goal.pointer) == Some(&goal.value));
        let mut line = json!(write);
        match &self.path {
            Some(path) => line["value"] = document.pointer(path).cloned().unwrap_or_default(),
            None => line["document"] = document,
        }
        output::json(&line);
        is_so
    }

    fn ends<P: Presentation>(&self, follower: &Follower<'_, P>, is_so: bool) -> Option<Exit> {
        let finished = matches!(follower.run_at.rest(), Some(EngineExit::Finished(_)));
        match &self.until {
            Some(_) if is_so => Some(Exit::Success),
            Some(goal) if finished => {
                let Goal { pointer, value } = goal;
                output::note(format_args!("the run is finished, and `{pointer}` is not `{value}`"));
                Some(Exit::Failed)
            }
            None if finished => Some(Exit::Success),
            Some(_) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_json_or_a_text() {
        for (given, pointer, value) in [
            ("/metadata/status=completed", "/metadata/status", json!("completed")),
            ("/sequence=7", "/sequence", json!(7)),
            ("/a=\"7\"", "/a", json!("7")),
            ("/a=x=y", "/a", json!("x=y")),
        ] {
            assert_eq!(goal(given).unwrap(), Goal { pointer: pointer.to_owned(), value });
        }
        for given in ["/a", "a=1", "=1", ""] {
            assert!(goal(given).is_err(), "{given}");
        }
    }
}
