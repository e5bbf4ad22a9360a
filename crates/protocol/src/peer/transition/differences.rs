//! Where a document differs from what its transition would have made of the old one.

use serde_json::Value;

use crate::check::{Violation, entry, member};
use crate::peer::change::{ChangeError, Foreign};
use crate::peer::document::{Document, Phase};

/// What a transition may not touch has no rule of its own in the seed's lists: it follows from the matrix.
const MATRIX: &str = "matrix";

/// Every place where `new` is not as expected, under the rule that is broken there.
pub(super) fn differences(expected: &Document, new: &Document) -> Vec<Violation> {
    if expected == new {
        return Vec::new();
    }
    // Foreign fields first, under their own rule; then the same again as if they had been left alone.
    let mut without = new.clone();
    Foreign::of(expected).put(&mut without);
    let (expected, without, new) = (expected.to_value(), without.to_value(), new.to_value());
    let mut places = Vec::new();
    differ(&without, &new, "", &mut places);
    let mut found: Vec<_> = places.into_iter().map(|place| violation("F8", place)).collect();
    let mut places = Vec::new();
    differ(&expected, &without, "", &mut places);
    let last = expected["history"].as_array().map_or(0, |history| history.len().saturating_sub(1));
    found.extend(places.into_iter().map(|place| {
        let rule = match place.pointer.as_str() {
            "/sequence" => "S1",
            pointer if pointer == format!("/history/{last}/sequence") => "S4",
            _ => MATRIX,
        };
        violation(rule, place)
    }));
    found
}

struct Place {
    pointer: String,
    expected: Option<Value>,
    found: Option<Value>,
}

fn differ(expected: &Value, found: &Value, pointer: &str, places: &mut Vec<Place>) {
    match (expected, found) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys().filter(|key| !one.contains_key(*key)));
            for key in keys {
                between(one.get(key), other.get(key), member(pointer, key), places);
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                between(one.get(index), other.get(index), entry(pointer, index), places);
            }
        }
        (one, other) => between(Some(one), Some(other), pointer.to_owned(), places),
    }
}

fn between(one: Option<&Value>, other: Option<&Value>, pointer: String, places: &mut Vec<Place>) {
    match (one, other) {
        (Some(one), Some(other)) if one == other => {}
        (Some(one), Some(other))
            if one.is_object() && other.is_object() || one.is_array() && other.is_array() =>
        {
            differ(one, other, &pointer, places);
        }
        (one, other) => places.push(Place { pointer, expected: one.cloned(), found: other.cloned() }),
    }
}

fn violation(rule: &'static str, place: Place) -> Violation {
    let Place { pointer, expected, found } = place;
    let (message, repair) = match (&expected, &found) {
        (Some(expected), Some(found)) => {
            let (expected, found) = (short(expected), short(found));
            (
                format!("`{pointer}` is {found}; this write would have left or made it {expected}"),
                format!("write {expected}"),
            )
        }
        (None, Some(_)) => (format!("`{pointer}` is not this write's to add"), "leave it out".to_owned()),
        (Some(expected), None) => {
            (format!("`{pointer}` is not this write's to take away"), format!("write {}", short(expected)))
        }
        (None, None) => (format!("`{pointer}` differs"), "leave it as it was".to_owned()),
    };
    Violation { rule, pointer, message, repair }
}

/// A value as far as it fits into a line.
fn short(value: &Value) -> String {
    const ROOM: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(ROOM) {
        Some((end, _)) => format!("`{}…`", &text[..end]),
        None => format!("`{text}`"),
    }
}

pub(super) fn not_reusable(phase: Phase, error: &ChangeError) -> Violation {
    Violation {
        rule: MATRIX,
        pointer: format!("/phases/{phase}/reused_from"),
        message: error.to_string(),
        repair: "name the cycle in `context.continues`, or leave it out".to_owned(),
    }
}
