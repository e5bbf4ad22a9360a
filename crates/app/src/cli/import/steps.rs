//! Imports `.agents/runs/ID`, which another program wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use protocol::brief::MemoryPolicy;
use protocol::report::{self, ReportIdentity};
use protocol::run::RunStatus;
use protocol::steps::{
    DEFAULT_MAX_ITERATIONS, Definition, FilledDocument, OnFailure, Reports, Status, Steps, fill_missing,
    load, salvage,
};
use protocol::{Outcome, RunId, RunLocation, StepId, protocol_kind};
use runner::{DocumentImport, RunOptions, RunSpec};
use serde_json::{Value, json};

use super::{import_failure, note_moved_files};
use crate::cli::{block_on, recover};
use crate::control::views;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::definition::{self, Approvals, DefinitionOptions};
use crate::workspace::worktrees::{self, WorktreeRequirements};
use crate::workspace::{self, Workspace};

const VIEW: &str = "run_state.json";

/// The flags for a `run_state.json`: what it does not contain.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "For a directory with `run_state.json`")]
pub(super) struct StepsFlags {
    /// The workflow of the run [default: the one in the repository with its name and steps]
    #[arg(long, value_name = "FILE", conflicts_with = "peer")]
    workflow: Option<PathBuf>,

    /// The number of iterations of a gate [default: 4]
    #[arg(long, value_name = "N", conflicts_with = "peer")]
    max_iterations: Option<NonZeroU32>,

    /// The file with the conditions in `gates`: a JSON object of names, each `true` or `false`
    #[arg(long, value_name = "FILE", conflicts_with = "peer")]
    gate_state_file: Option<PathBuf>,
}

/// Returns the path of the `run_state.json` that this file is or this directory has; `None` if there is none.
pub(super) fn find_view(file: &Path) -> Option<PathBuf> {
    let view = if file.is_dir() { file.join(VIEW) } else { file.to_owned() };
    (view.file_name().is_some_and(|name| name == VIEW) && view.exists()).then_some(view)
}

/// Imports the file as a run, which `resume` continues.
pub(super) fn run(
    workspace: &Workspace,
    view: &Path,
    flags: &StepsFlags,
    name: Option<RunId>,
    dry_run: bool,
    json: bool,
) -> Result<Exit, Failure> {
    let text = fs::read(view)
        .map_err(|error| Failure::usage(format!("cannot read `{}`", view.display())).because(Some(&error)))?;
    let is_valid_json = serde_json::from_slice::<Value>(&text).is_ok();
    let salvaged = salvage(&String::from_utf8_lossy(&text));
    let run = name.map_or_else(|| run_id(view, &salvaged), Ok)?;
    let workflow = match &flags.workflow {
        Some(workflow) => workflow.clone(),
        None => search_workflow(&workspace.repo, &salvaged)?,
    };
    let definition_options = DefinitionOptions {
        max_attempts: workspace.config.max_attempts.value,
        max_iterations: flags.max_iterations.unwrap_or(DEFAULT_MAX_ITERATIONS),
        on_failure: OnFailure::Stop,
        approvals: Approvals::Required,
        gate_state_file: flags.gate_state_file.clone(),
        // The `memory_updates` in reports of another program do not change `AGENTS.md`.
        memory: MemoryPolicy::NotApplied,
        report_schema: None,
    };
    let definition = definition::read(workspace, &workflow, definition_options)?;
    let worktrees = definition.workflow().has_worktrees();
    let wanted = WorktreeRequirements { branch_flag: Some("--as"), ..WorktreeRequirements::default() };
    let worktrees = worktrees.then(|| worktrees::options(workspace, &run, wanted)).transpose()?;
    let worktree = worktrees.as_ref().map(|trees| worktrees::path(workspace, &run, trees)).transpose()?;
    let location = RunLocation { worktree, ..RunLocation::new(run.clone(), workspace.repo_dir()?) };
    let now = workspace.clock.now();
    // Reports have the run id that the file has, also when `--as` gives the run another name. Without a valid id there, no
    // report can be used.
    let reports =
        run_id(view, &salvaged).map(|old| read_reports(view, &old, &definition)).unwrap_or_default();
    // `lost`: what the file does not have; `from_reports`: steps that it does not have, but that have a report.
    let FilledDocument { document, lost, from_reports } =
        fill_missing(&definition, &location, now, salvaged, &reports);
    let options = RunOptions {
        location,
        workdir: workspace.repo.clone(),
        profile: None,
        env: Vec::new(),
        checks: if worktrees.is_some() { workspace.checks() } else { Vec::new() },
        worktrees,
        roles: BTreeMap::new(),
    };
    let kind = protocol_kind::<Steps>();
    if !dry_run {
        // Git ignores the views from the first one on.
        definition::exclude_views(&workspace.repo, kind.info())?;
    }
    let turns = recover::turns(workspace, &run, &document);
    let spec = RunSpec::new(definition.workflow().name.clone(), &definition, options);
    let started_again = running_steps(&document);
    let import = DocumentImport { path: view.display().to_string(), document, turns, request: None };
    // A file of another program at the path of a view is moved to the quarantine.
    let (status, quarantined) = block_on(async {
        let store = if dry_run { None } else { Some(workspace.store().await?) };
        let by = workspace::person_author();
        let imported = runner::import_document(store.as_ref(), &by, now, kind, spec, import).await;
        let status = imported.map_err(|error| import_failure(&error, &run, view))?;
        let quarantined = match &store {
            Some(store) => views::write(workspace, store, &run).await?,
            None => None,
        };
        Ok::<_, Failure>((status, quarantined))
    })?;
    if json {
        output::json_pretty(&json!({
            "run": run, "status": run_status::name(status), "workflow": workflow, "lost": lost,
            "from_reports": from_reports, "started_again": started_again, "dry_run": dry_run,
        }));
        note_moved_files(quarantined);
        return Ok(Exit::Success);
    }
    output::data(&run);
    let verb = if dry_run { "would import" } else { "imported" };
    output::message(format_args!(
        "{verb} `{}` with the workflow `{}`; run status: {}",
        view.display(),
        workflow.display(),
        run_status::label(status).1
    ));
    if !lost.is_empty() {
        let why = if is_valid_json { "not in the file" } else { "the file was cut off; lost" };
        output::note(format_args!("{why} and set as in a new run: {}", lost.join(", ")));
    }
    if !from_reports.is_empty() {
        output::note(format_args!("not in the file and taken from its report: {}", quoted(&from_reports)));
    }
    if !started_again.is_empty() {
        output::note(format_args!(
            "was running and will start again: {}; stop its agents first if they are alive",
            quoted(&started_again)
        ));
    }
    note_moved_files(quarantined);
    match status {
        _ if dry_run => output::note("nothing was written"),
        RunStatus::Finished(Outcome::Succeeded) => {
            output::note(format_args!("run `callboard retry {run} --from STEP` to do a part of it again"));
        }
        RunStatus::Finished(_) => {
            output::note(format_args!("run `callboard retry {run}` to retry the failed steps"));
        }
        _ => output::note(format_args!("run `callboard resume {run}` to continue it")),
    }
    Ok(Exit::Success)
}

