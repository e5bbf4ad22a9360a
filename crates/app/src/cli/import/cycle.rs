//! Makes a run of `cycle` from the master file that another program has written, or from what is left of one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::cycle::{
    Cycle, DEFAULT_MAX_ITERATIONS, DIRECTORY, Definition, PROGRESS_FILES_KEY, Rebuilt, Role, rebuild, times,
};
use protocol::run::{Request, RunStatus};
use protocol::{Outcome, RunLocation, StepId, Turn, protocol_kind};
use runner::{DocumentImport, RunOptions, RunSpec};
use serde_json::Value;

use super::{import_failure, note_moved_files};
use crate::cli::cycle::{given_id, templates};
use crate::control::views;
use crate::engine::profiles::AgentFlags;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::{self, Workspace, definition};

/// Reads the master file of a `cycle` run: the JSON file with its whole state. Returns `None` for any other file.
pub(crate) fn read_master_file(file: &Path) -> Option<Value> {
    let is_json = file.extension().is_some_and(|extension| extension == "json");
    let text = is_json.then(|| fs::read_to_string(file).ok()).flatten()?;
    let document: Value = serde_json::from_str(&text).ok()?;
    (document.get("cycle_id").is_some() && document.get("current_iteration").is_some()).then_some(document)
}

/// Corrects the times of a program that adds eight hours and marks the result as UTC.
pub(super) fn correct_shifted_times(document: &mut Value) {
    match document {
        Value::String(text) => {
            if let Some(corrected) = times::correct_shifted_time(text) {
                *text = corrected;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(correct_shifted_times),
        Value::Object(fields) => fields.values_mut().for_each(correct_shifted_times),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Makes a run from a document. It works in the checkout, as the program did that has written the document.
pub(crate) async fn import(
    workspace: &Workspace,
    file: &Path,
    mut document: Value,
    agent_flags: Option<&AgentFlags>,
    json: bool,
) -> Result<Exit, Failure> {
    let id = document["cycle_id"].as_str().unwrap_or_default();
    let run = given_id(id)
        .map_err(|failure| failure.context(format_args!("cannot import `{}`", file.display())))?;
    let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
    let task = document["task_history"][0].as_str().map_or_else(|| text("description"), str::to_owned);
    let definition = Definition {
        title: Some(text("title")).filter(|title| !title.is_empty()),
        max_iterations: document["max_iterations"]
            .as_u64()
            .and_then(|limit| u32::try_from(limit).ok())
            // 0 means that the limit is not given, as it does when the protocol imports the document.
            .filter(|limit| *limit > 0)
            .unwrap_or(DEFAULT_MAX_ITERATIONS),
        checks: workspace.checks(),
        max_attempts: workspace.config.max_attempts.value,
        templates: templates(workspace)?,
        ..Definition::new(task)
    };
    let profile = agent_flags.map(AgentFlags::profile).transpose()?.flatten();
    let options = RunOptions {
        location: RunLocation::new(run.clone(), workspace.repo_dir()?),
        workdir: match agent_flags {
            Some(flags) => flags.workdir(&workspace.repo)?,
            None => workspace.repo.clone(),
        },
        profile,
        env: agent_flags.map(|flags| flags.env.clone()).unwrap_or_default(),
        worktrees: None,
        // The checks of a cycle are in its definition.
        checks: Vec::new(),
        roles: agent_flags.map(AgentFlags::roles).unwrap_or_default(),
    };
    let kind = protocol_kind::<Cycle>();
    definition::exclude_views(&workspace.repo, kind.info())?;
    let spec = RunSpec::new(definition.title(), &definition, options);
    document.as_object_mut().map(|fields| fields.shift_remove(PROGRESS_FILES_KEY));
    let files = read_files(&file.with_extension("progress"));
    if !files.is_empty() {
        document[PROGRESS_FILES_KEY] = serde_json::json!(files);
    }
    let request = (document["status"] == "paused").then_some(Request::Pause);
    let turns = turns(&document);
    let import = DocumentImport { path: file.display().to_string(), turns, document, request };
    let store = workspace.store().await?;
    let imported = runner::import_document(
        Some(&store),
        &workspace::person_author(),
        workspace.clock.now(),
        kind,
        spec,
        import,
    )
    .await;
    let status = imported.map_err(|error| import_failure(&error, &run, file))?;
    let quarantined = views::write(workspace, &store, &run).await?;
    if json {
        output::json_pretty(&serde_json::json!({ "run": run, "status": run_status::name(status) }));
        note_moved_files(quarantined);
        return Ok(Exit::Success);
    }
    output::data(&run);
    output::message(format_args!(
        "imported `{}`; run status: {}",
        file.display(),
        run_status::label(status).1
    ));
    note_moved_files(quarantined);
    let next = match status {
        RunStatus::Finished(Outcome::Failed) => format!("retry {run}"),
        RunStatus::Finished(Outcome::Succeeded | Outcome::Incomplete) => format!("extend {run} \"MORE\""),
        RunStatus::Running
        | RunStatus::Paused
        | RunStatus::Stopping(_)
        | RunStatus::Stopped(_)
        | RunStatus::Draining(_)
        | RunStatus::Finishing(_) => format!("resume {run}"),
    };
    output::note(format_args!("run `callboard {next}` to continue it"));
    Ok(Exit::Success)
}

/// Returns how many turns each phase has had.
fn turns(document: &Value) -> BTreeMap<StepId, Turn> {
    let current =
        document["current_iteration"].as_u64().and_then(|number| u32::try_from(number).ok()).unwrap_or(0);
    let done: Vec<_> =
        document["completed_phases"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let turns = Role::ALL.map(|role| {
        let turn = if done.contains(&role.as_str()) { current } else { current.saturating_sub(1) };
        (StepId::new(role.as_str()).expect("BUG: a safe name"), Turn(turn))
    });
    turns.into_iter().filter(|(_, turn)| turn.0 > 0).collect()
}

/// Restores a run of `cycle`. If the store has it, writes its files again. Otherwise makes the run from the
/// master file or, if that is damaged, from the files in `ID.progress/`: then something is lost, and the result is
/// `Exit::Failed`.
pub(crate) async fn recover(
    workspace: &Workspace,
    cycle: &str,
    agent_flags: &AgentFlags,
) -> Result<Exit, Failure> {
    let run = given_id(cycle)?;
    let store = workspace.store().await?;
    if store.runs().await?.iter().any(|row| row.run == run) {
        let Some(quarantined) = views::write(workspace, &store, &run).await? else {
            output::message(format_args!("the engine of `{run}` is alive and writes its files"));
            return Ok(Exit::Success);
        };
        note_moved_files(Some(quarantined));
        output::message(format_args!("the files of `{run}` are those of its journal; nothing is lost"));
        return Ok(Exit::Success);
    }
    drop(store);
    let directory = workspace.repo.join(DIRECTORY);
    let file = directory.join(format!("{run}.json"));
    if let Some(document) = read_master_file(&file) {
        if let Some(other) = document["cycle_id"].as_str().filter(|id| *id != run.as_str()) {
            let what = format!("`{}` is the file of cycle `{other}`", file.display());
            let import = format!("run `callboard import {}` to import `{other}`", output::shell_word(&file));
            return Err(Failure::usage(what).context(format_args!("cannot recover `{run}`")).hint(import));
        }
        output::note("the store has no journal of the cycle; its master file is whole");
        return import(workspace, &file, document, Some(agent_flags), false).await;
    }
    let progress = directory.join(format!("{run}.progress"));
    let files = read_files(&progress);
    if files.is_empty() {
        return Err(Failure::usage(format!(
            "there is nothing to recover: `{}` is missing or damaged, and `{}` has no files",
            file.display(),
            progress.display()
        )));
    }
    let Rebuilt { document, lost } = rebuild(run.as_str(), &files);
    let exit = import(workspace, &file, document, Some(agent_flags), false).await?;
    for what in lost {
        output::note(format_args!("lost: {what}"));
    }
    Ok(match exit {
        Exit::Success => Exit::Failed,
        other => other,
    })
}

/// Reads all files below a directory, by their relative paths. A missing directory has none.
fn read_files(root: &Path) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut pending: Vec<PathBuf> = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                pending.push(path);
            } else if let (Ok(relative), Ok(text)) = (path.strip_prefix(root), fs::read_to_string(&path)) {
                files.insert(relative.to_string_lossy().into_owned(), text);
            }
        }
    }
    files
}
