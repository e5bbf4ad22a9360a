//! The differences between a document and the one that its transition should have made. `docs/peer.md` lists the rules (`F8`).

use serde_json::Value;

use super::TRANSITION_RULE;
use crate::check::{Violation, entry_pointer, member_pointer, shortened};
use crate::peer::change::{ChangeError, UnknownFields};
use crate::peer::document::{Document, Phase};

/// Returns every difference, under the rule that it breaks.
pub(super) fn differences(expected: &Document, new: &Document) -> Vec<Violation> {
    if expected == new {
        return Vec::new();
    }
    // A change of an unknown field, which the format does not define, breaks F8. `unknown_restored` is `new` with the expected
    // unknown fields, so the two differ only in unknown fields.
    let mut unknown_restored = new.clone();
    UnknownFields::of(expected).put(&mut unknown_restored);
    let (expected, unknown_restored, new) =
        (expected.to_value(), unknown_restored.to_value(), new.to_value());
    let mut unknown = Vec::new();
    collect_differences(&unknown_restored, &new, "", &mut unknown);
    let mut found: Vec<_> = unknown.into_iter().map(|difference| violation("F8", difference)).collect();
    let mut others = Vec::new();
    collect_differences(&expected, &unknown_restored, "", &mut others);
    let last = expected["history"].as_array().map_or(0, |history| history.len().saturating_sub(1));
    found.extend(others.into_iter().map(|difference| {
        let rule = match difference.pointer.as_str() {
            "/sequence" => "S1",
            pointer if pointer == format!("/history/{last}/sequence") => "S4",
            _ => TRANSITION_RULE,
        };
        violation(rule, difference)
    }));
    found
}

/// A value that differs; `None` if it is missing on that side.
struct Difference {
    pointer: String,
    expected: Option<Value>,
    found: Option<Value>,
}

fn collect_differences(expected: &Value, found: &Value, pointer: &str, differences: &mut Vec<Difference>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            for key in keys {
                compare(one.get(key), other.get(key), member_pointer(pointer, key), differences);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                compare(one.get(index), other.get(index), entry_pointer(pointer, index), differences);
            }
        }
        (one, other) => compare(Some(one), Some(other), pointer.to_owned(), differences),
    }
}

fn compare(one: Option<&Value>, other: Option<&Value>, pointer: String, differences: &mut Vec<Difference>) {
    match (one, other) {
        (Some(one), Some(other)) if one == other => {}
        (Some(one), Some(other))
            if one.is_object() && other.is_object() || one.is_array() && other.is_array() =>
        {
            collect_differences(one, other, &pointer, differences);
        }
        (one, other) => {
            differences.push(Difference { pointer, expected: one.cloned(), found: other.cloned() });
        }
    }
}

fn violation(rule: &'static str, difference: Difference) -> Violation {
    let Difference { pointer, expected, found } = difference;
    let (message, repair) = match (&expected, &found) {
        (Some(expected), Some(found)) => {
            let (expected, found) = (shortened(expected), shortened(found));
            (
                format!("`{pointer}` is {found}, but must be {expected} after this write"),
                format!("write {expected}"),
            )
        }
        (None, Some(_)) => (format!("this write may not add `{pointer}`"), "leave it out".to_owned()),
        (Some(expected), None) => {
            (format!("this write may not remove `{pointer}`"), format!("write {}", shortened(expected)))
        }
        (None, None) => (format!("`{pointer}` differs"), "leave it as it was".to_owned()),
    };
    Violation { rule, pointer, message, repair }
}

/// Returns the violation by a phase that may not be taken over from another cycle.
pub(super) fn not_reusable(phase: Phase, error: &ChangeError) -> Violation {
    Violation {
        rule: TRANSITION_RULE,
        pointer: format!("/phases/{phase}/reused_from"),
        message: error.to_string(),
        repair: "name the cycle in `context.continues`, or leave it out".to_owned(),
    }
}
