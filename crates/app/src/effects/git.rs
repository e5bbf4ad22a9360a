//! The effects on git: compare, commit, push.

use runner::{EffectOrder, PerformEffect};
use serde_json::{Map, Value, json};
use supervisor::git::{self, RunTrees, WorkChanges};

use super::{fields, skipped_in_rehearsal, with_causes};

fn trees(order: &EffectOrder) -> Result<&RunTrees, String> {
    order.trees.as_ref().ok_or_else(|| "the run has no worktree".to_owned())
}

/// Lists what the run has changed. It changes nothing itself, so `find` has nothing to look for.
#[derive(Debug)]
pub(super) struct Diff;

impl PerformEffect for Diff {
    fn find(&self, _: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        Ok(None)
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let WorkChanges { changed, deleted, stat, tree } =
            trees(order)?.work_changes().map_err(|error| with_causes(&error))?;
        Ok(fields(json!({ "changed": changed, "deleted": deleted, "stat": stat, "tree": tree })))
    }
}

/// Commits the tree that was built and reviewed. The key of the effect is a trailer of the commit.
#[derive(Debug)]
pub(super) struct Commit;

impl Commit {
    fn result(trees: &RunTrees, hash: &str) -> Result<Map<String, Value>, String> {
        let message = trees.commit_text(hash).map_err(|error| with_causes(&error))?;
        Ok(fields(json!({ "hash": hash, "message": message, "logs": [format!("committed {hash}")] })))
    }
}

impl PerformEffect for Commit {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let trees = trees(order)?;
        let found = trees.find_merge(&order.key()).map_err(|error| with_causes(&error))?;
        found.map(|hash| Self::result(trees, &hash)).transpose()
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let trees = trees(order)?;
        let message = order.arguments["message"].as_str().unwrap_or_default();
        let tree = order.arguments["tree"].as_str();
        let hash = trees.commit_work(message, &order.key(), tree).map_err(|error| with_causes(&error))?;
        Self::result(trees, &hash)
    }
}

/// Pushes the branch, never by force and never the base branch.
#[derive(Debug)]
pub(super) struct Push;

impl PerformEffect for Push {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        if order.rehearsal {
            return Ok(None);
        }
        let found = trees(order)?.pushed_remote().map_err(|error| with_causes(&error))?;
        Ok(found.map(|remote| pushed(&remote)))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let trees = trees(order)?;
        if order.arguments["base"] == trees.integration_branch() {
            return Err("the branch is the base branch, which is never pushed".to_owned());
        }
        if order.rehearsal {
            return Ok(skipped_in_rehearsal("push"));
        }
        Ok(match trees.push().map_err(|error| with_causes(&error))? {
            git::Push::Done { remote } => pushed(&remote),
            git::Push::NoRemote => {
                fields(json!({ "pushed": false, "logs": ["there is no remote to push to"] }))
            }
        })
    }
}

fn pushed(remote: &str) -> Map<String, Value> {
    fields(json!({ "pushed": true, "logs": [format!("pushed to {remote}")] }))
}
