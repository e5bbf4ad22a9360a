//! The rights of a step: which members of a JSON document it may change by editing a private copy.

use json_patch::jsonptr::Token;
use serde_json::{Map, Value};

use super::Patch;
use crate::report::{CopyEdit, Report};

/// How many refused changes are named one by one.
const MAX_NAMED: usize = 20;

/// What a step may change in a document. Everything else is refused.
///
/// Members are named by JSON pointers (RFC 6901), with everything below them. The reference token `*` stands for any
/// member of an object and any entry of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    allowed: Vec<Vec<Pattern>>,
    /// Members that the engine computes from others.
    derived: Vec<Vec<Pattern>>,
}

/// One reference token of a pointer to members.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Any,
    Exact(String),
}

/// A change, reduced to what a step may do.
#[derive(Debug, Clone, PartialEq)]
pub struct FilteredPatch {
    /// Operations that apply to the current document.
    pub patch: json_patch::Patch,
    /// A sentence for each refused change.
    pub refused: Vec<String>,
}

impl Rights {
    /// Returns rights on the `allowed` members. Members that the engine derives from others (`derived`) keep their
    /// value; a change of them is dropped and not listed as refused.
    pub fn new<'a>(
        allowed: impl IntoIterator<Item = &'a str>,
        derived: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            allowed: allowed.into_iter().map(patterns).collect(),
            derived: derived.into_iter().map(patterns).collect(),
        }
    }

    /// Reduces a change of `document` to what these rights allow. A change that does not apply to the document is
    /// refused as a whole.
    pub fn filter(&self, document: &Value, patch: &json_patch::Patch) -> FilteredPatch {
        match Patch::Operations(patch.clone()).apply(document) {
            Err(error) => {
                FilteredPatch { patch: json_patch::Patch(Vec::new()), refused: vec![error.to_string()] }
            }
            Ok(wanted) => {
                let mut refused = Vec::new();
                let granted = self.grant(&mut Vec::new(), Some(document), Some(&wanted), &mut refused);
                let patch = json_patch::diff(document, &granted.unwrap_or_else(|| document.clone()));
                FilteredPatch { patch, refused: sentences(&refused) }
            }
        }
    }

    /// Reduces the edit of a private copy in a report to what these rights allow. The edit is removed from the report
    /// if nothing of it is allowed, or if the copy was deleted or cannot be read as JSON. Returns a sentence for each
    /// refused change.
    pub fn remove_unauthorized(&self, report: &mut Report, path: &str, document: &Value) -> Vec<String> {
        let named = |what: String| format!("`{path}`: {what}");
        let Some(edit) = report.copy_edits.remove(path) else { return Vec::new() };
        match edit {
            CopyEdit::Patch(patch) => {
                let FilteredPatch { patch, refused } = self.filter(document, &patch);
                if !patch.0.is_empty() {
                    report.copy_edits.insert(path.to_owned(), CopyEdit::Patch(patch));
                }
                refused.into_iter().map(named).collect()
            }
            CopyEdit::Text(_) => vec![named("it must be a JSON document".to_owned())],
            CopyEdit::Deleted => vec![named("it may not be deleted".to_owned())],
            CopyEdit::Unreadable(reason) => vec![named(reason)],
        }
    }

    /// Returns the value at the pointer `at` after the allowed changes of `present` to `wanted`; `None` if there is no value.
    /// Adds the pointers of all other changes to `refused`.
    fn grant(
        &self,
        at: &mut Vec<String>,
        present: Option<&Value>,
        wanted: Option<&Value>,
        refused: &mut Vec<String>,
    ) -> Option<Value> {
        if present == wanted || is_below(&self.derived, at) {
            return present.cloned();
        }
        if is_below(&self.allowed, at) {
            return self.grant_without_derived(at, present, wanted, refused);
        }
        match (present, wanted) {
            (Some(Value::Object(present)), Some(Value::Object(wanted))) => {
                Some(Value::Object(self.grant_members(at, present, wanted, refused)))
            }
            // A missing object is created only if an allowed member is written into it.
            (None | Some(Value::Null), Some(Value::Object(wanted))) if is_above(&self.allowed, at) => {
                let granted = self.grant_members(at, &Map::new(), wanted, refused);
                if granted.is_empty() { present.cloned() } else { Some(Value::Object(granted)) }
            }
            (Some(Value::Array(present)), Some(Value::Array(wanted))) => {
                Some(Value::Array(self.grant_entries(at, present, wanted, refused)))
            }
            (_, _) => {
                refused.push(pointer(at));
                present.cloned()
            }
        }
    }

    /// Returns the wanted value. In an object that exists already, derived members keep their present value.
    fn grant_without_derived(
        &self,
        at: &mut Vec<String>,
        present: Option<&Value>,
        wanted: Option<&Value>,
        refused: &mut Vec<String>,
    ) -> Option<Value> {
        match (present, wanted) {
            (Some(Value::Object(present)), Some(Value::Object(wanted))) if is_above(&self.derived, at) => {
                Some(Value::Object(self.grant_members(at, present, wanted, refused)))
            }
            (_, wanted) => wanted.cloned(),
        }
    }

    fn grant_members(
        &self,
        at: &mut Vec<String>,
        present: &Map<String, Value>,
        wanted: &Map<String, Value>,
        refused: &mut Vec<String>,
    ) -> Map<String, Value> {
        let new = wanted.keys().filter(|name| !present.contains_key(*name));
        let mut granted = Map::new();
        for name in present.keys().chain(new) {
            at.push(name.clone());
            let value = self.grant(at, present.get(name), wanted.get(name), refused);
            at.pop();
            granted.extend(value.map(|value| (name.clone(), value)));
        }
        granted
    }

    /// Compares entries by their index: a removal in the middle counts as changes of the entries after it.
    fn grant_entries(
        &self,
        at: &mut Vec<String>,
        present: &[Value],
        wanted: &[Value],
        refused: &mut Vec<String>,
    ) -> Vec<Value> {
        let mut granted = Vec::new();
        for index in 0..present.len().max(wanted.len()) {
            at.push(index.to_string());
            match present.get(index) {
                // A new entry needs a right on the whole entry; rights on some of its members do not suffice.
                None if !is_below(&self.allowed, at) => {
                    refused.extend((!is_below(&self.derived, at)).then(|| pointer(at)));
                }
                entry => granted.extend(self.grant(at, entry, wanted.get(index), refused)),
            }
            at.pop();
        }
        granted
    }
}

