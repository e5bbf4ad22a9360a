//! `callboard state get|patch|history|watch`: the document of a run, for programs in any language.

mod get;
mod history;
mod patch;
mod watch;
mod writes;

use std::ffi::OsString;

use clap::{ArgMatches, Parser as _, Subcommand};
use serde_json::Value;

use crate::failure::{Exit, Failure};

/// Read, change and follow the document of a run, from any program
///
/// Whoever changes a document names the `sequence` it had when it was read. If somebody else has changed the same part of
/// it since, nothing is written and the exit code is 3: read it again, decide again, and try again. So no update is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard state get peer:spec:login:cycle:1
  callboard state get --json | jq .sequence            # inside an attempt, KEY is known
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

/// Reads the words of a `state get` without setting up the whole command line, which takes longer than the look itself;
/// agents look often. Whatever else it is, or is not understood, goes the usual way.
pub(super) fn get_alone(words: impl IntoIterator<Item = OsString>) -> Option<(bool, Arguments)> {
    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        arguments: get::Arguments,
    }
    let mut words = words.into_iter();
    let program = words.next()?;
    if words.next()? != "state" || words.next()? != "get" {
        return None;
    }
    let Alone { arguments } = Alone::try_parse_from(std::iter::once(program).chain(words)).ok()?;
    Some((arguments.json, Arguments { command: Command::Get(arguments) }))
}

/// Whether a program reads our output, and is to be told in the same way what went wrong.
pub(super) fn speaks_json(matches: &ArgMatches) -> bool {
    matches.subcommand().is_some_and(|(name, given)| {
        name == "watch" || matches!(given.try_get_one::<bool>("json"), Ok(Some(true)))
    })
}

/// Which document.
#[derive(Debug, Clone, clap::Args)]
struct Key {
    /// The run, a beginning of its name, or a cycle's id such as `peer:spec:login:cycle:1` [default: $CALLBOARD_STATE_KEY,
    /// which is set inside an attempt]
    key: Option<String>,
}

impl Key {
    fn get(self) -> Result<String, Failure> {
        let inherited = || std::env::var("CALLBOARD_STATE_KEY").ok().filter(|key| !key.is_empty());
        self.key.or_else(inherited).ok_or_else(|| {
            Failure::usage("no KEY was given, and CALLBOARD_STATE_KEY is not set")
                .hint("`callboard ls` lists the runs; inside an attempt of a cycle the key is known")
        })
    }
}

/// What a document has at a pointer.
fn at_pointer<'d>(document: &'d Value, pointer: &str) -> Result<&'d Value, Failure> {
    document.pointer(pointer).ok_or_else(|| {
        let failure = Failure::usage(format_args!("there is nothing at `{pointer}`"));
        if pointer.starts_with('/') {
            failure
        } else {
            failure.hint("a JSON pointer begins with `/`, such as `/phases/plan/status`")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_get_that_is_understood_takes_the_short_way() {
        let alone = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            get_alone(words).map(|(events, _)| events)
        };
        assert_eq!(alone("callboard state get"), Some(false));
        assert_eq!(alone("callboard state get a --path /b --json --repo ."), Some(true));
        for line in [
            "callboard state get --help",
            "callboard state get a b",
            "callboard state get --nonsense",
            "callboard state patch",
            "callboard get",
            "callboard",
        ] {
            assert_eq!(alone(line), None, "{line}");
        }
    }
}
