//! The effects on git: `merge`, which brings a step's branch into the integration branch of its run, and `fast-forward`,
//! which brings that into the base branch.

use std::path::Path;

use protocol::brief::Worktree;
use protocol::checks::{CHECKS_FIELD, CheckResult};
use protocol::prompt::code_block;
use protocol::{NOT_MERGED, StepId};
use serde_json::{Map, Value, json};
use supervisor::git::{Conflict, FastForward, MergeOutcome, RunTrees};

use super::effect::{EffectOrder, PerformEffect};
use super::spec::GIT_FIELD;
use crate::error_chain::with_causes;

/// Merges the branch of the worktree that the arguments `worktree` and `branch` name. A conflict, or a failed
/// check of the merged tree, is a failed gate; so is a branch without commits if the argument `needs_commits` is true.
#[derive(Debug, Clone, Copy)]
pub struct Merge;

impl PerformEffect for Merge {
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let trees = trees(order)?;
        let found = trees.find_merge(&order.key()).map_err(|error| with_causes(&error))?;
        let Some(commit) = found else { return Ok(None) };
        kill_checks(order)?;
        // The engine that merged it was killed before it recorded the checks.
        let results = match order.checks.is_empty() {
            true => Vec::new(),
            false => {
                trees.check_merged(&commit, |tree| order.check(tree)).map_err(|error| with_causes(&error))?
            }
        };
        Ok(Some(with_checks(merge_report(&commit), &results)))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let trees = trees(order)?;
        let name = order.arguments["worktree"].as_str().unwrap_or_default();
        let name = StepId::new(name).map_err(|error| format!("`{name}` is no worktree: {error}"))?;
        let worktree = Worktree { name, branch: order.arguments["branch"].as_str().map(str::to_owned) };
        kill_checks(order)?;
        // Read before the merge, because afterwards the integration branch has the same commits.
        let git = trees.branch_changes(&worktree).ok().map(|changes| changes.to_json());
        let mut results = Vec::new();
        let accept = |tree: &Path| {
            results = order.check(tree)?;
            Ok(results.iter().all(CheckResult::passed))
        };
        let result = trees.merge(&worktree, &order.key(), accept).map_err(|error| with_causes(&error))?;
        let mut report = match result {
            MergeOutcome::Commit(commit) => with_checks(merge_report(&commit), &results),
            MergeOutcome::Nothing if order.arguments["needs_commits"] == true => fields(json!({
                "gate_failure": true,
                "logs": [format!(
                    "there is nothing to merge: the branch `{}` has no commits; make the changes there and commit them",
                    trees.branch(&worktree)
                )],
            })),
            MergeOutcome::Nothing => fields(json!({ "logs": ["nothing to merge"] })),
            MergeOutcome::Conflict(conflict) => conflict_report(trees, &conflict),
            MergeOutcome::Refused => with_checks(failed_checks_report(trees, &results), &results),
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
    fn find(&self, order: &EffectOrder) -> Result<Option<Map<String, Value>>, String> {
        let is_in_base = trees(order)?.is_in_base().map_err(|error| with_causes(&error))?;
        Ok(is_in_base.then(|| fields(json!({ "logs": ["the base branch has all commits"] }))))
    }

    fn perform(&self, order: &EffectOrder) -> Result<Map<String, Value>, String> {
        let trees = trees(order)?;
        let by_hand = |why: String| {
            let command = trees.merge_command();
            fields(json!({ "logs": [why, format!("to merge: {command}")] }))
        };
        if order.rehearsal {
            return Ok(by_hand("a rehearsal leaves the base branch alone".to_owned()));
        }
        if trees.is_merge_disabled() {
            return Ok(by_hand("`--no-merge` leaves the base branch alone".to_owned()));
        }
        Ok(match trees.fast_forward().map_err(|error| with_causes(&error))? {
            FastForward::Done => fields(json!({ "logs": ["fast-forwarded the base branch"] })),
            FastForward::NotPossible(why) => by_hand(format!("{NOT_MERGED}{why}")),
        })
    }
}

fn kill_checks(order: &EffectOrder) -> Result<(), String> {
    order.kill_checks().map_err(|error| format!("cannot kill the checks of an earlier engine: {error}"))
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

/// Returns the report of a conflict, whose logs the step gets.
fn conflict_report(trees: &RunTrees, Conflict { files, evidence }: &Conflict) -> Map<String, Value> {
    let branch = trees.integration_branch();
    let summary = format!(
        "conflict with `{branch}` in {}: run `git merge {branch}` in your worktree and resolve it",
        files.join(", ")
    );
    let shown = format!("what git shows:\n\n{}", code_block("diff", evidence));
    fields(json!({ "gate_failure": true, "files": files, "logs": [shown, summary] }))
}

/// Returns the report of failed checks, whose logs the step gets.
fn failed_checks_report(trees: &RunTrees, results: &[CheckResult]) -> Map<String, Value> {
    let branch = trees.integration_branch();
    let failed: Vec<_> = results.iter().filter(|result| !result.passed()).collect();
    let evidence = failed.iter().map(|result| {
        let command = result.command_line();
        let output = code_block("text", result.output.trim_end());
        format!("{}\ncommand: `{command}`\nend of its output:\n\n{output}", result.summary())
    });
    let names: Vec<_> = failed.iter().map(|result| format!("`{}`", result.name)).collect();
    let summary = format!(
        "merged with `{branch}`, the tree fails {}: run `git merge {branch}` in your worktree and fix it",
        names.join(", ")
    );
    let logs: Vec<_> = evidence.chain([summary]).collect();
    fields(json!({ "gate_failure": true, "logs": logs }))
}
