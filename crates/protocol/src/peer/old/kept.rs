//! What of the old keys is not in the document: it is kept beside it, so that nothing is lost.

use serde_json::{Map, Value};

use super::account::Source;
use super::claim::{Claim, Fragment};

/// The root field under which it is kept, by key.
pub const MIGRATED_FROM: &str = "migrated_from";

/// Divides each fragment into what the document has, word for word, and the rest.
pub(super) fn keep(
    document: &Value,
    fragments: &[Fragment],
    claims: &[Claim],
) -> (Vec<Source>, Map<String, Value>) {
    let (mut sources, mut kept) = (Vec::new(), Map::new());
    for fragment in fragments {
        let mut rest = Some(fragment.value.clone());
        let mut gave = Vec::new();
        for claim in claims.iter().filter(|claim| claim.key == fragment.key) {
            let (Some(place), pointer) = (&claim.place, claim.slot.pointer()) else { continue };
            if document.pointer(&pointer) == fragment.value.pointer(place) {
                rest = rest.and_then(|rest| without(rest, place));
                gave.push(pointer);
            }
        }
        gave.sort();
        gave.dedup();
        sources.push(Source {
            key: fragment.key.clone(),
            generation: Some(fragment.rank.generation),
            gave,
            rest: rest.is_some(),
        });
        if let Some(rest) = rest {
            kept.insert(fragment.key.clone(), rest);
        }
    }
    (sources, kept)
}

/// The value without what stands at this place, and without what is empty for that; none if nothing is left.
fn without(mut value: Value, place: &str) -> Option<Value> {
    let (around, name) = place.rsplit_once('/')?;
    let Some(Value::Object(fields)) = value.pointer_mut(around) else { return Some(value) };
    if fields.shift_remove(&name.replace("~1", "/").replace("~0", "~")).is_none() {
        return Some(value);
    }
    if fields.is_empty() { without(value, around) } else { Some(value) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_taken_out_leaves_no_empty_shell() {
        let value = json!({"a": {"b": {"c": 1}}, "d": {}, "e": [1]});
        let rest = without(value.clone(), "/a/b/c").unwrap();
        assert_eq!(rest, json!({"d": {}, "e": [1]}));
        assert_eq!(without(value.clone(), "/e/0"), Some(value.clone()));
        assert_eq!(without(value.clone(), "/x/y"), Some(value.clone()));
        assert_eq!(without(value, ""), None);
        assert_eq!(without(json!({"a": {"b": 1}}), "/a/b"), None);
    }
}
