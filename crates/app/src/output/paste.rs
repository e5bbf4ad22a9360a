//! What we tell people to type can be typed as it stands: who said where the store is on the command line has to say it again.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::OnceLock;

use store::NatsSettings;

use crate::cli;
use crate::config::StoreAddress;
use crate::output::shell_word;
use crate::workspace::LocationArgs;

/// The flags of this command that the next one needs, too.
static FLAGS: OnceLock<String> = OnceLock::new();

/// The flags that lead to the same place. A password in an address is not repeated.
pub(crate) fn flags(location: &LocationArgs, nats: Option<&NatsSettings>) -> String {
    let store =
        location.store.as_ref().and_then(|typed| match (nats, StoreAddress::read(typed.as_os_str())) {
            (Some(settings), _) => Some(PathBuf::from(settings.server())),
            // Nothing else that was set could be read.
            (None, Ok(StoreAddress::Nats(settings))) => Some(settings.server().into()),
            (None, Ok(StoreAddress::Directory(_))) => Some(typed.clone()),
            (None, Err(_)) => None,
        });
    let flag = |name: &str, path: &PathBuf| format!(" {name} {}", shell_word(path));
    let [repo, store] = [("--repo", &location.repo), ("--store", &store)]
        .map(|(name, path)| path.as_ref().map(|path| flag(name, path)).unwrap_or_default());
    repo + &store
}

/// Whatever is told from now on names this place, too.
pub(crate) fn remember(location: &LocationArgs, nats: Option<&NatsSettings>) {
    // The first place that a command looks at is the one it was given.
    let _ = FLAGS.set(flags(location, nats));
}

/// Adds the flags to each command of ours in a text, between backticks, that takes them and has none of its own.
pub(crate) fn completed(text: &str) -> Cow<'_, str> {
    match FLAGS.get() {
        Some(flags) if !flags.is_empty() => complete(text, flags).into(),
        Some(_) | None => text.into(),
    }
}

fn complete(text: &str, flags: &str) -> String {
    // What stands between backticks is every second piece.
    let pieces = text.split('`').enumerate().map(|(number, piece)| {
        let verb = piece.strip_prefix("callboard ").and_then(|words| words.split(' ').next());
        let is_open = !piece.contains(" --store") && !piece.contains(" --repo") && !piece.contains('|');
        match verb {
            Some(verb) if number % 2 == 1 && is_open && cli::accepts_location(verb) => {
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
    fn commands_are_completed_where_they_take_the_flags_and_have_none_of_their_own() {
        let flags = " --store nats://h:4222";
        assert_eq!(
            complete(
                "`callboard watch a` follows it, `callboard explain E023` tells more; callboard ls",
                flags
            ),
            "`callboard watch a --store nats://h:4222` follows it, `callboard explain E023` tells more; callboard ls"
        );
        for as_it_is in
            ["`callboard import FILE --store DIR`", "run `callboard` on `h`", "`kill -CONT 4711`", "a ` b"]
        {
            assert_eq!(complete(as_it_is, flags), as_it_is);
        }
    }
}
