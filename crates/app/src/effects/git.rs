//! The effects on git: compare, commit, push.

use runner::{PendingEffect, PerformEffect};
use serde_json::{Map, Value, json};
use supervisor::git::{self, RunChanges, RunWorktrees};

use super::{fields, skipped_in_rehearsal, with_causes};

fn run_worktrees(pending_effect: &PendingEffect) -> Result<&RunWorktrees, String> {
    pending_effect.run_worktrees.as_ref().ok_or_else(|| "the run has no worktree".to_owned())
}

/// Lists what the run has changed. The effect itself leaves nothing that `find` could look for.
#[derive(Debug)]
pub(super) struct Diff;

impl PerformEffect for Diff {
    fn find(&self, _: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        Ok(None)
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let RunChanges { changed, deleted, stat, tree } =
            run_worktrees(pending_effect)?.run_changes().map_err(|error| with_causes(&error))?;
        Ok(fields(json!({ "changed": changed, "deleted": deleted, "stat": stat, "tree": tree })))
    }
}

/// Commits the tree that was built and reviewed. The key of the effect is a trailer of the commit.
#[derive(Debug)]
pub(super) struct Commit;

impl Commit {
    fn result(run_worktrees: &RunWorktrees, hash: &str) -> Result<Map<String, Value>, String> {
        let message = run_worktrees.commit_message(hash).map_err(|error| with_causes(&error))?;
        Ok(fields(json!({ "hash": hash, "message": message, "logs": [format!("committed {hash}")] })))
    }
}

impl PerformEffect for Commit {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        let run_worktrees = run_worktrees(pending_effect)?;
        let found =
            run_worktrees.find_effect_commit(&pending_effect.key()).map_err(|error| with_causes(&error))?;
        found.map(|hash| Self::result(run_worktrees, &hash)).transpose()
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let run_worktrees = run_worktrees(pending_effect)?;
        let message = pending_effect.arguments["message"].as_str().unwrap_or_default();
        let tree = pending_effect.arguments["tree"].as_str();
        let hash = run_worktrees
            .commit_work(message, &pending_effect.key(), tree)
            .map_err(|error| with_causes(&error))?;
        Self::result(run_worktrees, &hash)
    }
}

/// Pushes the branch, never by force and never the base branch.
#[derive(Debug)]
pub(super) struct Push;

impl PerformEffect for Push {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        if pending_effect.rehearsal {
            return Ok(None);
        }
        let found = run_worktrees(pending_effect)?.pushed_remote().map_err(|error| with_causes(&error))?;
        Ok(found.map(|remote| pushed(&remote)))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let run_worktrees = run_worktrees(pending_effect)?;
        if pending_effect.arguments["base"] == run_worktrees.integration_branch() {
            return Err("the branch is the base branch, which is never pushed".to_owned());
        }
        if pending_effect.rehearsal {
            return Ok(skipped_in_rehearsal("push"));
        }
        Ok(match run_worktrees.push().map_err(|error| with_causes(&error))? {
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
