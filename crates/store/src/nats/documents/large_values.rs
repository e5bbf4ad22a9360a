//! Large values of a document, which are stored as blobs. A reference with digest and size replaces them in the entry.

use serde_json::{Map, Value, json};

use crate::Digest;
use crate::nats::journal::json as text_of;

/// A value whose text is longer is stored as a blob.
pub(super) const MAX_INLINE_VALUE: usize = 100 * 1024;
/// The limits that are tried next if the entry as a whole is still too large.
pub(super) const SMALLER_LIMITS: [usize; 2] = [MAX_INLINE_VALUE / 4, MAX_INLINE_VALUE / 16];
/// Objects down to this depth are descended into and never replaced, so that `phases.plan.status` stays in place.
const MAX_DEPTH: usize = 2;

/// Replaces values whose text is longer than `max_length` by references, and returns their bytes.
pub(super) fn extract_large_values(document: &mut Map<String, Value>, max_length: usize) -> Vec<Vec<u8>> {
    let mut extracted = Vec::new();
    extract_at(1, document, max_length, &mut extracted);
    extracted
}

/// Returns the reference to a blob.
pub(super) fn blob_reference(digest: &Digest, bytes: usize) -> Value {
    json!({ "$blob": format!("sha256:{digest}"), "bytes": bytes })
}

/// Returns the references in a document, with their digests.
pub(super) fn blob_references(document: &mut Map<String, Value>) -> Vec<(&mut Value, Digest)> {
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

/// Returns the digest of a reference, or `None` if the value is not one.
fn referenced_digest(value: &Value) -> Option<Digest> {
    let digest: Digest = value.get("$blob")?.as_str()?.strip_prefix("sha256:")?.parse().ok()?;
    let bytes = usize::try_from(value.get("bytes")?.as_u64()?).ok()?;
    (*value == blob_reference(&digest, bytes)).then_some(digest)
}

fn extract_at(
    depth: usize,
    members: &mut Map<String, Value>,
    max_length: usize,
    extracted: &mut Vec<Vec<u8>>,
) {
    for value in members.values_mut() {
        let text = text_of(value);
        if text.len() <= max_length {
            continue;
        }
        match value {
            Value::Object(members) if depth <= MAX_DEPTH => {
                extract_at(depth + 1, members, max_length, extracted);
            }
            large => {
                *large = blob_reference(&Digest::of(&text), text.len());
                extracted.push(text.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_value_is_replaced_and_its_siblings_stay() {
        let large = json!({ "text": "x".repeat(MAX_INLINE_VALUE) });
        let plan = json!({ "status": "completed", "output": large });
        let mut document =
            json!({ "version": 2, "phases": { "plan": plan, "execute": { "status": "pending" } } });
        let extracted = extract_large_values(document.as_object_mut().unwrap(), MAX_INLINE_VALUE);
        assert_eq!(extracted, [serde_json::to_vec(&large).unwrap()]);
        let reference = &document["phases"]["plan"]["output"];
        assert_eq!(reference["$blob"], format!("sha256:{}", Digest::of(&extracted[0])));
        assert_eq!(reference["bytes"], extracted[0].len());
        assert_eq!(document["phases"]["plan"]["status"], "completed");
        assert_eq!(document["phases"]["execute"], json!({ "status": "pending" }));
        let found = blob_references(document.as_object_mut().unwrap());
        let digests: Vec<_> =
            found.into_iter().map(|(value, digest)| (value["bytes"].clone(), digest)).collect();
        assert_eq!(digests, [(json!(extracted[0].len()), Digest::of(&extracted[0]))]);
    }

    #[test]
    fn values_below_the_limit_stay() {
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
