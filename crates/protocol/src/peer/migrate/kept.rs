//! What of the old keys is not in the document: it is kept beside it, so that nothing is lost.

use serde_json::{Map, Value};

use super::account::Source;
use super::claim::{Claim, Fragment, Slot};

/// The root field under which it is kept, by key.
pub const MIGRATED_FROM: &str = "migrated_from";

/// Divides each fragment into what the document has, word for word, and the rest. `believed`: whose word each fact is.
pub(super) fn keep(
    document: &Value,
    fragments: &[Fragment],
    claims: &[Claim],
    believed: &[(Slot, String)],
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
        let decided =
            believed.iter().filter(|(slot, key)| *key == fragment.key && came_about(document, *slot));
        let decided =
            decided.map(|(slot, _)| slot.pointer()).filter(|pointer| !gave.contains(pointer)).collect();
        sources.push(Source {
            key: fragment.key.clone(),
            generation: Some(fragment.rank.generation),
            gave: sorted(gave),
            decided: sorted(decided),
            rest: rest.is_some(),
        });
        if let Some(rest) = rest {
            kept.insert(fragment.key.clone(), rest);
        }
    }
    (sources, kept)
}

/// Whether a fact says something in the document: what is said of phases that are pending there does not.
fn came_about(document: &Value, slot: Slot) -> bool {
    match slot {
        Slot::Phase(phase, _) => document["phases"][phase.as_str()]["status"] != "pending",
        Slot::Summary | Slot::Insights => document.pointer(&slot.pointer()).is_some(),
        Slot::Instruction | Slot::Spec | Slot::Number | Slot::Created | Slot::Updated | Slot::Ended => true,
        Slot::Status | Slot::Current | Slot::Error | Slot::ErrorPhase => true,
        Slot::Mode | Slot::Aware | Slot::Arguments | Slot::Requirements => true,
    }
}

fn sorted(mut places: Vec<String>) -> Vec<String> {
    places.sort();
    places.dedup();
    places
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
