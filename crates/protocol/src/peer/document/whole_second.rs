//! Timestamps of the document: UTC in whole seconds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A point in time in whole seconds, where a [`Timestamp`] has microseconds: `2025-08-05T10:00:00Z`. No other spelling is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WholeSecond(jiff::Timestamp);

/// The text is not in the one spelling that a [`WholeSecond`] has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a time in UTC with whole seconds, such as `2025-08-05T10:00:00Z`")]
pub struct BadWholeSecond;

impl From<Timestamp> for WholeSecond {
    /// Truncates to the second, so that the order of two timestamps is preserved.
    fn from(stamp: Timestamp) -> Self {
        let second = stamp.as_micros().div_euclid(1_000_000);
        let bounds = jiff::Timestamp::MIN.as_second()..=jiff::Timestamp::MAX.as_second();
        let second = second.clamp(*bounds.start(), *bounds.end());
        Self(jiff::Timestamp::from_second(second).expect("BUG: a clamped second is out of range"))
    }
}

impl From<WholeSecond> for Timestamp {
    fn from(second: WholeSecond) -> Self {
        Self::from_jiff(second.0)
    }
}

impl fmt::Display for WholeSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}", self.0)
    }
}

impl FromStr for WholeSecond {
    type Err = BadWholeSecond;

    fn from_str(text: &str) -> Result<Self, BadWholeSecond> {
        let second = Self(text.parse().map_err(|_| BadWholeSecond)?);
        if second.to_string() == text { Ok(second) } else { Err(BadWholeSecond) }
    }
}

impl TryFrom<String> for WholeSecond {
    type Error = BadWholeSecond;
    fn try_from(text: String) -> Result<Self, BadWholeSecond> {
        text.parse()
    }
}

impl From<WholeSecond> for String {
    fn from(second: WholeSecond) -> Self {
        second.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_specified_spelling_is_accepted() {
        let text = "2025-08-05T10:00:00Z";
        assert_eq!(text.parse::<WholeSecond>().unwrap().to_string(), text);
        for text in [
            "2025-08-05T10:00:00.0Z",
            "2025-08-05T10:00:00.5Z",
            "2025-08-05T10:00:00+00:00",
            "2025-08-05 10:00:00Z",
            "2025-08-05T10:00:00",
            "2025-08-05T10:00Z",
            "2025-08-05T10:00:00z",
            "2025-08-05T23:59:60Z",
            "yesterday",
        ] {
            assert_eq!(text.parse::<WholeSecond>(), Err(BadWholeSecond), "{text}");
        }
    }

    #[test]
    fn a_stamp_is_truncated_to_the_second() {
        for (micros, text) in
            [(1_999_999, "1970-01-01T00:00:01Z"), (0, "1970-01-01T00:00:00Z"), (-1, "1969-12-31T23:59:59Z")]
        {
            assert_eq!(WholeSecond::from(Timestamp::from_micros(micros)).to_string(), text);
        }
        assert!(
            WholeSecond::from(Timestamp::from_micros(i64::MIN))
                < WholeSecond::from(Timestamp::from_micros(i64::MAX))
        );
    }
}
