//! Imports `coordination/`, which another program has written: `pm_state.json` and the other files in which a team keeps its state.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use protocol::entry::{Input, RecoverySource};
use protocol::run::RunStatus;
use protocol::team::{CoordinationFiles, Definition, ImportPreview, Limits, ModeChoice, Salvaged, Team};
use protocol::{Revision, RunId, RunLocation, StepId, View, protocol_kind};
use runner::{DocumentImport, DocumentImportError, Journal, RunAtRevision, RunOptions, RunSpec, Summary};
use serde_json::{Value, json};
use store::{AnyStore, Digest};

use super::note_moved_files;
use crate::cli::block_on;
use crate::control::views;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::worktrees::{self, WorktreeRequirements};
use crate::workspace::{self, Workspace, definition, prompts, view_paths};

/// The usual name of the directory of a team's store.
const DIRECTORY: &str = "coordination";

/// The key of the document under which [`Import::with_branches`] adds what git has on the branches.
const BRANCHES: &str = "branches";

/// Returns the directory of the team's store that a path names: the directory itself, one below it, or that of one of its
/// files. `None` if the path names another file. Fails if a directory contains no such store, or several.
pub(super) fn find(path: &Path) -> Result<Option<PathBuf>, Failure> {
    if !path.is_dir() {
        let is_file = |name: &&str| path.ends_with(name);
        let name = CoordinationFiles::names().find(is_file);
        return Ok(name
            .and_then(|name| path.ancestors().nth(Path::new(name).components().count()))
            .map(or_current_dir));
    }
    if is_team_store(path) {
        return Ok(Some(path.to_owned()));
    }
    let mut found = Vec::new();
    team_stores_below(path, 0, &mut found);
    found.sort();
    match found.as_slice() {
        [] => Err(Failure::usage(format!(
            "`{}` contains neither a run nor the files of a team",
            path.display()
        ))
        .hint("name the directory that has `run_state.json` or `pm_state.json`")),
        [only] => Ok(Some(only.clone())),
        several => {
            let mut failure = Failure::usage(format!("`{}` contains several stores", path.display()));
            failure.causes.extend(several.iter().map(|found| format!("`{}`", found.display())));
            Err(failure.hint("name the one to import"))
        }
    }
}

/// Returns the path, or `.` if it is empty.
fn or_current_dir(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}

fn is_team_store(directory: &Path) -> bool {
    CoordinationFiles::names().any(|name| directory.join(name).is_file())
}

/// Collects the stores of teams below a directory. Leaves out links, hidden directories, `node_modules` and `target`.
fn team_stores_below(directory: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    const MAX_DEPTH: usize = 6;
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if name == DIRECTORY && is_team_store(&path) {
            found.push(path);
        } else if depth < MAX_DEPTH && !name.starts_with('.') && name != "node_modules" && name != "target" {
            team_stores_below(&path, depth + 1, found);
        }
    }
}

/// The files of a team, and the run that they become.
struct Import<'a> {
    workspace: &'a Workspace,
    directory: &'a Path,
    run: RunId,
    document: Value,
    preview: ImportPreview,
    notes: Vec<String>,
    lost: Vec<String>,
}

/// The result of an import.
enum ImportOutcome {
    /// Nothing was written: only a preview was asked for.
    DryRun(RunStatus),
    Imported(RunStatus),
    Exists,
}

/// Imports the team's store as a run, which `resume` continues. Exits with 1 if something is lost.
pub(super) fn run(
    workspace: &Workspace,
    directory: &Path,
    name: Option<RunId>,
    dry_run: bool,
    as_json: bool,
) -> Result<Exit, Failure> {
    let Salvaged { coordination_files: files, notes, lost } = read(directory)?;
    let preview = files.preview_import();
    let document = serde_json::to_value(&files).expect("BUG: a store is plain data");
    let run = name.map_or_else(|| run_name(&preview, &document), Ok)?;
    let import = Import { workspace, directory, run, document, preview, notes, lost };
    let outcome = block_on(import.perform(dry_run))?;
    import.print(&outcome, as_json);
    Ok(if import.lost.is_empty() { Exit::Success } else { Exit::Failed })
}

fn read(directory: &Path) -> Result<Salvaged, Failure> {
    let mut texts = BTreeMap::new();
    for name in CoordinationFiles::names() {
        let path = directory.join(name);
        match fs::read(&path) {
            Ok(bytes) => {
                texts.insert(name.to_owned(), String::from_utf8_lossy(&bytes).into_owned());
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let what = format!("cannot read `{}`", path.display());
                return Err(Failure::usage(what).because(Some(&error)).hint("nothing was imported"));
            }
        }
    }
    let salvaged = CoordinationFiles::read(&texts);
    if salvaged.coordination_files.files.is_empty() {
        let mut failure = Failure::usage(format!("nothing of `{}` can be read", directory.display()));
        failure.causes = salvaged.lost;
        return Err(failure.hint("nothing was imported"));
    }
    Ok(salvaged)
}

