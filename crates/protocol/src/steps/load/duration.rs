//! How people write a length of time: `90`, `90s`, `10m`, `1h30m`, `500ms`.

use std::time::Duration;

/// Longer than this is taken for a slip of the pen.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Units from long to short; each may appear once, in this order, so that `30m1h` is not read as if it were meant.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Why a text is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    #[error("`{0}` is not a length of time; write seconds, or `90s`, `10m`, `2h`, `1h30m`")]
    Unreadable(String),
    #[error("it must be longer than nothing")]
    Zero,
    #[error("`{0}` is more than a year")]
    TooLong(String),
}

/// Reads a positive length of time of at most a year: a number of seconds, or numbers with units `h`, `m`, `s`, `ms`.
pub fn parse_duration(text: &str) -> Result<Duration, BadDuration> {
    let unreadable = || BadDuration::Unreadable(text.to_owned());
    let too_long = || BadDuration::TooLong(text.to_owned());
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let length = if plain {
        let seconds = text.parse::<f64>().map_err(|_| unreadable())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| too_long())?
    } else {
        Duration::from_millis(milliseconds(text).ok_or_else(unreadable)?.ok_or_else(too_long)?)
    };
    match length {
        Duration::ZERO => Err(BadDuration::Zero),
        length if length > LONGEST => Err(too_long()),
        length => Ok(length),
    }
}

/// `None`: not of the form; `Some(None)`: of the form, but too big to count.
fn milliseconds(text: &str) -> Option<Option<u64>> {
    let mut total = Some(0_u64);
    let mut units = UNITS.iter();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        let letters = after.len() - after.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
        let (unit, after) = after.split_at(letters);
        let (_, size) = units.find(|(name, _)| *name == unit)?;
        if number.is_empty() {
            return None;
        }
        total = total.and_then(|total| total.checked_add(number.parse::<u64>().ok()?.checked_mul(*size)?));
        rest = after;
    }
    Some(total)
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
        for text in
            ["", "s", "10 m", "10x", "m10", "30m1h", "1h1h", "1.5h", "-5", "1e3", ".", "１０m", "1h30", "∞"]
        {
            assert_eq!(parse_duration(text), Err(BadDuration::Unreadable(text.to_owned())), "{text}");
        }
        for text in ["0", "0.0", "0s", "0h0m"] {
            assert_eq!(parse_duration(text), Err(BadDuration::Zero), "{text}");
        }
        for text in ["9999h", "99999999999999999999h", "31536001", "9".repeat(400).as_str()] {
            assert_eq!(parse_duration(text), Err(BadDuration::TooLong(text.to_owned())), "{text}");
        }
    }
}
