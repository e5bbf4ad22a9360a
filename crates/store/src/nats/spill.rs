//! What of a document is too large to stand in an entry becomes a blob, and its name and size stand in its place.

use serde_json::{Map, Value, json};

use super::wire::json as text_of;
use crate::Digest;

/// A value with a longer text is taken out.
pub(super) const LARGE: usize = 100 * 1024;
/// And if all that is left is still too large for an entry, what is longer than the first of these, then than the second.
pub(super) const LARGE_TOGETHER: [usize; 2] = [LARGE / 4, LARGE / 16];
/// Objects above this depth are gone into, never taken out: `phases.plan.status` stays where it is.
const GONE_INTO: usize = 2;

/// Takes out what is longer than that; answers the bytes that became blobs.
pub(super) fn spill(document: &mut Map<String, Value>, longer: usize) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    spill_at(1, document, longer, &mut taken);
    taken
}

/// What stands in the place of bytes that are in a blob.
pub(super) fn blob_note(digest: &Digest, bytes: usize) -> Value {
    json!({ "$blob": format!("sha256:{digest}"), "bytes": bytes })
}

/// Where something was taken out, and the digest of what.
pub(super) fn taken_out(document: &mut Map<String, Value>) -> Vec<(&mut Value, Digest)> {
    let mut found = Vec::new();
    taken_out_at(1, document, &mut found);
    found
}

fn taken_out_at<'d>(
    depth: usize,
    members: &'d mut Map<String, Value>,
    found: &mut Vec<(&'d mut Value, Digest)>,
) {
    for value in members.values_mut() {
        match noted(value) {
            Some(digest) => found.push((value, digest)),
            None => match value {
                Value::Object(members) if depth <= GONE_INTO => taken_out_at(depth + 1, members, found),
                _ => {}
            },
        }
    }
}

/// The digest in a note, if it is one.
fn noted(value: &Value) -> Option<Digest> {
    let digest: Digest = value.get("$blob")?.as_str()?.strip_prefix("sha256:")?.parse().ok()?;
    let bytes = usize::try_from(value.get("bytes")?.as_u64()?).ok()?;
    (*value == blob_note(&digest, bytes)).then_some(digest)
}

fn spill_at(depth: usize, members: &mut Map<String, Value>, longer: usize, taken: &mut Vec<Vec<u8>>) {
    for value in members.values_mut() {
        let text = text_of(value);
        if text.len() <= longer {
            continue;
        }
        match value {
            Value::Object(members) if depth <= GONE_INTO => spill_at(depth + 1, members, longer, taken),
            large => {
                *large = blob_note(&Digest::of(&text), text.len());
                taken.push(text.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_output_is_taken_out_and_all_around_it_stays() {
        let large = json!({ "text": "x".repeat(LARGE) });
        let plan = json!({ "status": "completed", "output": large });
        let mut document =
            json!({ "version": 2, "phases": { "plan": plan, "execute": { "status": "pending" } } });
        let taken = spill(document.as_object_mut().unwrap(), LARGE);
        assert_eq!(taken, [serde_json::to_vec(&large).unwrap()]);
        let there = &document["phases"]["plan"]["output"];
        assert_eq!(there["$blob"], format!("sha256:{}", Digest::of(&taken[0])));
        assert_eq!(there["bytes"], taken[0].len());
        assert_eq!(document["phases"]["plan"]["status"], "completed");
        assert_eq!(document["phases"]["execute"], json!({ "status": "pending" }));
        let found = taken_out(document.as_object_mut().unwrap());
        let digests: Vec<_> =
            found.into_iter().map(|(place, digest)| (place["bytes"].clone(), digest)).collect();
        assert_eq!(digests, [(json!(taken[0].len()), Digest::of(&taken[0]))]);
    }

    #[test]
    fn what_is_large_only_together_stays() {
        let phase = json!({ "output": "x".repeat(LARGE - 100) });
        let mut document = json!({ "phases": { "plan": phase, "execute": phase, "express": phase } });
        let before = document.clone();
        assert_eq!(spill(document.as_object_mut().unwrap(), LARGE), Vec::<Vec<u8>>::new());
        assert_eq!(document, before);
    }
}
