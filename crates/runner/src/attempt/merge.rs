//! The effects on git: `merge`, which brings a step's branch into the integration branch of its run, and `fast-forward`,
//! which brings that into the base branch.

use std::path::Path;

use protocol::brief::Worktree;
use protocol::checks::{CHECKS_FIELD, CheckResult};
use protocol::prompt::code_block;
use protocol::{NOT_MERGED_PREFIX, StepId};
use serde_json::{Map, Value, json};
use supervisor::git::{Conflict, FastForward, MergeOutcome, RunWorktrees};

use super::effect::{PendingEffect, PerformEffect};
use super::spec::GIT_FIELD;
use crate::error_chain::with_causes;

/// Merges the branch of the worktree that the arguments `worktree` and `branch` name. A conflict, or a failed
/// check of the merged tree, is a failed gate; so is a branch without commits if the argument `needs_commits` is true.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl PerformEffect for Merge {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        let run_worktrees = run_worktrees(pending_effect)?;
        let found =
            run_worktrees.find_effect_commit(&pending_effect.key()).map_err(|error| with_causes(&error))?;
        let Some(commit) = found else { return Ok(None) };
        kill_checks(pending_effect)?;
        // The engine that merged it was killed before it recorded the checks.
        let results = match pending_effect.checks.is_empty() {
            true => Vec::new(),
            false => run_worktrees
                .check_merged(&commit, |tree| pending_effect.check(tree))
                .map_err(|error| with_causes(&error))?,
        };
        Ok(Some(with_checks(merge_report(&commit), &results)))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let run_worktrees = run_worktrees(pending_effect)?;
        let name = pending_effect.arguments["worktree"].as_str().unwrap_or_default();
        let name = StepId::new(name).map_err(|error| format!("`{name}` is no worktree: {error}"))?;
        let worktree =
            Worktree { name, branch: pending_effect.arguments["branch"].as_str().map(str::to_owned) };
        kill_checks(pending_effect)?;
        // Read before the merge, because afterwards the integration branch has the same commits.
        let git = run_worktrees.worktree_changes(&worktree).ok().map(|changes| changes.to_json());
        let mut results = Vec::new();
        let accept = |tree: &Path| {
            results = pending_effect.check(tree)?;
            Ok(results.iter().all(CheckResult::passed))
        };
        let result = run_worktrees
            .merge(&worktree, &pending_effect.key(), accept)
            .map_err(|error| with_causes(&error))?;
        let mut report = match result {
            MergeOutcome::Commit(commit) => with_checks(merge_report(&commit), &results),
            MergeOutcome::Nothing if pending_effect.arguments["needs_commits"] == true => fields(json!({
                "gate_failure": true,
                "logs": [format!(
                    "there is nothing to merge: the branch `{}` has no commits; make the changes there and commit them",
                    run_worktrees.branch(&worktree)
                )],
            })),
            MergeOutcome::Nothing => fields(json!({ "logs": ["nothing to merge"] })),
            MergeOutcome::Conflict(conflict) => conflict_report(run_worktrees, &conflict),
            MergeOutcome::Refused => with_checks(failed_checks_report(run_worktrees, &results), &results),
        };
        report.extend(git.map(|git| (GIT_FIELD.to_owned(), git)));
        Ok(report)
    }
}

/// Fast-forwards the base branch. If git refuses, the report has the command to merge by hand, and the run succeeds all
/// the same.
#[derive(Debug, Clone, Copy)]
pub struct FastForwardBase;

impl PerformEffect for FastForwardBase {
    fn find(&self, pending_effect: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        let is_in_base = run_worktrees(pending_effect)?.is_in_base().map_err(|error| with_causes(&error))?;
        Ok(is_in_base.then(|| fields(json!({ "logs": ["the base branch has all commits"] }))))
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let run_worktrees = run_worktrees(pending_effect)?;
        let by_hand = |why: String| {
            let command = run_worktrees.merge_command();
            fields(json!({ "logs": [why, format!("to merge: {command}")] }))
        };
        if pending_effect.rehearsal {
            return Ok(by_hand("a rehearsal leaves the base branch alone".to_owned()));
        }
        if run_worktrees.is_merge_disabled() {
            return Ok(by_hand("`--no-merge` leaves the base branch alone".to_owned()));
        }
        Ok(match run_worktrees.fast_forward().map_err(|error| with_causes(&error))? {
            FastForward::Done => fields(json!({ "logs": ["fast-forwarded the base branch"] })),
            FastForward::NotPossible(why) => by_hand(format!("{NOT_MERGED_PREFIX}{why}")),
        })
    }
}

fn kill_checks(pending_effect: &PendingEffect) -> Result<(), String> {
    pending_effect
        .kill_checks()
        .map_err(|error| format!("cannot kill the checks of an earlier engine: {error}"))
}

fn run_worktrees(pending_effect: &PendingEffect) -> Result<&RunWorktrees, String> {
    pending_effect.run_worktrees.as_ref().ok_or_else(|| "the run has no worktrees".to_owned())
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn merge_report(commit: &str) -> Map<String, Value> {
    fields(json!({ "commit": commit, "logs": [format!("merged as {commit}")] }))
}

/// Adds the results of the checks, if there are any.
fn with_checks(mut fields: Map<String, Value>, results: &[CheckResult]) -> Map<String, Value> {
    if !results.is_empty() {
        fields.insert(CHECKS_FIELD.to_owned(), json!(results));
    }
    fields
}

/// Returns the report of a conflict. Its logs are for the agent whose branch was to be merged.
fn conflict_report(run_worktrees: &RunWorktrees, Conflict { files, diff }: &Conflict) -> Map<String, Value> {
    let branch = run_worktrees.integration_branch();
    let summary = format!(
        "conflict with `{branch}` in {}: run `git merge {branch}` in your worktree and resolve it",
        files.join(", ")
    );
    let shown = format!("what git shows:\n\n{}", code_block("diff", diff));
    fields(json!({ "gate_failure": true, "files": files, "logs": [shown, summary] }))
}

/// Returns the report of failed checks. Its logs are for the agent whose branch was to be merged.
fn failed_checks_report(run_worktrees: &RunWorktrees, results: &[CheckResult]) -> Map<String, Value> {
    let branch = run_worktrees.integration_branch();
    let failed: Vec<_> = results.iter().filter(|result| !result.passed()).collect();
    let details = failed.iter().map(|result| {
        let command = result.command_line();
        let output = code_block("text", result.output.trim_end());
        format!("{}\ncommand: `{command}`\nend of its output:\n\n{output}", result.summary())
    });
    let names: Vec<_> = failed.iter().map(|result| format!("`{}`", result.name)).collect();
    let summary = format!(
        "merged with `{branch}`, the tree fails {}: run `git merge {branch}` in your worktree and fix it",
        names.join(", ")
    );
    let logs: Vec<_> = details.chain([summary]).collect();
    fields(json!({ "gate_failure": true, "logs": logs }))
}
