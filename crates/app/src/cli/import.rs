//! `callboard import FILE`, and `--peer` for peer cycles of older formats.

mod bucket;
pub(super) mod cycle;
mod dump;
mod issue;
mod peer;
mod report;
mod steps;
mod team;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use protocol::cycle::Cycle;
use protocol::run::RunStatus;
use protocol::{ProtocolInfo, ProtocolKind, RunId, protocol_kind};
use runner::{DocumentImportError, ImportError, ImportTarget, Imported, RunAtRevision};
use store::AnyStore;
use supervisor::git;

use super::block_on;
use crate::config::Flags;
use crate::control;
use crate::control::views::{self, QuarantinedViews};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::workspace::{self, LocationArgs, Workspace, definition, worktrees};

/// Import a run: an archive that `export` wrote, the files of another program, or peer cycles from a dump of older formats
///
/// The whole archive is checked first: digests, paths, and that each entry follows from the one before. It is imported whole
/// or not at all. Its views then show this repository, and its journal says where it came from. An unfinished run waits for
/// `resume`; attempts that were running when it was exported count as interrupted.
///
/// A directory with a `run_state.json`, or that file, becomes a run of its workflow, which is searched in the repository by its
/// name and steps. Of a torn file the whole steps are taken, and what was lost is named. A step that was running starts again.
///
/// A directory `coordination/` becomes a run of `team`. Deviations from its format are listed, damaged files are read as far as
/// possible, and groups that are marked complete are verified by the tech lead. Importing it again changes nothing. Exits with 1
/// if something of it is lost.
///
/// With `--peer`, imports peer cycles that were stored before version 2, in any of their formats, from a dump of their
/// store or from the bucket itself. Without `--write`, only prints what each cycle would become. Cycles that were imported
/// before are left alone, so the command can be repeated. An unfinished cycle is paused until you `resume` it. Exits with 2 if
/// part of the dump cannot be read, and with 3 if a run exists with other content; all other cycles are imported.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard import f8c1a491.callboard.tar
  callboard import f8c1a491.callboard.tar --as from-the-server
  zstd -dc run.tar.zst | callboard import -
  callboard import .agents/runs/f8c1a491        # a run of another program, with its workflow
  callboard import .agents/runs/f8c1a491 --workflow flows/release.yaml
  callboard import issue-state.json             # the state of an issue, also as state.json
  callboard import coordination/ --dry-run      # print what the groups would become
  callboard import coordination/
  callboard import .workflow/.cycle/cycle-v1-20260122T100000-abc123.json
  callboard import --peer dump.jsonl            # print what the cycles would become
  callboard import --peer dump.jsonl --write
  callboard import --peer keys/ --json
  callboard import --peer nats://127.0.0.1:4222 --write --delete-old")]
pub(super) struct Arguments {
    /// The archive, directory or file; `-` for an archive on standard input
    #[arg(required_unless_present = "peer")]
    file: Option<PathBuf>,

    /// Name the run NAME [default: its present name]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    /// For an issue's state: where comments and the pull request go [default: gh for an address on GitHub, else files]
    #[arg(long, value_name = "TRACKER")]
    tracker: Option<super::issue::TrackerName>,

    /// For a file of `cycle`: its times are eight hours ahead and marked as UTC
    #[arg(long)]
    times_shifted: bool,

    /// For `coordination/` and `run_state.json`: print what would be imported, and write nothing
    #[arg(long, conflicts_with = "peer")]
    dry_run: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    steps: steps::StepsFlags,

    #[command(flatten)]
    peer: peer::PeerFlags,
}

/// Fails for a JSON file: it is no archive, and not one of the documents that were tried before. The error says why.
fn refuse_json(file: &Path) -> Result<(), Failure> {
    if file.extension().is_none_or(|extension| extension != "json") {
        return Ok(());
    }
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::usage(format!("cannot read `{}`", file.display())).because(Some(&error)))?;
    let failure = match serde_json::from_slice::<serde::de::IgnoredAny>(&bytes) {
        Err(error) => Failure::usage(format!("`{}` is not valid JSON", file.display())).because(Some(&error)),
        Ok(_) => Failure::usage(format!("`{}` is no document that can be imported", file.display()))
            .hint("`run_state.json`, the file of a `cycle` run and `issue-state.json` can be, with the keys of their formats"),
    };
    Err(failure.hint("nothing was imported"))
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    control::refuse_inside_attempt("import a run")?;
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let Some(file) = &arguments.file else {
        return peer::run(&workspace, &arguments.peer, arguments.json);
    };
    let name = arguments.name.as_deref().map(RunId::new).transpose();
    let name = name.map_err(|error| Failure::usage("invalid run name").because(Some(&error)))?;
    if let Some(view) = steps::find_view(file) {
        return steps::run(&workspace, &view, &arguments.steps, name, arguments.dry_run, arguments.json);
    }
    if let Some(directory) = team::find(file)? {
        return team::run(&workspace, &directory, name, arguments.dry_run, arguments.json);
    }
    if arguments.dry_run {
        return Err(Failure::usage("`--dry-run` needs the directory of a team's store or of a run")
            .hint("leave it out: an import is whole or not at all"));
    }
    if let Some(mut document) = cycle::read_master_file(file) {
        if arguments.times_shifted {
            cycle::correct_shifted_times(&mut document);
        }
        if let Some(name) = &name {
            return Err(cannot_rename(name, protocol_kind::<Cycle>().info()));
        }
        return block_on(cycle::import(&workspace, file, document, None, arguments.json));
    }
    if let Some(document) = issue::read(file) {
        return issue::run(&workspace, file, document, name, arguments.tracker, arguments.json);
    }
    refuse_json(file)?;
    let archive: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| {
            Failure::usage(format!("cannot read `{}`", file.display())).because(Some(&error))
        })?)
    };
    block_on(import(&workspace, &arguments, file, archive, name))
}

