//! `callboard run WORKFLOW --start-at-step STEP`: the newest run of the workflow starts again at the step.

use std::path::Path;

use protocol::steps::{Definition, Steps, StoredDefinition};
use protocol::{Protocol as _, RunId};
use runner::{EngineConfig, RunAtRevision};
use store::AnyStore;

use super::accept;
use crate::control::start_again::start_again;
use crate::engine::{self, start::StartArgs};
use crate::failure::{Exit, Failure};
use crate::workspace::definition::{DefinitionOptions, WorkflowFiles};
use crate::workspace::{self, Workspace};

/// What happens if the workflow or a prompt is not what the run was started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum ChangePolicy {
    Refuse,
    Accept,
}

impl ChangePolicy {
    /// Reads `--accept-changes`.
    pub(in crate::cli) fn of_flag(accept: bool) -> Self {
        if accept { Self::Accept } else { Self::Refuse }
    }
}

/// The workflow that a run starts again with. It may have changed since the run was started.
#[derive(Debug)]
pub(in crate::cli) struct NewVersion<'f> {
    pub(in crate::cli) file: &'f Path,
    pub(in crate::cli) files: WorkflowFiles,
    pub(in crate::cli) policy: ChangePolicy,
}

/// Starts the run of that name, or the newest run of the workflow, again at the step. Fails if `in_worktree` is set
/// (`--git-worktree`) and the run has no worktree.
pub(super) async fn run(
    workspace: &Workspace,
    start: &StartArgs,
    new: NewVersion<'_>,
    run_id: Option<&str>,
    step: &str,
    in_worktree: bool,
) -> Result<Exit, Failure> {
    let store = workspace.store().await?;
    let run = match run_id {
        Some(name) => workspace.resolve(&store, name).await?,
        None => newest_run(workspace, &store, &new.files.workflow.name).await?,
    };
    if in_worktree {
        require_worktree(workspace, &store, &run).await?;
    }
    let engine_config = engine::engine_config(workspace, start.profiles.overrides()?)?;
    let run = reuse_or_create_run(workspace, &store, run, new, step, &engine_config).await?;
    start_again(workspace, &store, &run, step, None, engine_config, &start.engine).await
}

/// Fails if the run does not have a worktree. It continues in the one that it has.
async fn require_worktree(workspace: &Workspace, store: &AnyStore, run: &RunId) -> Result<(), Failure> {
    let run_at = RunAtRevision::load(store.as_ref(), workspace.protocols, run, None).await?;
    let run_at = run_at.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
    match run_at.spec.options.worktrees {
        Some(_) => Ok(()),
        None => Err(Failure::new(Exit::Refused, format!("run `{run}` was started without `--git-worktree`"))
            .hint("leave out `--git-worktree` to continue it in the checkout")
            .hint("leave out `--start-at-step` to start a new run in a worktree")),
    }
}

/// Returns the run if its workflow is unchanged. Otherwise creates a run with the new version and the options of the old run,
/// or fails if the policy refuses changes.
pub(in crate::cli) async fn reuse_or_create_run(
    workspace: &Workspace,
    store: &AnyStore,
    run: RunId,
    NewVersion { file, files, policy }: NewVersion<'_>,
    step: &str,
    engine_config: &EngineConfig,
) -> Result<RunId, Failure> {
    let run_at = RunAtRevision::load(store.as_ref(), workspace.protocols, &run, None).await?;
    let run_at = run_at.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
    let options = DefinitionOptions::of_run(workspace, file, stored_definition(&run_at)?);
    let definition = files.with_options(options)?;
    match (refuse_changes(&run_at, &definition), policy) {
        (Ok(()), _) => Ok(run),
        (Err(failure), ChangePolicy::Refuse) => Err(failure),
        (Err(_), ChangePolicy::Accept) => {
            accept::continue_in_new_run(workspace, store, &run_at, definition, step, engine_config).await
        }
    }
}

/// Returns the newest run of this workflow in this repository.
async fn newest_run(workspace: &Workspace, store: &AnyStore, name: &str) -> Result<RunId, Failure> {
    let repo_dir = workspace.repo_dir()?;
    let rows = store.runs().await?;
    let is_of_workflow = |row: &&store::RunListing| {
        let summary = workspace::summary(row);
        row.protocol == Steps::NAME
            && summary.is_some_and(|summary| summary.title == name && summary.repo_dir == repo_dir)
    };
    let newest = rows.iter().filter(is_of_workflow).max_by_key(|row| row.created);
    newest.map(|row| row.run.clone()).ok_or_else(|| {
        let failure = Failure::usage(format!("there is no run of workflow `{name}` to start again"));
        let failure = match external_run(&workspace.repo, &rows) {
            Some(run) => failure.hint(format_args!(
                "run `callboard import .agents/runs/{run}` first to take over that run of another program"
            )),
            None => failure,
        };
        failure
            .hint("leave out `--start-at-step` to start a new run")
            .hint("or name a run with `--run-id`; `callboard ls` lists them")
    })
}

/// Returns the name of the newest directory in `.agents/runs` that has a state file and is not a run of the store.
fn external_run(repo: &Path, rows: &[store::RunListing]) -> Option<String> {
    let entries = std::fs::read_dir(repo.join(".agents/runs")).ok()?.flatten();
    let written = entries.filter_map(|entry| {
        let written = entry.path().join("run_state.json").metadata().ok()?.modified().ok()?;
        Some((written, entry.file_name().into_string().ok()?))
    });
    let is_known = |name: &String| rows.iter().any(|row| row.run.as_str() == name);
    written.filter(|(_, name)| !is_known(name)).max().map(|(_, name)| name)
}

/// Fails if the workflow or a prompt is not what the run was started with.
fn refuse_changes(run_at: &RunAtRevision, definition: &Definition) -> Result<(), Failure> {
    let current = StoredDefinition::from(definition.clone());
    let stored = stored_definition(run_at)?;
    let changed_prompts: Vec<_> = current
        .prompts
        .iter()
        .filter(|(step, prompt)| stored.prompts.get(*step) != Some(prompt))
        .map(|(step, _)| format!("the prompt of `{step}`"))
        .collect();
    let workflow = (stored.workflow != current.workflow).then(|| "the workflow file".to_owned());
    let changed: Vec<_> = workflow.into_iter().chain(changed_prompts).collect();
    if changed.is_empty() {
        return Ok(());
    }
    let run = &run_at.run;
    let what = format!("run `{run}` was started with another version: {} changed", changed.join(", "));
    Err(Failure::new(Exit::Refused, what)
        .hint(format_args!(
            "run `callboard retry {run} --from STEP` to continue with what it was started with"
        ))
        .hint("add `--accept-changes` to continue with the new version")
        .hint("run `callboard run WORKFLOW` to start a new run with the new version"))
}

/// Returns the definition that the run was started with.
pub(in crate::cli) fn stored_definition(run_at: &RunAtRevision) -> Result<StoredDefinition, Failure> {
    serde_json::from_str(run_at.spec.definition.get())
        .map_err(|_| Failure::usage(format!("run `{}` is not the run of a workflow", run_at.run)))
}
