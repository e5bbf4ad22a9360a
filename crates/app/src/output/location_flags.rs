//! Adds `--repo` and `--store` to the commands that we suggest, so that they reach the same store when pasted.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::OnceLock;

use store::NatsSettings;

use crate::cli;
use crate::config::StoreAddress;
use crate::output::shell_word;
use crate::workspace::LocationArgs;

/// The location flags of this command.
static FLAGS: OnceLock<String> = OnceLock::new();

/// Returns the flags that lead to the same repository and store, without a password.
pub(crate) fn of(args: &LocationArgs, nats: Option<&NatsSettings>) -> String {
    let store = args.store.as_ref().and_then(|typed| match (nats, StoreAddress::read(typed.as_os_str())) {
        (Some(settings), _) => Some(PathBuf::from(settings.server())),
        // `nats` is missing, too, if the configuration could not be read.
        (None, Ok(StoreAddress::Nats(settings))) => Some(settings.server().into()),
        (None, Ok(StoreAddress::Directory(_))) => Some(typed.clone()),
        (None, Err(_)) => None,
    });
    let flag = |name: &str, path: &PathBuf| format!(" {name} {}", shell_word(path));
    let [repo, store] = [("--repo", &args.repo), ("--store", &store)]
        .map(|(name, path)| path.as_ref().map(|path| flag(name, path)).unwrap_or_default());
    repo + &store
}

/// Sets the flags that [`add_to`] adds from now on.
pub(crate) fn set_for_hints(args: &LocationArgs, nats: Option<&NatsSettings>) {
    // The first call wins: the first location that a command opens is the one that the user gave.
    let _ = FLAGS.set(of(args, nats));
}

/// Adds the flags to each `callboard` command between backticks that takes them and has none.
pub(crate) fn add_to(text: &str) -> Cow<'_, str> {
    match FLAGS.get() {
        Some(flags) if !flags.is_empty() => with_flags(text, flags).into(),
        Some(_) | None => text.into(),
    }
}

fn with_flags(text: &str, flags: &str) -> String {
    // Every second piece is between backticks.
    let pieces = text.split('`').enumerate().map(|(number, piece)| {
        let subcommand = piece.strip_prefix("callboard ").and_then(|words| words.split(' ').next());
        // After a pipe the flags would be given to the last command, not to `callboard`.
        let has_none = !piece.contains(" --store") && !piece.contains(" --repo") && !piece.contains('|');
        match subcommand {
            Some(name) if number % 2 == 1 && has_none && cli::accepts_location(name) => {
                format!("{piece}{flags}")
            }
            Some(_) | None => piece.to_owned(),
        }
    });
    pieces.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_added_to_commands_that_take_them_and_have_none() {
        let flags = " --store nats://h:4222";
        assert_eq!(
            with_flags(
                "run `callboard watch a` to follow it, `callboard explain E023` for more; callboard ls",
                flags
            ),
            "run `callboard watch a --store nats://h:4222` to follow it, `callboard explain E023` for more; callboard ls"
        );
        for unchanged in
            ["`callboard import FILE --store DIR`", "run `callboard` on `h`", "`kill -CONT 4711`", "a ` b"]
        {
            assert_eq!(with_flags(unchanged, flags), unchanged);
        }
    }
}