/// Returns the name of the run: the session of the team's store, or a digest of its content.
fn run_name(preview: &ImportPreview, document: &Value) -> Result<RunId, Failure> {
    let session = preview.session_id.as_deref();
    // It must also be a valid step id, because run and step together name a report file.
    if let Some(run) = session.and_then(|id| StepId::new(id).and_then(RunId::new).ok()) {
        return Ok(run);
    }
    let digest = Digest::of(document.to_string().as_bytes()).to_string();
    let digest: String = digest.chars().take(8).collect();
    RunId::new(format!("team-{digest}")).map_err(|error| Failure::from_error(Exit::Bug, &error))
}

impl Import<'_> {
    async fn perform(&self, dry_run: bool) -> Result<ImportOutcome, Failure> {
        let (workspace, kind) = (self.workspace, protocol_kind::<Team>());
        let store = match dry_run {
            true => workspace.existing_store().await?,
            false => Some(workspace.store().await?),
        };
        if let Some(store) = &store
            && let Some(journal) =
                Journal::load(store, &workspace.clock, workspace.protocols, &self.run).await?
        {
            // Revision 1 opens a run; revision 2 of an imported run is the import.
            let input = journal.entry(Revision(2)).await?.map(|entry| entry.input);
            let is_same = match input {
                Some(Input::Recovered { source: RecoverySource::View { mut document, .. } }) => {
                    // The branches may have moved since.
                    document.as_object_mut().map(|fields| fields.remove(BRANCHES));
                    document == self.document
                }
                _ => false,
            };
            return if is_same { Ok(ImportOutcome::Exists) } else { Err(self.run_exists_failure()) };
        }
        if let Some(store) = &store
            && let Some(run) = self.run_with_session(store).await?
        {
            return Err(self.session_exists_failure(&run));
        }
        let spec = self.spec()?;
        if let Some(store) = store.as_ref().filter(|_| !dry_run) {
            view_paths::clear_view_paths(workspace, store, kind, &spec, true).await?;
            definition::exclude_views(&workspace.repo, kind.info())?;
        }
        let import = DocumentImport {
            path: self.directory.display().to_string(),
            document: self.with_branches(&spec)?,
            turns: BTreeMap::new(),
            request: None,
        };
        let target = store.as_ref().filter(|_| !dry_run);
        let status = runner::import_document(
            target,
            &workspace::person_author(),
            workspace.clock.now(),
            kind,
            spec,
            import,
        )
        .await
        .map_err(|error| self.refused(&error))?;
        let Some(store) = target else { return Ok(ImportOutcome::DryRun(status)) };
        self.write_views(store).await?;
        Ok(ImportOutcome::Imported(status))
    }

    /// Returns the document with what git has on the branches of its groups. A branch without commits is left out: its
    /// work may have been merged already.
    fn with_branches(&self, spec: &RunSpec) -> Result<Value, Failure> {
        let mut document = self.document.clone();
        let Some(run_worktrees) = spec.options.run_worktrees() else { return Ok(document) };
        let mut branches = serde_json::Map::new();
        for branch in &self.preview.branches {
            let changes = run_worktrees.changes_of_branch(branch).map_err(|error| {
                Failure::from_error(Exit::Failed, &error)
                    .context(format_args!("cannot read the branch `{branch}`"))
            })?;
            if let Some(changes) = changes.filter(|changes| !changes.commits.is_empty()) {
                branches.insert(branch.clone(), changes.to_json());
            }
        }
        if !branches.is_empty() {
            document[BRANCHES] = branches.into();
        }
        Ok(document)
    }

    /// Returns the run in the store of Callboard with this session: it wrote these files, or was imported from them.
    async fn run_with_session(&self, store: &AnyStore) -> Result<Option<RunId>, Failure> {
        let Some(session) = &self.preview.session_id else { return Ok(None) };
        let (workspace, repo_dir) = (self.workspace, self.workspace.repo_dir()?);
        for row in store.runs().await? {
            let is_of_this_repo =
                Summary::decode(&row.summary).is_some_and(|summary| summary.repo_dir == repo_dir);
            if row.protocol != protocol_kind::<Team>().info().name || !is_of_this_repo {
                continue;
            }
            let Some(run_at) =
                RunAtRevision::load(store.as_ref(), workspace.protocols, &row.run, None).await?
            else {
                continue;
            };
            let has_session = |view: &View| {
                let file: Option<Value> = serde_json::from_str(&view.body).ok();
                file.is_some_and(|file| file["session_id"] == **session)
            };
            if run_at.machine().document().views().iter().any(has_session) {
                return Ok(Some(row.run));
            }
        }
        Ok(None)
    }

    fn session_exists_failure(&self, run: &RunId) -> Failure {
        Failure::new(Exit::Refused, format!("the store has run `{run}` with this session"))
            .context(format_args!("cannot import `{}`", self.directory.display()))
            .hint(format_args!("run `callboard resume {run}` to continue it, which writes its files again"))
            .hint(format_args!("run `callboard export {run} --documents DIR` for its files"))
    }

    async fn write_views(&self, store: &AnyStore) -> Result<(), Failure> {
        note_moved_files(views::write(self.workspace, store, &self.run).await?);
        Ok(())
    }

    fn spec(&self) -> Result<RunSpec, Failure> {
        let workspace = self.workspace;
        let lost =
            || "The original request is lost; the tasks of the plan are what is known of it.".to_owned();
        let request = self.preview.request.clone().unwrap_or_else(lost);
        let definition = Definition {
            request: request.clone(),
            mode: ModeChoice::Auto,
            limits: Limits { attempts: workspace.config.max_attempts.value, ..Limits::default() },
            timeout: None,
            prompts: prompts::read(&workspace.repo, protocol_kind::<Team>().info())?,
        };
        // `--as` names the run, and with it the branch.
        let wanted = WorktreeRequirements { branch_flag: Some("--as"), ..WorktreeRequirements::default() };
        let worktrees = worktrees::options(workspace, &self.run, wanted)?;
        let options = RunOptions {
            location: RunLocation {
                worktree: Some(worktrees::path(workspace, &self.run, &worktrees)?),
                ..RunLocation::new(self.run.clone(), workspace.repo_dir()?)
            },
            workdir: workspace.repo.clone(),
            profile: None,
            env: Vec::new(),
            checks: workspace.checks(),
            worktrees: Some(worktrees),
            roles: BTreeMap::new(),
        };
        let title = request.lines().next().unwrap_or_default().to_owned();
        Ok(RunSpec::new(title, &definition, options))
    }

    fn run_exists_failure(&self) -> Failure {
        let run = &self.run;
        Failure::new(Exit::Refused, format!("run `{run}` exists with other content"))
            .context(format_args!("cannot import `{}`", self.directory.display()))
            .hint("add `--as NAME` to import it under another name")
            .hint(format_args!("run `callboard show {run}` to see the run that exists"))
    }

    fn refused(&self, error: &DocumentImportError) -> Failure {
        let exit = match error {
            DocumentImportError::Exists(_) => return self.run_exists_failure(),
            DocumentImportError::Refused(_) => Exit::Usage,
            DocumentImportError::Store(_) => Exit::Store,
        };
        Failure::from_error(exit, error)
            .context(format_args!("cannot import `{}`", self.directory.display()))
            .hint("nothing was imported")
    }

    fn print(&self, outcome: &ImportOutcome, as_json: bool) {
        let Self { run, directory, preview, lost, .. } = self;
        let notes: Vec<_> = self.notes.iter().chain(&preview.notes).collect();
        let (result, status) = match outcome {
            ImportOutcome::DryRun(status) => ("new", Some(*status)),
            ImportOutcome::Imported(status) => ("imported", Some(*status)),
            ImportOutcome::Exists => ("exists", None),
        };
        if as_json {
            let groups: Vec<_> =
                preview.groups.iter().map(|(id, next)| json!({ "id": id, "next": next })).collect();
            output::json_pretty(&json!({
                "run": run, "result": result, "status": status.map(run_status::name), "groups": groups,
                "notes": notes, "lost": lost,
            }));
            return;
        }
        output::data(run);
        if matches!(outcome, ImportOutcome::Exists) {
            output::message(format_args!(
                "`{}` is imported already; nothing has changed",
                directory.display()
            ));
            lost.iter().for_each(|lost| output::note(format_args!("lost: {lost}")));
            return;
        }
        for (id, next) in &preview.groups {
            output::message(format_args!("  group {id}: {next}"));
        }
        notes.iter().for_each(output::note);
        lost.iter().for_each(|lost| output::note(format_args!("lost: {lost}")));
        match outcome {
            ImportOutcome::DryRun(_) => {
                output::message(format_args!("nothing was imported; leave out `--dry-run` to import it"));
            }
            ImportOutcome::Imported(status) => {
                output::message(format_args!(
                    "imported `{}`; run status: {}",
                    directory.display(),
                    run_status::label(*status).1
                ));
                output::note(format_args!("run `callboard resume {run}` to continue it"));
            }
            ImportOutcome::Exists => {}
        }
    }
}
