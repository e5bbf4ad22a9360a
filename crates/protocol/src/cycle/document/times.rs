//! Times and versions, as the document writes them.

use jiff::tz::{Offset, TimeZone};

use crate::Timestamp;

/// Formats a time with an offset: `2026-01-22T10:00:00+08:00`.
pub fn format(at: Timestamp, utc_offset_minutes: i32) -> String {
    let offset = Offset::from_seconds(utc_offset_minutes.saturating_mul(60)).unwrap_or(Offset::UTC);
    match at.to_jiff() {
        Some(timestamp) => {
            timestamp.to_zoned(TimeZone::fixed(offset)).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
        }
        None => at.to_string(),
    }
}

/// Reads a time in any RFC 3339 form; `None` for a text that is no time.
pub fn parse(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

/// Corrects a time that another program wrote in UTC+8 but marked as UTC. Returns `None` for any other text.
pub fn correct_shifted_time(text: &str) -> Option<String> {
    const SHIFT: i64 = 8 * 3600 * 1_000_000;
    let stamp = text.ends_with('Z').then(|| parse(text)).flatten()?;
    Some(format(Timestamp::from_micros(stamp.as_micros() - SHIFT), 8 * 60))
}

/// Returns the version of a section that is written in this iteration: `1.(iteration - 1).0`, or the next patch number if
/// `previous` is of the same iteration.
pub fn next_version(previous: Option<&str>, iteration: u32) -> String {
    let minor = iteration.saturating_sub(1);
    let patch = previous.and_then(|version| {
        let mut numbers = version.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(1)), Some(Ok(found)), Some(Ok(patch))) if found == minor => Some(patch + 1),
            _ => None,
        }
    });
    format!("1.{minor}.{}", patch.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_an_explicit_offset() {
        let at: Timestamp = "2026-01-22T02:00:00Z".parse().unwrap();
        assert_eq!(format(at, 480), "2026-01-22T10:00:00+08:00");
        assert_eq!(format(at, -210), "2026-01-21T22:30:00-03:30");
        assert_eq!(format(at, 0), "2026-01-22T02:00:00+00:00");
        assert_eq!(parse("2026-01-22T10:00:00+08:00"), Some(at));
        assert_eq!(parse("..."), None);
    }

    #[test]
    fn only_times_marked_as_utc_are_shifted_back() {
        assert_eq!(
            correct_shifted_time("2026-01-22T10:00:00.000Z").as_deref(),
            Some("2026-01-22T10:00:00+08:00")
        );
        assert_eq!(correct_shifted_time("2026-01-22T10:00:00+08:00"), None);
        assert_eq!(correct_shifted_time("..."), None);
    }

    #[test]
    fn the_minor_version_counts_iterations_and_the_patch_versions_within_one() {
        assert_eq!(next_version(None, 1), "1.0.0");
        assert_eq!(next_version(Some("1.0.0"), 1), "1.0.1");
        assert_eq!(next_version(Some("1.0.1"), 2), "1.1.0");
        assert_eq!(next_version(Some("2.0"), 3), "1.2.0");
    }
}
