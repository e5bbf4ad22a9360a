//! Times in the document.

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A time in the document. A time that was read without a fraction is written without one: other programs leave out the
/// microseconds if they are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Time {
    stamp: Timestamp,
    precision: Precision,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Precision {
    Microseconds,
    Seconds,
}

impl Time {
    pub fn stamp(self) -> Timestamp {
        self.stamp
    }
}

impl From<Timestamp> for Time {
    fn from(stamp: Timestamp) -> Self {
        Self { stamp, precision: Precision::Microseconds }
    }
}

impl TryFrom<String> for Time {
    type Error = jiff::Error;
    fn try_from(text: String) -> Result<Self, jiff::Error> {
        let precision = if text.contains('.') { Precision::Microseconds } else { Precision::Seconds };
        Ok(Self { stamp: text.parse()?, precision })
    }
}

impl From<Time> for String {
    fn from(time: Time) -> String {
        match (time.precision, time.stamp.to_jiff()) {
            (Precision::Seconds, Some(timestamp)) => format!("{timestamp:.0}"),
            (Precision::Microseconds, _) | (_, None) => time.stamp.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_it_was_read() {
        for text in ["2025-01-15T14:30:00Z", "2025-01-15T14:30:00.000000Z", "2025-01-15T14:30:00.123456Z"] {
            assert_eq!(String::from(Time::try_from(text.to_owned()).unwrap()), text);
        }
    }
}
