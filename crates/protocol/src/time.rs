//! Timestamps: UTC with microseconds, printed exactly as in the files of the original.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time of the engine's clock. Prints as `2025-01-15T14:30:00.123456Z`.
///
/// This crate reads no clock: the caller that creates an entry passes the time in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Truncates a timestamp to microseconds.
    pub fn from_jiff(timestamp: jiff::Timestamp) -> Self {
        Self(timestamp.as_microsecond())
    }

    /// Converts to a calendar time; `None` if it is out of the range of calendars.
    pub fn to_jiff(self) -> Option<jiff::Timestamp> {
        jiff::Timestamp::from_microsecond(self.0).ok()
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    #[must_use]
    pub fn plus(self, length: std::time::Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(length.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_jiff() {
            Some(timestamp) => write!(f, "{timestamp:.6}"),
            None => write!(f, "{}µs", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;
    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        Ok(Self::from_jiff(text.parse()?))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = jiff::Error;
    fn try_from(text: String) -> Result<Self, jiff::Error> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(stamp: Timestamp) -> String {
        stamp.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_prints_as_in_the_files_of_the_original() {
        for text in ["2025-01-15T14:30:00.123456Z", "2025-01-15T14:30:05.000000Z"] {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), text);
        }
    }
}
