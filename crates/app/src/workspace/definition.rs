//! Reads the definition of a `steps` run: the workflow file and its prompts.

pub(crate) mod workflow;

use std::fs;
use std::io::Write as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use protocol::brief::MemoryPolicy;
use protocol::check::schema;
use protocol::steps::{Definition, OnFailure, StoredDefinition, Workflow};
use protocol::{ProtocolInfo, RunLocation};
use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::Workspace;
use workflow::{KnownChecks, ReadResult};

/// What the command adds to the workflow. It is stored with the run and never changes.
#[derive(Debug, Clone)]
pub(crate) struct DefinitionOptions {
    pub(crate) max_attempts: NonZeroU32,
    pub(crate) max_iterations: NonZeroU32,
    pub(crate) on_failure: OnFailure,
    pub(crate) approvals: Approvals,
    /// The file with the conditions of `gates`.
    pub(crate) gate_state_file: Option<PathBuf>,
    /// What happens to the `memory_updates` of reports.
    pub(crate) memory: MemoryPolicy,
    /// The JSON Schema of reports.
    pub(crate) report_schema: Option<Arc<Value>>,
}

/// Whether steps with `human_in_the_loop` wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approvals {
    Required,
    Skipped,
}

/// A workflow and its prompts, without the options of a run.
#[derive(Debug)]
pub(crate) struct WorkflowFiles {
    pub(crate) workflow: Workflow,
    prompts: Vec<String>,
    source: String,
}

/// Reads a workflow and its prompts, and adds the options.
pub(crate) fn read(
    workspace: &Workspace,
    file: &Path,
    options: DefinitionOptions,
) -> Result<Definition, Failure> {
    WorkflowFiles::read(workspace, file)?.with_options(options)
}

impl WorkflowFiles {
    /// Prints warnings; fails with every problem.
    pub(crate) fn read(workspace: &Workspace, file: &Path) -> Result<Self, Failure> {
        let source = fs::read_to_string(file).map_err(|error| {
            Failure::usage(format!("cannot read the workflow `{}`", file.display()))
                .because(Some(&error))
                .hint("name a workflow file; a relative path starts at the current directory")
        })?;
        let checks = workspace.checks();
        let known = KnownChecks::Named(checks.iter().map(|check| check.name.clone()).collect());
        let ReadResult { workflow, problems, warnings } =
            workflow::read(&workspace.repo, file, &source, &known);
        for warning in &warnings {
            output::message(output::warning(file, &source, warning));
        }
        let Some((mut workflow, prompts)) = workflow else {
            return Err(Failure::of_problems("workflow", file, &source, &problems));
        };
        workflow.resolve_checks(&checks).map_err(Failure::usage)?;
        Ok(Self { workflow, prompts, source })
    }

    pub(crate) fn with_options(self, options: DefinitionOptions) -> Result<Definition, Failure> {
        let Self { mut workflow, prompts, source } = self;
        let DefinitionOptions {
            max_attempts,
            max_iterations,
            on_failure,
            approvals,
            gate_state_file,
            memory,
            report_schema,
        } = options;
        let gate_state_file = gate_state_file.map(|file| conditions_file(&file)).transpose()?;
        if approvals == Approvals::Skipped {
            for step in workflow.remove_approvals() {
                output::note(format_args!("`{step}` does not wait for a person (`--no-pause`)"));
            }
        }
        if gate_state_file.is_none() {
            let ignored: Vec<_> =
                workflow.remove_conditions().iter().map(|name| format!("`{name}`")).collect();
            if !ignored.is_empty() {
                let names = ignored.join(", ");
                output::note(format_args!(
                    "the conditions {names} in `gates` count as true: `--gate-state-file FILE` was not given"
                ));
            }
        }
        // `prompts` has no element for a step without a prompt. Only a step for a person may have none.
        let with_prompt = workflow.steps_in_file().filter(|step| !step.prompt.is_empty());
        let prompts = with_prompt.map(|step| step.id.clone()).zip(prompts).collect();
        let stored = StoredDefinition {
            workflow,
            source,
            prompts,
            max_attempts,
            max_iterations,
            on_failure,
            gate_state_file,
            memory,
            report_schema,
        };
        Ok(stored.into())
    }
}

