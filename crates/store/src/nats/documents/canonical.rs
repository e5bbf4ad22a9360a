//! A canonical form of JSON for digests, so that a client that only reformats a document changes nothing.
//!
//! RFC 8785 (JCS) does not fit: it rounds integers above 2^53, and two documents that differ there would have one
//! digest.

use std::ops::Range;

use serde_json::{Number, Value};

/// The range of integers that serde_json reads without loss: -2^63 to 2^64.
const INTEGERS: Range<f64> = -9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0;

/// Returns the value without spaces and with sorted members.
pub(in crate::nats) fn canonical(value: &Value) -> Vec<u8> {
    let mut text = Vec::new();
    write(value, &mut text);
    text
}

fn write(value: &Value, text: &mut Vec<u8>) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            write_list(text, *b"{}", members, |(name, value), text| {
                push_json(name, text);
                text.push(b':');
                write(value, text);
            });
        }
        Value::Array(entries) => write_list(text, *b"[]", entries, write),
        Value::Number(number) => match as_integer(number) {
            Some(integer) => push_json(&integer, text),
            None => push_json(number, text),
        },
        Value::Null | Value::Bool(_) | Value::String(_) => push_json(value, text),
    }
}

fn write_list<T>(
    text: &mut Vec<u8>,
    [open, close]: [u8; 2],
    entries: impl IntoIterator<Item = T>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    text.push(open);
    for (index, entry) in entries.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write(entry, text);
    }
    text.push(close);
}

fn push_json(value: &impl serde::Serialize, text: &mut Vec<u8>) {
    serde_json::to_writer(text, value).expect("BUG: texts and numbers are JSON");
}

/// Returns `1.0` and `1e0` as the integer 1. Clients that have only floating point write numbers that way.
fn as_integer(number: &Number) -> Option<i128> {
    let value = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "it has no fraction and is small enough")]
    (value.fract() == 0.0 && INTEGERS.contains(&value)).then_some(value as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical_text(text: &str) -> String {
        String::from_utf8(canonical(&serde_json::from_str(text).unwrap())).unwrap()
    }

    #[test]
    fn equal_values_have_one_canonical_form() {
        assert_eq!(
            canonical_text(r#"{ "b": [1.0, -2e0, 0.5], "a": {"ü": "\u00fc\n", "é": null} }"#),
            canonical_text(r#"{"a":{"é":null,"ü":"ü\n"},"b":[1,-2,0.5]}"#)
        );
        assert_eq!(canonical_text(r#"{"b":[true,{}],"a":-0.0}"#), r#"{"a":0,"b":[true,{}]}"#);
        assert_ne!(canonical_text("[1,2]"), canonical_text("[2,1]"));
        assert_ne!(canonical_text("18446744073709551615"), canonical_text("18446744073709551614"));
        // Clients that have only floating point write large integers without an exponent.
        for (ours, theirs) in [
            ("1e16", "10000000000000000"),
            ("-1e18", "-1000000000000000000"),
            ("1e19", "10000000000000000000"),
            ("1e20", "100000000000000000000"),
        ] {
            assert_eq!(canonical_text(ours), canonical_text(theirs));
        }
    }
}
