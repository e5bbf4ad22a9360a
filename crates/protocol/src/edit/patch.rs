//! Patches in three notations, and how they are applied.

use json_patch::jsonptr::{Pointer, Token};
use serde_json::Value;

use crate::check::json_type;
use crate::json::{MAX_DOCUMENT_DEPTH, exceeds_depth};

/// A change of a document, as its author wrote it.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// Values at JSON pointers (RFC 6901), applied in order. A missing member is created, a missing parent is not. In a
    /// list, a number replaces an entry; `-`, or the number after the last entry, appends one.
    Set(Vec<(String, Value)>),
    /// A merge patch (RFC 7396): objects are merged, null removes a member, everything else replaces.
    Merge(Value),
    /// A list of operations (RFC 6902), applied all or none.
    Operations(json_patch::Patch),
}

/// Why a patch cannot be applied to a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error("`{0}` is not a JSON pointer: it must begin with `/`, and `~` is written as `~0`")]
    BadPointer(String),
    #[error("cannot set `{pointer}`: there is nothing at `{missing}`")]
    MissingParent { pointer: String, missing: String },
    #[error("cannot set `{pointer}`: `{inside}` is {is}")]
    NotAContainer { pointer: String, inside: String, is: &'static str },
    #[error("cannot set `{pointer}`: the list `{list}` has {length} entries, and `-` appends one")]
    OutOfRange { pointer: String, list: String, length: usize },
    #[error("operation {number} of the patch failed: `{path}` does not have the tested value")]
    TestFailed { number: usize, path: String },
    #[error("it would nest the document more than {MAX_DOCUMENT_DEPTH} levels deep")]
    TooDeep,
    #[error("operation {number} of the patch failed at `{path}`: {because}")]
    Operation { number: usize, path: String, because: String },
}

impl Patch {
    /// Returns the value with the patch applied, which need not be a valid document.
    pub fn apply(&self, value: &Value) -> Result<Value, PatchError> {
        let mut patched = value.clone();
        match self {
            Self::Set(values) => {
                for (pointer, value) in values {
                    set(&mut patched, pointer, value.clone())?;
                }
            }
            Self::Merge(merged) => json_patch::merge(&mut patched, merged),
            // A half-patched copy is dropped on failure, so nothing has to be undone in it.
            Self::Operations(operations) => json_patch::patch_unsafe(&mut patched, operations)?,
        }
        if exceeds_depth(&patched, MAX_DOCUMENT_DEPTH) {
            return Err(PatchError::TooDeep);
        }
        Ok(patched)
    }

    /// Returns whether the patch writes, tests or copies anything in this member of the document.
    pub fn reaches(&self, member: &str) -> bool {
        let is_in_member = |pointer: &str| {
            let first = pointer.strip_prefix('/').map(|rest| rest.split('/').next().unwrap_or_default());
            first.is_none_or(|first| first == member)
        };
        match self {
            Self::Set(values) => values.iter().any(|(pointer, _)| is_in_member(pointer)),
            Self::Merge(merged) => merged.as_object().is_none_or(|members| members.contains_key(member)),
            Self::Operations(operations) => operations.iter().any(|operation| {
                let from = match operation {
                    json_patch::PatchOperation::Move(operation) => Some(&operation.from),
                    json_patch::PatchOperation::Copy(operation) => Some(&operation.from),
                    json_patch::PatchOperation::Add(_)
                    | json_patch::PatchOperation::Remove(_)
                    | json_patch::PatchOperation::Replace(_)
                    | json_patch::PatchOperation::Test(_) => None,
                };
                is_in_member(operation.path().as_str())
                    || from.is_some_and(|from| is_in_member(from.as_str()))
            }),
        }
    }

    /// Returns the pointers of values that the patch copies, on which its result depends.
    pub fn sources(&self) -> Vec<String> {
        let operations = match self {
            Self::Set(_) | Self::Merge(_) => &[][..],
            Self::Operations(operations) => operations,
        };
        let copied = operations.iter().filter_map(|operation| match operation {
            json_patch::PatchOperation::Copy(copy) => Some(copy.from.to_string()),
            json_patch::PatchOperation::Add(_)
            | json_patch::PatchOperation::Remove(_)
            | json_patch::PatchOperation::Replace(_)
            | json_patch::PatchOperation::Move(_)
            | json_patch::PatchOperation::Test(_) => None,
        });
        copied.collect()
    }
}

fn set(document: &mut Value, pointer: &str, value: Value) -> Result<(), PatchError> {
    let bad = || PatchError::BadPointer(pointer.to_owned());
    let Some((parent, last)) = Pointer::parse(pointer).map_err(|_| bad())?.split_back() else {
        *document = value;
        return Ok(());
    };
    let missing = first_missing(document, parent);
    let Some(container) = document.pointer_mut(parent.as_str()) else {
        return Err(PatchError::MissingParent { pointer: pointer.to_owned(), missing });
    };
    match container {
        Value::Object(members) => {
            members.insert(last.decoded().into_owned(), value);
            Ok(())
        }
        Value::Array(entries) => {
            let length = entries.len();
            let list = parent.to_string();
            let out_of_range = || PatchError::OutOfRange { pointer: pointer.to_owned(), list, length };
            let at = index(&last, length).ok_or_else(out_of_range)?;
            match entries.get_mut(at) {
                Some(entry) => *entry = value,
                None => entries.push(value),
            }
            Ok(())
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Err(PatchError::NotAContainer {
                pointer: pointer.to_owned(),
                inside: parent.to_string(),
                is: json_type(scalar),
            })
        }
    }
}

/// Returns the index that a reference token names in a list of this length; `length` itself appends an entry.
fn index(token: &Token<'_>, length: usize) -> Option<usize> {
    token.to_index().ok()?.for_len_incl(length).ok()
}

/// Returns the shortest prefix of a pointer that has no value; the whole pointer if all have one.
fn first_missing(document: &Value, pointer: &Pointer) -> String {
    let mut at = String::new();
    for token in pointer.tokens() {
        at.push('/');
        at.push_str(token.encoded());
        if document.pointer(&at).is_none() {
            break;
        }
    }
    at
}

impl PatchError {
    /// Returns the pointer of the failed write; `None` if a test failed, or the whole document is concerned.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::BadPointer(pointer)
            | Self::MissingParent { pointer, .. }
            | Self::NotAContainer { pointer, .. }
            | Self::OutOfRange { pointer, .. }
            | Self::Operation { path: pointer, .. } => Some(pointer),
            Self::TestFailed { .. } | Self::TooDeep => None,
        }
    }
}

impl From<json_patch::PatchError> for PatchError {
    fn from(error: json_patch::PatchError) -> Self {
        let (number, path) = (error.operation + 1, error.path.to_string());
        if matches!(error.kind, json_patch::PatchErrorKind::TestFailed) {
            return Self::TestFailed { number, path };
        }
        Self::Operation { number, path, because: error.kind.to_string() }
    }
}

#[cfg(test)]
mod tests;
