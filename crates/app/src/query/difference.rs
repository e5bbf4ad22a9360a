//! The difference of two JSON values as an RFC 6902 patch.
//!
//! Beyond the RFC, `remove` and `replace` have the old value under `old`. Readers of patches ignore unknown members.

use serde::Serialize;
use serde_json::Value;

/// One operation of the patch. Applied in order, the operations turn the old value into the new one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Difference {
    Add { path: Pointer, value: Value },
    Remove { path: Pointer, old: Value },
    Replace { path: Pointer, value: Value, old: Value },
}

impl Difference {
    pub(crate) fn path(&self) -> &Pointer {
        match self {
            Self::Add { path, .. } | Self::Remove { path, .. } | Self::Replace { path, .. } => path,
        }
    }
}

/// Keys and indexes from the root. Serialises as an RFC 6901 pointer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Pointer(pub(crate) Vec<String>);

impl Pointer {
    fn child(&self, key: impl ToString) -> Self {
        Self(self.0.iter().cloned().chain([key.to_string()]).collect())
    }
}

impl Serialize for Pointer {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let escaped = self.0.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1")));
        serializer.serialize_str(&escaped.collect::<String>())
    }
}

/// Returns all differences. Those of an object are in the order of its keys, with the added keys last.
pub(crate) fn between(old: &Value, new: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(&Pointer::default(), old, new, &mut found);
    found
}

fn compare(at: &Pointer, old: &Value, new: &Value, found: &mut Vec<Difference>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for (key, old) in old {
                match new.get(key) {
                    Some(new) => compare(&at.child(key), old, new, found),
                    None => found.push(Difference::Remove { path: at.child(key), old: old.clone() }),
                }
            }
            let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
            found.extend(
                added.map(|(key, value)| Difference::Add { path: at.child(key), value: value.clone() }),
            );
        }
        (Value::Array(old), Value::Array(new)) => compare_lists(at, old, new, found),
        _ if old == new => {}
        _ => found.push(Difference::Replace { path: at.clone(), value: new.clone(), old: old.clone() }),
    }
}

/// Keeps the common beginning and end of two lists and compares the elements between by index. Lists mostly grow at one
/// end or are replaced.
fn compare_lists(at: &Pointer, old: &[Value], new: &[Value], found: &mut Vec<Difference>) {
    let begin = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[begin..], &new[begin..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    for (index, (old, new)) in old.iter().zip(new).enumerate() {
        compare(&at.child(begin + index), old, new, found);
    }
    // From the back, so that the indexes of later removals stay valid.
    for index in (new.len()..old.len()).rev() {
        found.push(Difference::Remove { path: at.child(begin + index), old: old[index].clone() });
    }
    for (index, value) in new.iter().enumerate().skip(old.len()) {
        found.push(Difference::Add { path: at.child(begin + index), value: value.clone() });
    }
}

#[cfg(test)]
mod tests;
