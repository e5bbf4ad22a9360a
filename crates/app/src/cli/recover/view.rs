//! `recover --from-view`: rebuilds a run after the store was lost, by importing its view.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::steps::{DEFAULT_MAX_ITERATIONS, Steps};
use protocol::{Protocol as _, RunId, RunLocation, StepId, Turn, protocol_kind};
use runner::{DocumentImport, Overrides, RunOptions, RunSpec};
use serde_json::Value;
use store::{AnyStore, Backup, Damage, ExclusiveAccess, ReplacementDatabase, find_damage};

use super::{Arguments, report::RecoveryReport, verify};
use crate::cli::block_on;
use crate::cli::run::FailurePolicy;
use crate::engine;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::definition;
use crate::workspace::definition::{Approvals, DefinitionOptions};
use crate::workspace::worktrees::{self, WorktreeRequirements};
use crate::workspace::{self, Workspace};

/// The flags for `--from-view`: the view, and what it does not contain.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "From a view")]
pub(super) struct ViewFlags {
    /// Rebuild one run from this `run_state.json` after its store was lost
    #[arg(long, value_name = "VIEW", requires = "workflow", conflicts_with = "from")]
    pub(super) from_view: Option<PathBuf>,

    /// The workflow that the run was started with
    #[arg(long, requires = "from_view")]
    workflow: Option<PathBuf>,

    /// Maximum attempts of a step that does not set its own [default: 2]
    #[arg(long, value_name = "N", requires = "from_view")]
    pub(super) max_attempts: Option<std::num::NonZeroU32>,

    /// Maximum iterations of a gate [default: 4]
    #[arg(long, value_name = "N", requires = "from_view")]
    max_iterations: Option<std::num::NonZeroU32>,

    /// What happens to the other steps when a step fails
    #[arg(long, value_name = "POLICY", default_value = "stop", requires = "from_view")]
    on_failure: FailurePolicy,
}

pub(super) fn rebuild(workspace: &Workspace, view: &Path, arguments: &Arguments) -> Result<Exit, Failure> {
    let document = read(view)?;
    let run = document["run_id"].as_str().unwrap_or_default();
    let run = RunId::new(run).map_err(|error| {
        Failure::usage(format!("the view `{}` has no valid `run_id`", view.display())).because(Some(&error))
    })?;
    let flags = &arguments.view;
    let workflow = flags.workflow.as_deref().expect("BUG: clap requires it");
    let definition_options = DefinitionOptions {
        max_attempts: workspace.config.max_attempts.value,
        max_iterations: flags.max_iterations.unwrap_or(DEFAULT_MAX_ITERATIONS),
        on_failure: flags.on_failure.into(),
        approvals: Approvals::Required,
        gate_state_file: None,
        memory: Default::default(),
        report_schema: None,
    };
    let definition = definition::read(workspace, workflow, definition_options)?;
    let worktrees = definition.workflow().has_worktrees();
    // Continue the branch of the lost run: it has the work of the completed steps.
    let wanted = WorktreeRequirements { continue_branch: true, ..WorktreeRequirements::default() };
    let worktrees = worktrees.then(|| worktrees::options(workspace, &run, wanted)).transpose()?;
    let worktree = worktrees.as_ref().map(|trees| worktrees::path(workspace, &run, trees)).transpose()?;
    let options = RunOptions {
        location: RunLocation { worktree, ..RunLocation::new(run.clone(), workspace.repo_dir()?) },
        workdir: arguments.profiles.workdir(&workspace.repo)?,
        profile: arguments.profiles.profile()?,
        env: arguments.profiles.env.clone(),
        checks: if worktrees.is_some() { workspace.checks() } else { Vec::new() },
        worktrees,
        roles: arguments.profiles.roles(),
    };
    let engine_config = engine::engine_config(workspace, Overrides::default())?;
    let steps = definition.workflow().agent_steps().map(|step| (&step.id, step.agent.as_str()));
    engine::require_profiles(&engine_config, &options, Steps::NAME, steps)?;
    let turns = turns(workspace, &run, &document);
    let spec = RunSpec::new(definition.workflow().name.clone(), &definition, options);
    // A `run_state.json` does not say what a person has asked of the run, so `request` is `None`.
    let import = DocumentImport { path: view.display().to_string(), document, turns, request: None };
    let now = workspace.clock.now();
    let status = block_on(async {
        let store = if arguments.dry_run { None } else { Some(open_or_create_store(workspace).await?) };
        let (by, kind) = (workspace::person_author(), protocol_kind::<Steps>());
        let status = runner::import_document(store.as_ref(), &by, now, kind, spec, import);
        status.await.map_err(|error| {
            Failure::from_document_import(&error, &run, view)
                .context(format_args!("cannot rebuild run `{run}` from `{}`", view.display()))
        })
    })?;
    let status_label = run_status::label(status).1;
    if arguments.dry_run {
        if arguments.json {
            let result =
                serde_json::json!({ "run": run, "status": run_status::name(status), "dry_run": true });
            output::json_pretty(&result);
            return Ok(Exit::Success);
        }
        output::data(format_args!("run `{run}` would be rebuilt from `{}`: {status_label}", view.display()));
        return Ok(Exit::Success);
    }
    let mut report = RecoveryReport::new(workspace, arguments);
    let dry_run = false;
    block_on(async { verify::verify_and_write_views(workspace, dry_run, &mut report).await })?;
    report.notes.push(format!(
        "run `{run}` was rebuilt from its view; its journal begins there and does not contain earlier entries"
    ));
    report.notes.push(format!(
        "stop agents of the lost store that are still running, then run `callboard resume {run}` to continue"
    ));
    Ok(report.print())
}

