//! What somebody wants changed, in one of three notations, and what a value looks like with it.

use json_patch::jsonptr::{Pointer, Token};
use serde_json::Value;

use crate::check::kind;
use crate::depth::{DEEPEST_DOCUMENT, is_deeper};

/// What somebody wants changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// Values at JSON pointers (RFC 6901), one after the other. A member that is missing is made, what it would stand in is
    /// not; in a list, a number replaces an entry and `-` appends one.
    Set(Vec<(String, Value)>),
    /// A merge patch (RFC 7396): objects are merged, null takes a member away, all else replaces.
    Merge(Value),
    /// A list of operations (RFC 6902), all or none.
    Operations(json_patch::Patch),
}

/// Why a patch cannot be applied to a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unpatchable {
    #[error("`{0}` is no JSON pointer: one begins with `/`, and `~` is written as `~0` in it")]
    BadPointer(String),
    #[error("`{pointer}` has no place: there is nothing at `{missing}`")]
    NothingThere { pointer: String, missing: String },
    #[error("`{pointer}` has no place: `{inside}` is {is}")]
    NoContainer { pointer: String, inside: String, is: &'static str },
    #[error("`{pointer}` has no place: the list `{list}` has {length} entries, and `-` appends one")]
    NoEntry { pointer: String, list: String, length: usize },
    #[error("operation {number} of the patch tests `{path}`, and it is not what is expected")]
    TestFailed { number: usize, path: String },
    #[error("it would nest the document in more than {DEEPEST_DOCUMENT} layers")]
    TooDeep,
    #[error("operation {number} of the patch does not fit at `{path}`: {because}")]
    Operation { number: usize, path: String, because: String },
}

impl Patch {
    /// The value with the patch applied; it need not be a document any more.
    pub fn apply(&self, value: &Value) -> Result<Value, Unpatchable> {
        let mut patched = value.clone();
        match self {
            Self::Set(places) => {
                for (pointer, value) in places {
                    set(&mut patched, pointer, value.clone())?;
                }
            }
            Self::Merge(merged) => json_patch::merge(&mut patched, merged),
            // Nobody sees the half-made copy, so there is nothing to undo in it.
            Self::Operations(operations) => json_patch::patch_unsafe(&mut patched, operations)?,
        }
        if is_deeper(&patched, DEEPEST_DOCUMENT) {
            return Err(Unpatchable::TooDeep);
        }
        Ok(patched)
    }

    /// Whether it writes, tests or copies anything in this member of the document.
    pub fn reaches(&self, member: &str) -> bool {
        let into = |pointer: &str| {
            let first = pointer.strip_prefix('/').map(|rest| rest.split('/').next().unwrap_or_default());
            first.is_none_or(|first| first == member)
        };
        match self {
            Self::Set(places) => places.iter().any(|(pointer, _)| into(pointer)),
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
                into(operation.path().as_str()) || from.is_some_and(|from| into(from.as_str()))
            }),
        }
    }

    /// The places that it copies values from: what it writes rests on them.
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

fn set(document: &mut Value, pointer: &str, value: Value) -> Result<(), Unpatchable> {
    let bad = || Unpatchable::BadPointer(pointer.to_owned());
    let Some((parent, last)) = Pointer::parse(pointer).map_err(|_| bad())?.split_back() else {
        *document = value;
        return Ok(());
    };
    let missing = first_missing(document, parent);
    let Some(container) = document.pointer_mut(parent.as_str()) else {
        return Err(Unpatchable::NothingThere { pointer: pointer.to_owned(), missing });
    };
    match container {
        Value::Object(members) => {
            members.insert(last.decoded().into_owned(), value);
            Ok(())
        }
        Value::Array(entries) => {
            let length = entries.len();
            let list = parent.to_string();
            let no_entry = || Unpatchable::NoEntry { pointer: pointer.to_owned(), list, length };
            let at = index(&last, length).ok_or_else(no_entry)?;
            match entries.get_mut(at) {
                Some(entry) => *entry = value,
                None => entries.push(value),
            }
            Ok(())
        }
        scalar @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
            Err(Unpatchable::NoContainer {
                pointer: pointer.to_owned(),
                inside: parent.to_string(),
                is: kind(scalar),
            })
        }
    }
}

/// Where in a list of that length; at its end, a new entry is meant.
fn index(token: &Token<'_>, length: usize) -> Option<usize> {
    token.to_index().ok()?.for_len_incl(length).ok()
}

/// The shortest part of a pointer that leads nowhere; all of it if it leads somewhere.
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

impl Unpatchable {
    /// Where it would have written; `None` if it was still testing, or if it is about the whole.
    pub fn pointer(&self) -> Option<&str> {
        match self {
            Self::BadPointer(pointer)
            | Self::NothingThere { pointer, .. }
            | Self::NoContainer { pointer, .. }
            | Self::NoEntry { pointer, .. }
            | Self::Operation { path: pointer, .. } => Some(pointer),
            Self::TestFailed { .. } | Self::TooDeep => None,
        }
    }
}

impl From<json_patch::PatchError> for Unpatchable {
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
