//! `callboard state patch [KEY] --expect SEQ`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use protocol::AttemptId;
use protocol::edit::Patch;
use runner::Edited;
use serde_json::{Value, json};

use super::super::block_on;
use super::Key;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::query::RunHandle;
use crate::workspace::{self, LocationArgs};

/// Change the document of a run, unless another client has changed the same part since
///
/// Prints the new `sequence` of the document. A patch that changes nothing succeeds and writes nothing.
///
/// If other clients have written since SEQ, the patch is applied to the current document, provided that they did not change
/// the same phase or the same field. Otherwise, or if the patch does not apply any more, it is a conflict (exit code 3):
/// read the document, decide and try again.
///
/// An agent can change `output` and `errors` of its own phase while its attempt runs. Other clients can change those of the
/// running phase, and every field that the format does not define. All other fields belong to the engine.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("change").required(true))]
#[command(after_help = "Examples:
  callboard state patch --expect 7 --set /phases/plan/output/draft=true
  callboard state patch --expect 7 --set '/phases/plan/output/steps/-=\"read the code\"'
  callboard state patch peer:spec:login:cycle:1 --expect 7 --merge notes.json
  jq -n '{phases: {plan: {output: {draft: true}}}}' | callboard state patch --expect 7 --merge -
  callboard state patch peer:spec:login:cycle:1 --expect 7 --patch operations.json --json")]
pub(super) struct Arguments {
    #[command(flatten)]
    key: Key,

    /// The `sequence` that the document had when it was read
    #[arg(long, value_name = "SEQ")]
    expect: u64,

    /// Set the value at a JSON pointer (repeatable); a missing last member is created, `-` appends to a list
    #[arg(long, value_name = "POINTER=JSON", group = "change")]
    set: Vec<String>,

    /// Apply a merge patch (RFC 7396) from this file; `-` is standard input
    #[arg(long, value_name = "FILE", group = "change")]
    merge: Option<PathBuf>,

    /// Apply a list of operations (RFC 6902) from this file; `-` is standard input
    #[arg(long, value_name = "FILE", group = "change")]
    patch: Option<PathBuf>,

    /// Print one line of JSON: `run`, `sequence`, `revision`, `written`
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let patch = patch(&arguments)?;
    let Arguments { key, expect, json, location, .. } = arguments;
    block_on(async {
        let handle = RunHandle::of(&location, &key.get()?).await?;
        let from = attempt_of(&handle)?;
        let run = &handle.run;
        let mut journal = handle.workspace.load(&handle.store, run).await?;
        let edited = runner::edit(&mut journal, workspace::person_author(), from, expect, &patch).await;
        let Edited { sequence, revision, written } = edited.map_err(|error| {
            Failure::from(error)
                .context(format_args!("cannot change the document of run `{run}`"))
                .detail("run", run.as_str())
        })?;
        if json {
            output::json(
                &json!({ "run": run, "sequence": sequence, "revision": revision, "written": written }),
            );
        } else {
            output::data(sequence);
            if !written {
                output::note("nothing was written: the document already has these values");
            }
        }
        Ok(Exit::Success)
    })
}

/// Returns the attempt of this run that started this command, if one did. An agent of another run counts as an external
/// client.
fn attempt_of(handle: &RunHandle) -> Result<Option<AttemptId>, Failure> {
    let mark = supervisor::enclosing_mark().map_err(|error| {
        Failure::new(Exit::Bug, "cannot tell whether an attempt started this command").because(Some(&error))
    })?;
    let canonical = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own_mark = mark.filter(|mark| {
        mark.run == handle.run && canonical(&mark.store) == canonical(handle.store.local_dir().root())
    });
    Ok(own_mark.map(|mark| mark.attempt))
}

fn patch(arguments: &Arguments) -> Result<Patch, Failure> {
    if let Some(file) = &arguments.merge {
        return Ok(Patch::Merge(read(file, "merge patch")?));
    }
    if let Some(file) = &arguments.patch {
        return Ok(Patch::Operations(read(file, "list of operations")?));
    }
    Ok(Patch::Set(arguments.set.iter().map(|given| assignment(given)).collect::<Result<_, _>>()?))
}

/// Parses `POINTER=JSON`. The pointer ends at the first `=`: if a later one were tried, `/note=level=3`, a text without
/// quotes, would set a field `note=level`. A member with `=` in its name is set with `--patch`.
fn assignment(given: &str) -> Result<(String, Value), Failure> {
    let refused = |what: &str| {
        Failure::usage(format_args!("`--set {given}` {what}"))
            .hint("write it as POINTER=JSON, such as `/phases/plan/output/draft=true`")
            .hint("quote a string twice, for JSON and for the shell: `--set '/note=\"hello\"'`")
    };
    if !given.starts_with('/') {
        return Err(refused("does not begin with a JSON pointer"));
    }
    let (pointer, value) = given.split_once('=').ok_or_else(|| refused("has no value"))?;
    let value = serde_json::from_str(value).map_err(|_| refused("has a value that is not JSON"))?;
    Ok((pointer.to_owned(), value))
}

fn read<T: serde::de::DeserializeOwned>(file: &Path, what: &str) -> Result<T, Failure> {
    let mut text = String::new();
    let piped = file.as_os_str() == "-";
    let source = if piped { "standard input".to_owned() } else { format!("`{}`", file.display()) };
    let result = if piped {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text)).map(drop)
    };
    result.map_err(|error| {
        Failure::usage(format_args!("cannot read the {what} in {source}")).because(Some(&error))
    })?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format_args!("{source} is not a valid {what}")).because(Some(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_ends_at_the_first_equals_sign() {
        for (given, pointer, value) in [
            ("/a=1", "/a", json!(1)),
            ("/a=\"b=c\"", "/a", json!("b=c")),
            ("/a={\"b\": \"=\"}", "/a", json!({ "b": "=" })),
        ] {
            assert_eq!(assignment(given).unwrap(), (pointer.to_owned(), value), "{given}");
        }
        for (given, what) in [
            ("/a", "`--set /a` has no value"),
            ("/a=hello", "`--set /a=hello` has a value that is not JSON"),
            ("/a=b=2", "`--set /a=b=2` has a value that is not JSON"),
            ("a=1", "`--set a=1` does not begin with a JSON pointer"),
        ] {
            assert_eq!(assignment(given).unwrap_err().message, what);
        }
    }
}