fn read(view: &Path) -> Result<Value, Failure> {
    let failed = |cause: &(dyn std::error::Error + 'static)| {
        Failure::usage(format!("cannot read the view `{}`", view.display())).because(Some(cause))
    };
    let text = fs::read_to_string(view).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// Opens the store, or creates a new database if it is missing: the user has declared it lost.
async fn open_or_create_store(workspace: &Workspace) -> Result<AnyStore, Failure> {
    if workspace.nats.is_some() || !workspace.location.root().exists() {
        return workspace.store().await;
    }
    let mut exclusive = ExclusiveAccess::acquire(&workspace.location)?;
    let damage = find_damage(&exclusive).map_err(|error| Failure::from_error(Exit::Store, &error))?;
    match damage.as_slice() {
        [] => {}
        // The backup of an interrupted recovery has the other runs, and an empty database would hide it.
        [Damage::Missing]
            if Backup::of_interrupted_recovery(&exclusive)
                .is_some_and(|backup| backup.database().exists()) =>
        {
            return Err(Failure::new(
                Exit::Store,
                "an earlier recovery was interrupted; its backup has not been restored yet",
            )
            .hint("run `callboard recover` first; its backup may contain the run"));
        }
        [Damage::Missing] => {
            let failed = |error: &dyn std::error::Error| Failure::from_error(Exit::Store, error);
            // The write-ahead log may still exist.
            let backup =
                Backup::create(&exclusive, jiff::Timestamp::now()).map_err(|error| failed(&error))?;
            let replacement = ReplacementDatabase::create(&exclusive).map_err(|error| failed(&error))?;
            replacement.install(&mut exclusive, Some(&backup)).map_err(|error| failed(&error))?;
        }
        [damage, ..] => {
            return Err(Failure::new(Exit::Store, format!("the store is damaged: {damage}"))
                .hint("run `callboard recover` first; it may restore the run"));
        }
    }
    drop(exclusive);
    workspace.store().await
}

/// Returns how many turns each step has had: by the view or by the directories of its attempts, whichever says more.
pub(in crate::cli) fn turns(workspace: &Workspace, run: &RunId, document: &Value) -> BTreeMap<StepId, Turn> {
    let steps = document["steps"].as_object().into_iter().flatten();
    let counted = steps.filter_map(|(id, step)| {
        // A loop-back adds 1 to `iteration_count` and clears `started_at`. A step that has started since is in one more turn.
        let iterations = u32::try_from(step["iteration_count"].as_u64().unwrap_or(0)).unwrap_or(0);
        let turn = if step["started_at"].is_null() { iterations } else { iterations.saturating_add(1) };
        Some((StepId::new(id).ok()?, turn.max(last_attempt_turn(workspace, run, id))))
    });
    counted.filter(|(_, turn)| *turn > 0).map(|(step, turn)| (step, Turn(turn))).collect()
}

fn last_attempt_turn(workspace: &Workspace, run: &RunId, step: &str) -> u32 {
    let directory = workspace.location.attempts_dir().join(run.as_str()).join(step);
    let names = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let turns = names.filter_map(|name| name.to_str()?.split_once('.')?.0.parse().ok());
    turns.max().unwrap_or(0)
}