fn patterns(pointer: &str) -> Vec<Pattern> {
    let tokens = pointer.strip_prefix('/').map(|rest| rest.split('/')).into_iter().flatten();
    let pattern = |token: &str| match token {
        "*" => Pattern::Any,
        token => Pattern::Exact(
            Token::from_encoded(token)
                .map_or_else(|_| token.to_owned(), |token| token.decoded().into_owned()),
        ),
    };
    tokens.map(pattern).collect()
}

fn matches(pattern: &Pattern, token: &str) -> bool {
    match pattern {
        Pattern::Any => true,
        Pattern::Exact(name) => name == token,
    }
}

/// Returns whether `at` is one of the members, or inside one.
fn is_below(members: &[Vec<Pattern>], at: &[String]) -> bool {
    members.iter().any(|member| {
        member.len() <= at.len() && member.iter().zip(at).all(|(pattern, token)| matches(pattern, token))
    })
}

/// Returns whether `at` contains one of the members.
fn is_above(members: &[Vec<Pattern>], at: &[String]) -> bool {
    members.iter().any(|member| {
        member.len() > at.len() && member.iter().zip(at).all(|(pattern, token)| matches(pattern, token))
    })
}

fn pointer(at: &[String]) -> String {
    at.iter().flat_map(|token| ["/".to_owned(), Token::new(token).encoded().to_owned()]).collect()
}

fn sentences(refused: &[String]) -> Vec<String> {
    let named = refused.iter().take(MAX_NAMED).map(|pointer| match pointer.as_str() {
        "" => "the step may not replace the document".to_owned(),
        pointer => format!("the step may not change `{pointer}`"),
    });
    let more = refused.len().saturating_sub(MAX_NAMED);
    named.chain((more > 0).then(|| format!("the step may not make {more} more changes"))).collect()
}

#[cfg(test)]
mod tests;
