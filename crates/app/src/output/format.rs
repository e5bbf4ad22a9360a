//! Durations, sizes, counts and paths for people.

use std::path::Path;
use std::time::Duration;

/// Formats a duration: `1.5 s`, `2 min 03 s`, `1 h 02 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a size in binary units: `1.5 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = next;
    }
    if bytes < 1024 { format!("{bytes} bytes") } else { format!("{amount:.1} {unit}") }
}

/// Formats a number with its noun: "1 run", "2 runs".
pub(crate) fn count(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}

/// Quotes a path as one word of a shell command.
pub(crate) fn shell_word(path: &Path) -> String {
    shell_words::quote(&path.to_string_lossy()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_counts_and_paths_are_formatted_for_people() {
        assert_eq!([size(7), size(1536), size(5 << 30)], ["7 bytes", "1.5 KiB", "5.0 GiB"]);
        assert_eq!(shell_word(Path::new("/a/b-c.d")), "/a/b-c.d");
        assert_eq!(shell_word(Path::new("/it's mine")), r"'/it'\''s mine'");
        assert_eq!([count(1, "run", "runs"), count(0, "run", "runs")], ["1 run", "0 runs"]);
    }
}