impl DefinitionOptions {
    /// Returns the options that a run was started with.
    pub(crate) fn of_run(workspace: &Workspace, file: &Path, stored: StoredDefinition) -> Self {
        Self {
            approvals: approvals_of_run(workspace, file, &stored),
            max_attempts: stored.max_attempts,
            max_iterations: stored.max_iterations,
            on_failure: stored.on_failure,
            gate_state_file: stored.gate_state_file.map(PathBuf::from),
            memory: stored.memory,
            report_schema: stored.report_schema,
        }
    }
}

/// Returns whether the run was started with `--no-pause`: its workflow has no approvals, although the stored file has.
fn approvals_of_run(workspace: &Workspace, file: &Path, stored: &StoredDefinition) -> Approvals {
    let has_approvals = |workflow: &Workflow| workflow.steps.iter().any(|step| step.human_in_the_loop);
    let ReadResult { workflow, .. } =
        workflow::read(&workspace.repo, file, &stored.source, &KnownChecks::NotNeeded);
    let are_removed =
        !has_approvals(&stored.workflow) && workflow.is_some_and(|(in_file, _)| has_approvals(&in_file));
    if are_removed { Approvals::Skipped } else { Approvals::Required }
}

/// Reads the JSON Schema of reports.
pub(crate) fn report_schema(file: &Path) -> Result<Arc<Value>, Failure> {
    let name = format!("the schema `{}`", file.display());
    let text = fs::read(file).map_err(|error| {
        Failure::usage(format!("cannot read {name}"))
            .because(Some(&error))
            .hint("name a file with a JSON Schema; a relative path starts at the current directory")
    })?;
    let value = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("{name} is not JSON"))
            .because(Some(&error))
            .hint("correct it there, or leave out `--schema` to check reports by the built-in rules alone")
    })?;
    let Some(problem) = schema::problem(&value) else { return Ok(Arc::new(value)) };
    let at = if problem.pointer.is_empty() { "its root" } else { &problem.pointer };
    let message = format!("cannot check reports with {name}: {at}: {}", problem.message);
    Err(Failure::usage(message).hint(format!("{}; `docs/workflow.md` lists the keywords", problem.repair)))
}

/// Returns the absolute path of the file with the conditions. It need not exist yet, but its directory must: the engine
/// watches it.
fn conditions_file(file: &Path) -> Result<String, Failure> {
    let failure = || Failure::usage(format!("cannot watch `--gate-state-file {}`", file.display()));
    let absolute = std::path::absolute(file).map_err(|error| failure().because(Some(&error)))?;
    let directory = absolute.parent().unwrap_or(Path::new("/"));
    if !directory.is_dir() {
        let hint = format!("make the directory `{}`; the file itself may come later", directory.display());
        return Err(failure().hint(hint));
    }
    absolute.to_str().map(str::to_owned).ok_or_else(|| failure().hint("choose a path that is UTF-8"))
}

/// Adds the views to `info/exclude` of git, before the first view is written.
pub(crate) fn exclude_views(repo: &Path, info: &ProtocolInfo) -> Result<(), Failure> {
    exclude(repo, &[&[RunLocation::RUNS_DIR], info.view_patterns].concat())
}

/// Adds patterns to `info/exclude` of git.
pub(crate) fn exclude(repo: &Path, patterns: &[&str]) -> Result<(), Failure> {
    let Some(store::Repository { common_dir, .. }) = store::repository(repo)? else { return Ok(()) };
    let file = common_dir.join("info/exclude");
    // Append our lines: those of the user, which may not be UTF-8, stay unchanged.
    let write = || {
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let is_excluded =
            |pattern: &&str| text.split(|byte| *byte == b'\n').any(|line| line == pattern.as_bytes());
        let missing: Vec<_> = patterns.iter().copied().filter(|pattern| !is_excluded(pattern)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let separator = if text.is_empty() || text.ends_with(b"\n") { "" } else { "\n" };
        fs::create_dir_all(common_dir.join("info"))?;
        let mut file = fs::File::options().create(true).append(true).open(&file)?;
        file.write_all(format!("{separator}{}\n", missing.join("\n")).as_bytes())
    };
    write().map_err(|error| {
        let patterns = patterns.join("`, `");
        let failure = |exit| Failure::new(exit, format!("cannot add `{patterns}` to `{}`", file.display()));
        if supervisor::is_full_disk(&error) {
            let hint = "free space on that disk, then run the same command again";
            return failure(Exit::Store).because(Some(&error)).hint(hint);
        }
        failure(Exit::Usage).because(Some(&error))
    })
}
