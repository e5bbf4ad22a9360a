//! Which value a YAML word without quotes has.

use serde_json::Number;

use super::Value;

impl Value {
    /// Reads a plain scalar (a word without quotes) by the core schema of YAML 1.2, and the same way JSON's literals and numbers.
    /// `yes`, `on` and the like are booleans only in YAML 1.1. They stay text, marked as ambiguous.
    pub(super) fn from_plain_scalar(word: String) -> Self {
        match word.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => Self::Null,
            "true" | "True" | "TRUE" => Self::Bool { value: true, word },
            "false" | "False" | "FALSE" => Self::Bool { value: false, word },
            "yes" | "Yes" | "YES" | "no" | "No" | "NO" | "on" | "On" | "ON" | "off" | "Off" | "OFF" => {
                Self::AmbiguousBool(word)
            }
            other => match number(other) {
                Some(value) => Self::Number { value, word },
                None => Self::Text(word),
            },
        }
    }
}

/// Returns whether a text would be a number if it had no quotes.
pub(crate) fn is_number(text: &str) -> bool {
    number(text).is_some()
}

/// Reads a finite number; `None` for `.inf` and the like, which JSON cannot hold.
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
    use crate::located::{Node, SourcePos};

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
            let node = Node { pos: SourcePos::START, value: Value::from_plain_scalar(word.to_owned()) };
            assert_eq!(node.to_json().to_string(), json, "{word}");
        }
    }
}