/// Reads the reports in the directory `reports` next to the file. One that cannot be read, or names another run, step
/// or agent, is left out.
fn read_reports(view: &Path, run: &RunId, definition: &Definition) -> Reports {
    let directory = std::path::absolute(view).unwrap_or_else(|_| view.to_owned()).with_file_name("reports");
    let read = |step: &StepId| {
        let path = directory.join(format!("{run}__{step}.json"));
        let agent = definition.step(step).agent.clone();
        let expected = ReportIdentity { run_id: run.clone(), step_id: step.clone(), agent };
        let report = report::parse(&fs::read(&path).ok()?, &expected).ok()?;
        Some((step.clone(), (path.to_str()?.to_owned(), report)))
    };
    definition.step_ids().filter_map(read).collect()
}

/// Returns the run id in the document; if that is lost, the name of the file's directory.
fn run_id(view: &Path, salvaged: &Value) -> Result<RunId, Failure> {
    let directory = || {
        let view = view.canonicalize().ok()?;
        Some(view.parent()?.file_name()?.to_str()?.to_owned())
    };
    let id = salvaged["run_id"].as_str().map(str::to_owned).or_else(directory).unwrap_or_default();
    RunId::new(&id).map_err(|error| {
        Failure::usage(format!("`{}` has no valid `run_id`", view.display()))
            .because(Some(&error))
            .hint("add `--as NAME` to name the run")
    })
}

/// The folders in which workflows are searched, relative to the repository.
const FOLDERS: [&str; 5] = ["", "workflows", "flows", ".agents", ".agents/workflows"];

/// Returns the one workflow of the repository with the name and the steps of the document.
fn search_workflow(repo: &Path, salvaged: &Value) -> Result<PathBuf, Failure> {
    let mut matching: Vec<_> = FOLDERS.iter().flat_map(|folder| workflow_files(&repo.join(folder))).collect();
    matching.retain(|file| matches_run(file, salvaged));
    matching.sort();
    let name = salvaged["workflow_name"].as_str().map_or_else(String::new, |name| format!(" `{name}`"));
    let what = match matching.as_slice() {
        [file] => return Ok(file.clone()),
        [] => format!("no workflow{name} with the steps of the run was found"),
        several => {
            let names: Vec<_> = several.iter().map(|file| format!("`{}`", file.display())).collect();
            format!("several workflows fit the run: {}", names.join(", "))
        }
    };
    Err(Failure::usage(what).hint("add `--workflow FILE` to name the workflow that the run was started with"))
}

fn workflow_files(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_yaml = |file: &PathBuf| file.extension().is_some_and(|name| name == "yaml" || name == "yml");
    files.filter(is_yaml).collect()
}

/// Returns whether the workflow has the name of the run and all its steps, as far as the document still has them.
fn matches_run(file: &Path, salvaged: &Value) -> bool {
    let Some(workflow) = fs::read_to_string(file).ok().and_then(|text| load::analyze(&text).workflow) else {
        return false;
    };
    let steps: BTreeSet<_> = workflow.steps.iter().map(|step| step.id.as_str()).collect();
    let mut run_steps = salvaged["steps"].as_object().into_iter().flat_map(|steps| steps.keys());
    salvaged["workflow_name"].as_str().is_none_or(|name| name == workflow.name)
        && run_steps.all(|id| steps.contains(id.as_str()))
}

fn running_steps(document: &Value) -> Vec<String> {
    let steps = document["steps"].as_object().into_iter().flatten();
    let running = steps.filter(|(_, step)| step["status"] == Status::Running.as_str());
    running.map(|(id, _)| id.clone()).collect()
}

fn quoted(steps: &[impl std::fmt::Display]) -> String {
    let steps: Vec<_> = steps.iter().map(|step| format!("`{step}`")).collect();
    steps.join(", ")
}
