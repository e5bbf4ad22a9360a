//! Durations, counts and paths for people and for settings.

use std::path::Path;
use std::time::Duration;

/// Formats a number with its noun: "1 run", "2 runs".
pub(crate) fn count(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

/// Formats a duration as callboard.toml and the tools of NATS read it: `90s`, `1500ms`.
pub(crate) fn setting_duration(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ms", duration.as_millis()),
    }
}

/// Quotes a path as one word of a shell command.
pub(crate) fn shell_word(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_paths_and_settings_are_formatted() {
        assert_eq!([90_000, 1_500].map(Duration::from_millis).map(setting_duration), ["90s", "1500ms"]);
        assert_eq!(shell_word(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(shell_word(Path::new("/it's mine")), r"'/it'\''s mine'");
        assert_eq!([count(1, "run", "runs"), count(0, "run", "runs")], ["1 run", "0 runs"]);
    }
}
