//! What an unquoted word of YAML is: nothing, a truth value, a number, or text.

use serde_json::{Number, Value};

/// How YAML reads a word that is not quoted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Number),
    /// `yes`, `no`, `on`, `off`: a truth value to YAML 1.1, text to YAML 1.2. Where it matters we ask for quotes.
    OldBool,
    Text,
}

impl Scalar {
    /// Reads a word by the core schema of YAML 1.2.
    pub(super) fn of(word: &str) -> Self {
        match word {
            _ if is_null(word) => Self::Null,
            "true" | "True" | "TRUE" => Self::Bool(true),
            "false" | "False" | "FALSE" => Self::Bool(false),
            "yes" | "Yes" | "YES" | "no" | "No" | "NO" | "on" | "On" | "ON" | "off" | "Off" | "OFF" => {
                Self::OldBool
            }
            _ => number(word).map_or(Self::Text, Self::Number),
        }
    }

    /// The word as JSON; what only YAML 1.1 takes for a truth value stays text.
    pub(super) fn json(self, word: &str) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::OldBool | Self::Text => Value::from(word),
        }
    }

    /// What to call it in a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) | Self::OldBool => "a truth value",
            Self::Number(_) => "a number",
            Self::Text => "a text",
        }
    }
}

pub(super) fn is_null(word: &str) -> bool {
    matches!(word, "" | "~" | "null" | "Null" | "NULL")
}

/// Integers that fit 64 bits, and finite decimals; `.inf` and the like have no JSON and stay text.
fn number(word: &str) -> Option<Number> {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    let radix = |prefix: &str, radix| {
        let digits = word.strip_prefix(prefix).filter(|digits| !digits.starts_with('+'))?;
        u64::from_str_radix(digits, radix).ok().map(Number::from)
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Some(number);
    }
    let looks_right = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.contains(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'));
    if !looks_right {
        return None;
    }
    let word = word.strip_prefix('+').unwrap_or(word);
    (word.parse::<u64>().map(Number::from).ok())
        .or_else(|| word.parse::<i64>().map(Number::from).ok())
        .or_else(|| word.parse::<f64>().ok().and_then(Number::from_f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_yaml_reads_them() {
        for (word, json) in [
            ("", "null"),
            ("~", "null"),
            ("true", "true"),
            ("FALSE", "false"),
            ("yes", r#""yes""#),
            ("12", "12"),
            ("+12", "12"),
            ("-7", "-7"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("1.5", "1.5"),
            (".5", "0.5"),
            ("1e3", "1000.0"),
            ("007", "7"),
            ("1.2.3", r#""1.2.3""#),
            ("e5", r#""e5""#),
            ("1-2", r#""1-2""#),
            ("0x+1", r#""0x+1""#),
            (".", r#"".""#),
            ("++1", r#""++1""#),
            (".inf", r#"".inf""#),
            ("word", r#""word""#),
        ] {
            assert_eq!(Scalar::of(word).json(word).to_string(), json, "{word}");
        }
    }
}
