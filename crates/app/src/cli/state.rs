//! `callboard state get|patch|history|watch`: the document of a run, for programs.

mod get;
mod history;
mod patch;
mod watch;
mod writes;

use std::ffi::OsString;

use clap::{ArgMatches, Parser as _, Subcommand};
use serde_json::Value;

use crate::failure::{Exit, Failure};

/// Read, change and follow the document of a run
///
/// A change names the `sequence` that the document had when it was read. If another client has changed the same part since
/// then, nothing is written and the exit code is 3: read the document again, decide again, and try again. So no update is
/// lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state get peer:spec:login:cycle:1
  callboard state get --json | jq .sequence            # inside an attempt, KEY is preset
  callboard state patch --expect 7 --set /phases/plan/output/draft=true
  callboard state watch peer:spec:login:cycle:1 --until /metadata/status=completed")]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Get(get::Arguments),
    Patch(patch::Arguments),
    History(history::Arguments),
    Watch(watch::Arguments),
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.command {
        Command::Get(arguments) => get::run(arguments),
        Command::Patch(arguments) => patch::run(arguments),
        Command::History(arguments) => history::run(arguments),
        Command::Watch(arguments) => watch::run(arguments),
    }
}

/// Parses a `state get` without building the whole command line, which would take longer than the read itself; agents read
/// often. Returns whether `--json` was given, and the arguments; `None` for any other command line and for one
/// with errors.
pub(super) fn parse_get(words: impl IntoIterator<Item = OsString>) -> Option<(bool, Arguments)> {
    #[derive(clap::Parser)]
    struct GetOnly {
        #[command(flatten)]
        arguments: get::Arguments,
    }
    let mut words = words.into_iter();
    let program = words.next()?;
    if words.next()? != "state" || words.next()? != "get" {
        return None;
    }
    let GetOnly { arguments } = GetOnly::try_parse_from(std::iter::once(program).chain(words)).ok()?;
    Some((arguments.json, Arguments { command: Command::Get(arguments) }))
}

/// Returns whether the command prints JSON: then a failure is printed as JSON, too.
pub(super) fn prints_json(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(name, given)| {
        name == "watch" || matches!(given.try_get_one::<bool>("json"), Ok(Some(true)))
    })
}

/// The document to work on.
#[derive(Debug, Clone, clap::Args)]
struct Key {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle [default: $CALLBOARD_STATE_KEY, which is set inside
    /// an attempt]
    key: Option<String>,
}

impl Key {
    fn get(self) -> Result<String, Failure> {
        let inherited = || std::env::var("CALLBOARD_STATE_KEY").ok().filter(|key| !key.is_empty());
        self.key.or_else(inherited).ok_or_else(|| {
            Failure::usage("KEY is missing, and CALLBOARD_STATE_KEY is not set")
                .hint("name a run; `callboard ls` lists them. CALLBOARD_STATE_KEY is set inside attempts of a peer cycle")
        })
    }
}

/// Returns the value at a JSON pointer.
fn at_pointer<'d>(document: &'d Value, pointer: &str) -> Result<&'d Value, Failure> {
    document.pointer(pointer).ok_or_else(|| {
        let failure = Failure::usage(format_args!("the document has no value at `{pointer}`"));
        if pointer.starts_with('/') {
            failure
        } else {
            failure.hint("start a JSON pointer with `/`, such as `/phases/plan/status`")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_get_takes_the_fast_path() {
        let parsed = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            parse_get(words).map(|(json, _)| json)
        };
        assert_eq!(parsed("callboard state get"), Some(false));
        assert_eq!(parsed("callboard state get a --path /b --json --repo ."), Some(true));
        for line in [
            "callboard state get --help",
            "callboard state get a b",
            "callboard state get --nonsense",
            "callboard state patch",
            "callboard get",
            "callboard",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
