//! `callboard state watch [KEY]`.

use runner::EngineExit;
use serde_json::{Value, json};

use super::super::block_on;
use super::writes::{Follower, Write};
use super::{Key, at_pointer};
use crate::engine;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::query::RunHandle;
use crate::workspace::LocationArgs;

/// Follow the document of a run: one line of JSON per write
///
/// The first line is the current document. Each further line is a write, as `state history --json` prints it, with the
/// document after it. No write is left out.
///
/// Ends with 0 when the condition of --until holds, or, without --until, when the run is finished. Ends with 1 if the run
/// finishes and the condition does not hold. A stopped or interrupted run can be resumed, so watching continues.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state watch peer:spec:login:cycle:1 | jq -r .event
  callboard state watch peer:spec:login:cycle:1 --until /phases/plan/status=completed > /dev/null
  callboard state watch peer:spec:login:cycle:1 --path /phases/execute/output")]
pub(super) struct Arguments {
    #[command(flatten)]
    key: Key,

    /// End when the value at a JSON pointer equals VALUE, which is JSON or else a string
    #[arg(long, value_name = "POINTER=VALUE")]
    until: Option<String>,

    /// Print only the value at this JSON pointer, as `value`; null if there is none
    #[arg(long, value_name = "POINTER")]
    path: Option<String>,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let Arguments { key, until, path, location } = arguments;
    let until = until.as_deref().map(parse_until).transpose()?;
    if let Some(path) = path.as_deref().filter(|path| !path.is_empty() && !path.starts_with('/')) {
        at_pointer(&Value::Null, path)?; // always fails, with the hint for a pointer without `/`
    }
    block_on(async {
        let handle = RunHandle::of(&location, &key.get()?).await?;
        watch(&handle, until.as_ref(), path.as_deref()).await
    })
}

/// The condition of --until.
#[derive(Debug, PartialEq)]
struct ExpectedValue {
    pointer: String,
    value: Value,
}

fn parse_until(given: &str) -> Result<ExpectedValue, Failure> {
    let split = given.split_once('=').filter(|(pointer, _)| pointer.starts_with('/'));
    let (pointer, value) = split.ok_or_else(|| {
        Failure::usage(format_args!("cannot parse `--until {given}`"))
            .hint("write it as POINTER=VALUE, such as `/metadata/status=completed`")
    })?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok(ExpectedValue { pointer: pointer.to_owned(), value })
}

async fn watch(
    handle: &RunHandle,
    until: Option<&ExpectedValue>,
    path: Option<&str>,
) -> Result<Exit, Failure> {
    let RunHandle { store, run, workspace } = handle;
    let mut interrupts = engine::interrupts()?;
    let mut follower = Follower::at(handle, None).await?;
    let newest = follower.run_at.revision;
    let mut journal = store.watch(run, newest).await?;
    let stored = store.entry(run, newest).await?.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
    let current = follower.current(&stored)?;
    let mut holds = print(&follower, &current, until, path);
    loop {
        if let Some(exit) = exit(&follower, until, holds) {
            return Ok(exit);
        }
        let entries = tokio::select! {
            entries = journal.next() => entries?,
            _ = interrupts.recv() => return Ok(Exit::Interrupted),
        };
        for stored in entries {
            if let Some(write) = follower.apply(&stored)? {
                holds = print(&follower, &write, until, path);
                if holds && until.is_some() {
                    return Ok(Exit::Success);
                }
            }
        }
    }
}

/// Prints a write with the document after it. Returns whether the condition of --until holds.
fn print(follower: &Follower<'_>, write: &Write, until: Option<&ExpectedValue>, path: Option<&str>) -> bool {
    let document = follower.run_at.machine().document().to_value();
    let holds = until.is_some_and(|until| document.pointer(&until.pointer) == Some(&until.value));
    let mut line = json!(write);
    match path {
        Some(path) => line["value"] = document.pointer(path).cloned().unwrap_or_default(),
        None => line["document"] = document,
    }
    output::json(&line);
    holds
}

/// Returns the exit code if watching ends here. `holds` is whether the condition of --until holds now.
fn exit(follower: &Follower<'_>, until: Option<&ExpectedValue>, holds: bool) -> Option<Exit> {
    let finished = matches!(follower.run_at.engine_exit(), Some(EngineExit::Finished(_)));
    match until {
        Some(_) if holds => Some(Exit::Success),
        Some(ExpectedValue { pointer, value }) if finished => {
            output::note(format_args!("the run is finished and `{pointer}` is not `{value}`"));
            Some(Exit::Failed)
        }
        None if finished => Some(Exit::Success),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_condition_is_json_or_a_text() {
        for (given, pointer, value) in [
            ("/metadata/status=completed", "/metadata/status", json!("completed")),
            ("/sequence=7", "/sequence", json!(7)),
            ("/a=\"7\"", "/a", json!("7")),
            ("/a=x=y", "/a", json!("x=y")),
        ] {
            assert_eq!(parse_until(given).unwrap(), ExpectedValue { pointer: pointer.to_owned(), value });
        }
        for given in ["/a", "a=1", "=1", ""] {
            assert!(parse_until(given).is_err(), "{given}");
        }
    }
}
