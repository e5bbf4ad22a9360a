//! Lengths of time as people write them: `90`, `90s`, `10m`, `1h30m`, `500ms`.

use std::time::Duration;

use jiff::SignedDuration;

/// Longer values are taken for typing errors.
const MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    #[error("`{0}` is not a length of time; write seconds, or `90s`, `10m`, `2h`, `1h30m`")]
    Unreadable(String),
    #[error("it must be longer than zero")]
    Zero,
    #[error("`{0}` is more than a year")]
    TooLong(String),
}

/// Parses a positive length of time of at most a year: a number of seconds, or numbers with the units `h`, `m`, `s` and
/// `ms`, each at most once and from long to short.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let unreadable = || BadDuration::Unreadable(text.to_owned());
    let too_long = || BadDuration::TooLong(text.to_owned());
    let length = if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        let seconds = text.parse::<f64>().map_err(|_| unreadable())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| too_long())?
    } else if text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'h' | b'm' | b's')) {
        text.parse::<SignedDuration>().map_err(|_| unreadable())?.unsigned_abs()
    } else {
        // jiff would read more, such as `PT1H`, `1.5 hours` and `5m ago`, which the JSON Schema for editors does not allow.
        return Err(unreadable());
    };
    match length {
        Duration::ZERO => Err(BadDuration::Zero),
        length if length > MAX => Err(too_long()),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        for (text, milliseconds) in [
            ("90", 90_000),
            ("1.5", 1_500),
            ("90s", 90_000),
            ("10m", 600_000),
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("1h30m5s250ms", 5_405_250),
            ("500ms", 500),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_length_of_time_is_refused() {
        for text in [
            "",
            "s",
            "10 m",
            "10x",
            "m10",
            "30m1h",
            "1h1h",
            "1.5h",
            "-5",
            "1e3",
            ".",
            "１０m",
            "1h30",
            "∞",
            "PT1H",
            "5m ago",
            "1hour",
            "1hm",
            "1H",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_duration(text), Err(BadDuration::Unreadable(text.to_owned())), "{text}");
        }
        for text in ["0", "0.0", "0s", "0h0m"] {
            assert_eq!(parse_duration(text), Err(BadDuration::Zero), "{text}");
        }
        for text in ["9999h", "999999999999h", "31536001", "9".repeat(400).as_str()] {
            assert_eq!(parse_duration(text), Err(BadDuration::TooLong(text.to_owned())), "{text}");
        }
    }
}
