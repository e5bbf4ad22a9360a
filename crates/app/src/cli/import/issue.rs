//! Imports `issue-state.json`, which another program or an older run wrote.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use protocol::issue::{
    DEFAULT_PIPELINE_ATTEMPTS, Definition, Document, FILE, Issue, IssueData, Label, TrackerSpec,
};
use protocol::run::RunStatus;
use protocol::{Outcome, RunId, RunLocation, protocol_kind};
use runner::{DocumentImport, RunOptions, RunSpec};
use serde_json::{Value, json};

use super::import_failure;
use crate::cli::block_on;
use crate::cli::issue::{self, TrackerName};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::{self, Workspace, definition, worktrees};

/// Returns the state of an issue that the file contains; `None` if it is another file.
pub(super) fn read(file: &Path) -> Option<Value> {
    let name = file.file_name()?.to_str()?;
    if ![FILE, "state.json"].contains(&name) {
        return None;
    }
    let value: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (value.get("issue").is_some() && value.get("pipeline").is_some()).then_some(value)
}

/// Imports the state as a run. The flags in the state say which step is next, and `resume` runs it.
pub(super) fn run(
    workspace: &Workspace,
    file: &Path,
    document: Value,
    name: Option<RunId>,
    tracker: Option<TrackerName>,
    json: bool,
) -> Result<Exit, Failure> {
    let parsed = Document::default()
        .merged(&document)
        .map_err(|error| Failure::usage(format!("`{}` is malformed: {error}", file.display())))?;
    let number = parsed.issue.number.ok_or_else(|| Failure::usage("the issue has no number"))?;
    let run = match name {
        Some(name) => name,
        None => RunId::new(format!("issue-{number}")).expect("BUG: a number makes a name"),
    };
    let worktrees = issue::worktrees(workspace, &run, &issue::branch(number), true)?;
    let tracker = tracker_of(file, &parsed, tracker);
    let definition = Definition {
        pipeline_attempts: NonZeroU32::new(parsed.pipeline.max_attempts).unwrap_or(DEFAULT_PIPELINE_ATTEMPTS),
        ..issue::definition(workspace, issue_data(&parsed, number), tracker, &worktrees, false)?
    };
    let options = RunOptions {
        location: RunLocation {
            worktree: Some(worktrees::path(workspace, &run, &worktrees)?),
            state_dir: issue::state_dir(),
            ..RunLocation::new(run.clone(), workspace.repo_dir()?)
        },
        workdir: workspace.repo.clone(),
        profile: None,
        env: Vec::new(),
        checks: Vec::new(),
        worktrees: Some(worktrees),
        roles: BTreeMap::new(),
    };
    let title = format!("issue {number}: {}", parsed.issue.title);
    let spec = RunSpec::new(title, &definition, options);
    let import =
        DocumentImport { path: file.display().to_string(), document, turns: BTreeMap::new(), request: None };
    let status = block_on(async {
        let store = workspace.store().await?;
        definition::exclude_views(&workspace.repo, protocol_kind::<Issue>().info())?;
        let _lease = worktrees::lease(&store, protocol_kind::<Issue>(), &spec.options).await?;
        let (by, now) = (workspace::person_author(), workspace.clock.now());
        let imported =
            runner::import_document(Some(&store), &by, now, protocol_kind::<Issue>(), spec, import);
        imported.await.map_err(|error| import_failure(&error, &run, file))
    })?;
    if json {
        output::json_pretty(&json!({ "run": run, "status": run_status::name(status), "issue": number }));
        return Ok(Exit::Success);
    }
    output::message(format_args!("imported issue {number} as run `{run}`: {}", run_status::label(status).1));
    match status {
        RunStatus::Finished(Outcome::Succeeded) => {}
        RunStatus::Finished(_) => {
            output::message(format_args!("run `callboard retry {run}` to start it again"));
        }
        _ => output::message(format_args!("run `callboard resume {run}` to continue it")),
    }
    Ok(Exit::Success)
}

/// Returns the tracker that was asked for, or else the one that the issue's address belongs to.
fn tracker_of(file: &Path, parsed: &Document, asked: Option<TrackerName>) -> TrackerSpec {
    let is_on_github = parsed.issue.url.starts_with("https://github.com/");
    match asked {
        Some(TrackerName::Gh) => TrackerSpec::Gh,
        None if is_on_github => TrackerSpec::Gh,
        None | Some(TrackerName::Files) => {
            let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
            TrackerSpec::Files { dir: file.parent().unwrap_or(Path::new(".")).to_owned() }
        }
    }
}

fn issue_data(parsed: &Document, number: u64) -> IssueData {
    let found = &parsed.issue;
    IssueData {
        number,
        title: found.title.clone(),
        body: found.original_body.clone(),
        labels: found.labels.iter().cloned().map(Label::Name).collect(),
        url: found.url.clone(),
    }
}