fn cannot_rename(name: &RunId, info: &ProtocolInfo) -> Failure {
    let what = format!("cannot rename the run to `{name}`: the id of a `{}` run is fixed", info.name);
    Failure::usage(what).hint("leave out `--as`")
}

/// Imports a run from an archive.
async fn import(
    workspace: &Workspace,
    arguments: &Arguments,
    file: &Path,
    archive: Box<dyn Read>,
    name: Option<RunId>,
) -> Result<Exit, Failure> {
    let import_target = ImportTarget {
        name,
        repo_dir: workspace.repo_dir()?,
        worktrees_dir: worktrees::dir(workspace)?,
        by: workspace::person_author(),
        now: workspace.clock.now(),
    };
    let store = workspace.store().await?;
    let unpacked = runner::unpack(&store, archive).map_err(|error| refused(file, &error))?;
    let new_name = import_target.name.as_ref().filter(|name| **name != unpacked.manifest.run);
    let info = workspace.protocols.find(&unpacked.manifest.protocol).map(ProtocolKind::info);
    if let (Some(new_name), Some(info @ ProtocolInfo { can_rename: false, .. })) = (new_name, info) {
        return Err(cannot_rename(new_name, info));
    }
    if let Some(info) = info {
        definition::exclude_views(&workspace.repo, info)?;
    }
    let imported = runner::import(&store, workspace.protocols, unpacked, &import_target).await;
    let imported = imported.map_err(|error| refused(file, &error))?;
    let quarantined = views::write(workspace, &store, &imported.run).await?;
    print(&imported, arguments.json);
    note_missing_branch(workspace, &store, &imported).await?;
    for (view, backup) in quarantined.into_iter().flatten() {
        output::note(format_args!(
            "`{}` was not written by Callboard; its content was moved to `{}`",
            view.display(),
            backup.display()
        ));
    }
    Ok(Exit::Success)
}

/// Prints a note if an unfinished run works on a branch that this repository does not have.
async fn note_missing_branch(
    workspace: &Workspace,
    store: &AnyStore,
    imported: &Imported,
) -> Result<(), Failure> {
    if matches!(imported.status, RunStatus::Finished(_)) {
        return Ok(());
    }
    let run_at = RunAtRevision::load(store.as_ref(), workspace.protocols, &imported.run, None).await?;
    let Some(run_worktrees) = run_at.and_then(|run_at| run_at.spec.options.run_worktrees()) else {
        return Ok(());
    };
    let branch = run_worktrees.integration_branch();
    if !git::has_branch(&workspace.repo, &branch).unwrap_or(true) {
        output::note(format_args!(
            "the run works on branch `{branch}`, which this repository does not have: fetch it before `resume`, or the work \
             starts again at the commit that the run started from"
        ));
    }
    Ok(())
}

fn print(imported: &Imported, json: bool) {
    let Imported { run, manifest, revision, status, interrupted } = imported;
    if json {
        output::json_pretty(&serde_json::json!({
            "run": run, "was": manifest.run, "host": manifest.host, "revision": revision,
            "status": run_status::name(*status),
            "files": manifest.files.len(), "interrupted": interrupted, "remote": manifest.remote,
        }));
        return;
    }
    output::data(run);
    output::message(format_args!(
        "imported {} entries and {} files, exported on `{}`; run status: {}",
        manifest.entries,
        manifest.files.len(),
        manifest.host,
        run_status::label(*status).1
    ));
    if !interrupted.is_empty() {
        output::note(format_args!("interrupted by the move: {}", interrupted.join(", ")));
    }
    if !matches!(status, RunStatus::Finished(_)) {
        output::note(format_args!(
            "run `callboard resume {run}` to continue it with the agents of this machine"
        ));
    }
}

/// Turns the error of a document import into a failure.
fn import_failure(error: &DocumentImportError, run: &RunId, file: &Path) -> Failure {
    Failure::from_document_import(error, run, file)
        .context(format_args!("cannot import `{}`", file.display()))
}

/// Prints which files of other programs were moved because a view of the imported run has their path.
fn note_moved_files(moved: Option<QuarantinedViews>) {
    for (view, backup) in moved.into_iter().flatten() {
        output::note(format_args!("the old `{}` was moved to `{}`", view.display(), backup.display()));
    }
}

/// Turns the error of an archive import into a failure.
fn refused(file: &Path, error: &ImportError) -> Failure {
    let exit = match error {
        ImportError::Exists(_) | ImportError::LeftoverAttempts { .. } => Exit::Refused,
        ImportError::NotAnArchive(_)
        | ImportError::Newer { .. }
        | ImportError::UnknownProtocol { .. }
        | ImportError::BadFile { .. }
        | ImportError::Entry { .. }
        | ImportError::Read(_) => Exit::Usage,
        ImportError::Write { .. }
        | ImportError::VoidAttempts(_)
        | ImportError::Store(_)
        | ImportError::Query(_) => Exit::Store,
    };
    let failure =
        Failure::from_error(exit, error).context(format_args!("cannot import `{}`", file.display()));
    match error {
        ImportError::Exists(_) => failure.hint("add `--as NAME` to import it under another name"),
        ImportError::LeftoverAttempts { path } => {
            failure.hint("run `callboard recover` if they belong to a lost run").hint(format_args!(
                "move `{}` away, or add `--as NAME` to import under another name",
                path.display()
            ))
        }
        _ => failure.hint("nothing was imported"),
    }
}
