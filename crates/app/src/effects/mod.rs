//! The effects of `issue` on git, on a tracker and on `learnings.json`.
//!
//! Each looks for its key in the outside world first: a trailer of the commit, a hidden marker in a comment or a pull request.

mod git;
pub(crate) mod learn;
mod tracker;

use std::sync::Arc;

use runner::Effects;
use serde_json::{Map, Value};

/// Adds the effects to those of the program.
pub(crate) fn add(effects: &mut Effects) {
    effects.insert("issue-diff", Arc::new(git::Diff));
    effects.insert("issue-commit", Arc::new(git::Commit));
    effects.insert("issue-push", Arc::new(git::Push));
    effects.insert("issue-pull-request", Arc::new(tracker::PullRequest));
    effects.insert("issue-comment", Arc::new(tracker::Comment));
    effects.insert("issue-close", Arc::new(tracker::Close));
    effects.insert("issue-learn", Arc::new(learn::Learn));
}

/// Returns the fields of a result.
fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Returns the result of an effect that a rehearsal leaves out.
fn left_out(what: &str) -> Map<String, Value> {
    let said = format!("a rehearsal leaves out: {what}");
    fields(serde_json::json!({ "rehearsal": said, "logs": [said] }))
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
