//! The effects on git: `merge`, which brings a step's branch into the integration branch of its run, and `fast-forward`,
//! which brings that into the base branch.

use protocol::StepId;
use protocol::brief::Worktree;
use serde_json::{Map, Value, json};
use supervisor::git::{Conflict, FastForward, Merged, RunTrees};

use super::effect::{EffectOrder, PerformEffect};
use crate::error_chain::with_causes;

/// Merges the branch of the worktree that the arguments `worktree` and `branch` name. A conflict is a failed gate.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl PerformEffect for Merge {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let found = trees(order)?.find_merge(&order.key()).map_err(|error| with_causes(&error))?;
        Ok(found.map(|commit| merged(&commit)))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let trees = trees(order)?;
        let name = order.arguments["worktree"].as_str().unwrap_or_default();
        let name = StepId::new(name).map_err(|error| format!("`{name}` is no worktree: {error}"))?;
        let worktree = Worktree { name, branch: order.arguments["branch"].as_str().map(str::to_owned) };
        // The place for the checks of the merged tree.
        let check = |_: &std::path::Path| Ok(());
        let result = trees.merge(&worktree, &order.key(), check).map_err(|error| with_causes(&error))?;
        Ok(match result {
            Merged::Commit(commit) => merged(&commit),
            Merged::Nothing => fields(json!({ "logs": ["nothing to merge"] })),
            Merged::Conflict(conflict) => refused(trees, &conflict),
        })
    }
}

/// Fast-forwards the base branch. What git cannot do is left to the user, and the run succeeds all the same.
#[derive(Debug, Clone, Copy)]
pub struct FastForwardBase;

impl PerformEffect for FastForwardBase {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let is_delivered = trees(order)?.is_delivered().map_err(|error| with_causes(&error))?;
        Ok(is_delivered.then(|| fields(json!({ "logs": ["the base branch has all commits"] }))))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let trees = trees(order)?;
        let by_hand = |why: &str| {
            let command = trees.merge_command();
            fields(json!({ "logs": [format!("not merged: {why}"), format!("to merge: {command}")] }))
        };
        if order.rehearsal {
            return Ok(by_hand("a rehearsal leaves the base branch alone"));
        }
        if trees.is_left_to_the_user() {
            return Ok(by_hand("--no-merge"));
        }
        Ok(match trees.fast_forward().map_err(|error| with_causes(&error))? {
            FastForward::Done => fields(json!({ "logs": ["fast-forwarded the base branch"] })),
            FastForward::NotPossible(why) => by_hand(&why),
        })
    }
}

fn trees(order: &EffectOrder) -> Result<&RunTrees, String> {
    order.trees.as_ref().ok_or_else(|| "the run has no worktrees".to_owned())
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn merged(commit: &str) -> Map<String, Value> {
    fields(json!({ "commit": commit, "logs": [format!("merged as {commit}")] }))
}

/// The evidence goes back to the step.
fn refused(trees: &RunTrees, Conflict { files, evidence }: &Conflict) -> Map<String, Value> {
    let branch = trees.integration_branch();
    let summary = match files.as_slice() {
        [] => "the checks of the merged tree failed".to_owned(),
        files => format!(
            "conflict with `{branch}` in {}: run `git merge {branch}` in your worktree and resolve it",
            files.join(", ")
        ),
    };
    let shown = format!("what git shows:\n\n```diff\n{evidence}\n```");
    fields(json!({ "gate_failure": true, "files": files, "logs": [shown, summary] }))
}
