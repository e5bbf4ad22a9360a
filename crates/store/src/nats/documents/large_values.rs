//! What of a document is too large to stand in an entry becomes a blob, and its name and size stand in its place.

use serde_json::{Map, Value, json};

use crate::Digest;
use crate::nats::journal::json as text_of;

/// A value with a longer text is taken out.
pub(in crate::nats) const MAX_INLINE_VALUE: usize = 100 * 1024;
/// And if all that is left is still too large for an entry, what is longer than the first of these, then than the second.
pub(in crate::nats) const SMALLER_LIMITS: [usize; 2] = [MAX_INLINE_VALUE / 4, MAX_INLINE_VALUE / 16];
/// Objects above this depth are gone into, never taken out: `phases.plan.status` stays where it is.
const MAX_DEPTH: usize = 2;

/// Takes out what is longer than that; answers the bytes that became blobs.
pub(in crate::nats) fn extract_large_values(
    document: &mut Map<String, Value>,
    longer: usize,
) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    extract_at(1, document, longer, &mut taken);
    taken
}

/// What stands in the place of bytes that are in a blob.
pub(in crate::nats) fn blob_reference(digest: &Digest, bytes: usize) -> Value {
    json!({ "$blob": format!("sha256:{digest}"), "bytes": bytes })
}

/// Where something was taken out, and the digest of what.
pub(in crate::nats) fn blob_references(document: &mut Map<String, Value>) -> Vec<(&mut Value, Digest)> {
    let mut found = Vec::new();
    collect_references(1, document, &mut found);
    found
}

fn collect_references<'d>(
    depth: usize,
    members: &'d mut Map<String, Value>,
    found: &mut Vec<(&'d mut Value, Digest)>,
) {
    for value in members.values_mut() {
        match referenced_digest(value) {
            Some(digest) => found.push((value, digest)),
            None => match value {
                Value::Object(members) if depth <= MAX_DEPTH => collect_references(depth + 1, members, found),
                _ => {}
            },
        }
    }
}

/// The digest in a note, if it is one.
fn referenced_digest(value: &Value) -> Option<Digest> {
    let digest: Digest = value.get("$blob")?.as_str()?.strip_prefix("sha256:")?.parse().ok()?;
    let bytes = usize::try_from(value.get("bytes")?.as_u64()?).ok()?;
    (*value == blob_reference(&digest, bytes)).then_some(digest)
}

fn extract_at(depth: usize, members: &mut Map<String, Value>, longer: usize, taken: &mut Vec<Vec<u8>>) {
    for value in members.values_mut() {
        let text = text_of(value);
        if text.len() <= longer {
            continue;
        }
        match value {
            Value::Object(members) if depth <= MAX_DEPTH => extract_at(depth + 1, members, longer, taken),
            large => {
                *large = blob_reference(&Digest::of(&text), text.len());
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
        let large = json!({ "text": "x".repeat(MAX_INLINE_VALUE) });
        let plan = json!({ "status": "completed", "output": large });
        let mut document =
            json!({ "version": 2, "phases": { "plan": plan, "execute": { "status": "pending" } } });
        let taken = extract_large_values(document.as_object_mut().unwrap(), MAX_INLINE_VALUE);
        assert_eq!(taken, [serde_json::to_vec(&large).unwrap()]);
        let there = &document["phases"]["plan"]["output"];
        assert_eq!(there["$blob"], format!("sha256:{}", Digest::of(&taken[0])));
        assert_eq!(there["bytes"], taken[0].len());
        assert_eq!(document["phases"]["plan"]["status"], "completed");
        assert_eq!(document["phases"]["execute"], json!({ "status": "pending" }));
        let found = blob_references(document.as_object_mut().unwrap());
        let digests: Vec<_> =
            found.into_iter().map(|(place, digest)| (place["bytes"].clone(), digest)).collect();
        assert_eq!(digests, [(json!(taken[0].len()), Digest::of(&taken[0]))]);
    }

    #[test]
    fn what_is_large_only_together_stays() {
        let phase = json!({ "output": "x".repeat(MAX_INLINE_VALUE - 100) });
        let mut document = json!({ "phases": { "plan": phase, "execute": phase, "express": phase } });
        let before = document.clone();
        assert_eq!(
            extract_large_values(document.as_object_mut().unwrap(), MAX_INLINE_VALUE),
            Vec::<Vec<u8>>::new()
        );
        assert_eq!(document, before);
    }
}
