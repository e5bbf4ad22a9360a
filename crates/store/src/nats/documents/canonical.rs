//! A canonical form of JSON for digests, so that a client that only reformats a document changes nothing.
//!
//! RFC 8785 (JCS) does not fit: it rounds integers above 2^53, and two documents that differ there would have one
//! digest.

use serde_json::{Number, Value};

/// Returns the value without spaces and with sorted members.
pub(in crate::nats) fn canonical(value: &Value) -> Vec<u8> {
    let mut value = value.clone();
    value.sort_all_objects();
    unify_numbers(&mut value);
    serde_json::to_vec(&value).expect("BUG: a value is JSON")
}

/// Makes `1.0` and `1e0` the integer 1. Clients that have only floating point write numbers that way.
fn unify_numbers(value: &mut Value) {
    match value {
        Value::Object(members) => members.values_mut().for_each(unify_numbers),
        Value::Array(entries) => entries.iter_mut().for_each(unify_numbers),
        Value::Number(number) => {
            if let Some(integer) = as_integer(number) {
                *number = integer;
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Returns `None` for integers beyond 64 bits, too: serde_json reads these as floating point in any notation.
fn as_integer(number: &Number) -> Option<Number> {
    let value = number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it has no fraction, and 128 bits that are too few saturate"
    )]
    Number::from_i128(value as i128)
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
