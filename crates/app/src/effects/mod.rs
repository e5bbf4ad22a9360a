//! The effects: merges of all protocols; those of `issue` on git and on a tracker.
//!
//! An effect must happen once although a crash may repeat it. So [`PerformEffect::find`] looks for the key of the effect in
//! the outside world first: a trailer of the commit, a hidden marker in a comment or a pull request.

mod git;
mod tracker;

use std::sync::Arc;

use runner::{Effects, FastForwardBase, FindArtifacts, Merge, PerformEffect, ReadItems};
use serde_json::{Map, Value};

/// Returns the built-in effects by name. A program that uses this crate may add its own ([`Program`](crate::Program)).
pub fn effects() -> Effects {
    let all: [(&'static str, Arc<dyn PerformEffect>); 10] = [
        ("merge", Arc::new(Merge)),
        (protocol::steps::ITEMS, Arc::new(ReadItems)),
        (protocol::steps::FIND_ARTIFACTS, Arc::new(FindArtifacts)),
        ("fast-forward", Arc::new(FastForwardBase)),
        ("issue-diff", Arc::new(git::Diff)),
        ("issue-commit", Arc::new(git::Commit)),
        ("issue-push", Arc::new(git::Push)),
        ("issue-pull-request", Arc::new(tracker::PullRequest)),
        ("issue-comment", Arc::new(tracker::Comment)),
        ("issue-close", Arc::new(tracker::Close)),
    ];
    Effects::from(all)
}

/// Returns the fields of a result.
fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the result of an effect that a rehearsal does not perform.
fn skipped_in_rehearsal(what: &str) -> Map<String, Value> {
    let log = format!("a rehearsal leaves out: {what}");
    fields(serde_json::json!({ "rehearsal": log, "logs": [log] }))
}

/// Returns an error with its causes in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
