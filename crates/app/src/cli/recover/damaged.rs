//! Recovers a damaged or missing store: backs it up, reads its entries, and writes a new database.

use std::error::Error;
use std::path::Path;

use protocol::RunId;
use protocol::cycle;
use runner::{SalvageOutcome, SalvageTarget, Salvaged};
use store::{Backup, ExclusiveAccess, ReplacementDatabase, Salvage, SqliteStore, Store as _, find_damage};

use super::report::{RecoveryReport, RunRecovery, rebuild_command};
use super::{Arguments, verify};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{self, Workspace};

/// Backs up the store, builds a new database from what can be read, and installs it. `interrupted_backup` is the backup of
/// an earlier recovery that was interrupted.
pub(super) async fn recover(
    workspace: &Workspace,
    arguments: &Arguments,
    mut exclusive: ExclusiveAccess,
    interrupted_backup: Option<Backup>,
    mut report: RecoveryReport,
) -> Result<Exit, Failure> {
    let now = workspace.clock.now();
    let scratch = create_scratch_dir(workspace)?;
    let backup = match interrupted_backup {
        Some(backup) => {
            report
                .notes
                .push("an earlier recovery was interrupted; this one continues from its backup".to_owned());
            Some(backup)
        }
        None if arguments.dry_run || !Backup::has_files(&exclusive) => None,
        None => Some(
            Backup::create(&exclusive, now.to_jiff().unwrap_or_default()).map_err(|error| failed(&error))?,
        ),
    };
    let source = match (&arguments.from, &backup) {
        (Some(file), _) => file.clone(),
        (None, Some(backup)) => backup.database(),
        (None, None) => workspace.location.database(),
    };
    let salvage = Salvage::read(&source, &scratch.path().join("salvage.db"));
    let salvage = salvage.map_err(|error| failed(&error))?;
    let replacement = if arguments.dry_run {
        ReplacementDatabase::create_at(&scratch.path().join("replacement.db"))
    } else {
        ReplacementDatabase::create(&exclusive)
    };
    let mut replacement = replacement.map_err(|error| failed(&error))?;
    let salvaged = salvage_all(workspace, &salvage, &mut replacement, &[])?;
    report.backup = backup.as_ref().map(|backup| backup.directory().to_owned());
    report.runs = salvaged.iter().map(RunRecovery::salvaged).collect();
    if salvaged.iter().all(|run| matches!(run.outcome, SalvageOutcome::Unreadable { .. })) {
        return Err(nothing_readable(workspace, &report));
    }
    if arguments.dry_run {
        replacement.finish().map_err(|error| failed(&error))?;
        return Ok(report.print());
    }
    replacement.install(&mut exclusive, backup.as_ref()).map_err(|error| failed(&error))?;
    let damage = find_damage(&exclusive).map_err(|error| Failure::from_error(Exit::Bug, &error))?;
    drop(exclusive);
    let mut after = RecoveryReport::new(workspace, arguments);
    let inconsistencies = verify::verify_and_write_views(workspace, false, &mut after).await?;
    if let Some(damage) = damage.iter().map(ToString::to_string).chain(after.damage).next() {
        let message = format!("the recovered store is damaged: {damage}");
        return Err(Failure::new(Exit::Bug, message).hint(backup_hint(&report)));
    }
    assert_eq!(inconsistencies, 0, "BUG: an inconsistency was counted and not listed in `damage`");
    report.views = after.views;
    report.quarantined = after.quarantined;
    report.notes.append(&mut after.notes);
    Ok(report.print())
}

/// Adds the runs of a copy of a database (`--from`) to an intact store. Existing runs stay unchanged. Fails if one of them is
/// inconsistent.
pub(super) async fn add_runs_of_copy(
    workspace: &Workspace,
    file: &Path,
    arguments: &Arguments,
    mut report: RecoveryReport,
) -> Result<Exit, Failure> {
    // A dry run: no view is written before it is certain that the store is intact.
    let mut before = RecoveryReport::new(workspace, arguments);
    if verify::verify_and_write_views(workspace, true, &mut before).await? > 0 {
        let store = workspace.location.root().display();
        let message = format!("cannot add the runs of `{}`: the store `{store}` is damaged", file.display());
        let mut failure = Failure::new(Exit::Store, message);
        failure.causes.append(&mut before.damage);
        return Err(failure.hint("run `callboard recover` to repair the store, then this command again"));
    }
    let scratch = create_scratch_dir(workspace)?;
    let salvage = Salvage::read(file, &scratch.path().join("salvage.db")).map_err(|error| failed(&error))?;
    let store = SqliteStore::open(&workspace.location)?;
    let existing: Vec<_> = store.runs().await?.into_iter().map(|row| row.run).collect();
    // The runs are first written to a database that is thrown away: the report is complete before the store changes.
    let mut replacement = ReplacementDatabase::create_at(&scratch.path().join("replacement.db"))
        .map_err(|error| failed(&error))?;
    let salvaged = salvage_all(workspace, &salvage, &mut replacement, &[])?;
    replacement.finish().map_err(|error| failed(&error))?;
    for Salvaged { run, outcome } in &salvaged {
        let exists = run.as_ref().is_ok_and(|run| existing.contains(run));
        report.runs.push(match exists {
            true => RunRecovery::existing(run),
            false => RunRecovery::salvaged(&Salvaged { run: run.clone(), outcome: outcome.clone() }),
        });
    }
    if arguments.dry_run {
        return Ok(report.print());
    }
    salvage_all(workspace, &salvage, &mut &store, &existing)?;
    let mut after = RecoveryReport::new(workspace, arguments);
    verify::verify_and_write_views(workspace, false, &mut after).await?;
    report.damage.append(&mut after.damage);
    report.views = after.views;
    report.quarantined = after.quarantined;
    report.notes.append(&mut after.notes);
    Ok(report.print())
}

/// Writes every readable run to the target, except those in `except`, and returns the result for each.
fn salvage_all(
    workspace: &Workspace,
    salvage: &Salvage,
    target: &mut impl SalvageTarget,
    except: &[RunId],
) -> Result<Vec<Salvaged>, Failure> {
    let mut salvaged = Vec::new();
    for found in salvage.runs().map_err(|error| failed(&error))? {
        let kind =
            runner::salvaged_kind(workspace.protocols, salvage, &found).map_err(|error| failed(&error))?;
        // A run is of the protocol that can read its spec. If there is none, any protocol reports what is damaged.
        let kind = kind.unwrap_or(workspace.protocols.0[0]);
        let (by, now) = (workspace::person_author(), workspace.clock.now());
        let result = runner::salvage(kind, salvage, &found, target, except, &by, now);
        salvaged.extend(result.map_err(|error| failed(&error))?);
    }
    // Add the runs that the damaged store lists without any entry.
    let lost = runner::lost_runs(salvage, &salvaged).map_err(|error| failed(&error))?;
    salvaged.extend(lost.into_iter().filter(|lost| !lost.run.as_ref().is_ok_and(|run| except.contains(run))));
    Ok(salvaged)
}

fn create_scratch_dir(workspace: &Workspace) -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new().prefix("recover-").tempdir_in(workspace.location.root()).map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write to `{}`", workspace.location.root().display()))
            .because(Some(&error))
    })
}

fn nothing_readable(workspace: &Workspace, report: &RecoveryReport) -> Failure {
    let message =
        format!("cannot recover the store `{}`: no run can be read", workspace.location.root().display());
    let mut failure = Failure::new(Exit::Store, message);
    failure.causes.extend(report.damage.iter().cloned());
    for run in &report.runs {
        failure.causes.push(run.line());
    }
    let failure = failure
        .hint("run `callboard recover --from FILE` to restore a copy")
        .hint(format!("move `{}` aside to start with an empty store", workspace.location.root().display()));
    let named = report.runs.iter().filter_map(RunRecovery::run);
    let found: Vec<_> = named.filter_map(|run| rebuild_command(&workspace.repo, run.as_str())).collect();
    let commands = if report.runs.is_empty() { general_rebuild_commands(workspace) } else { found };
    commands.into_iter().fold(failure, |failure, command| {
        failure.hint(format_args!("then run `{command}` to rebuild a run from its files"))
    })
}

/// Returns the commands that rebuild runs whose names are lost, for the protocols whose files exist.
fn general_rebuild_commands(workspace: &Workspace) -> Vec<String> {
    let views = workspace.repo.join(".agents/runs");
    let from_view = format!(
        "callboard recover --from-view {} --workflow WORKFLOW",
        output::shell_word(&views.join("RUN/run_state.json"))
    );
    let by_directory =
        [(views, from_view), (workspace.repo.join(cycle::DIRECTORY), "callboard recover CYCLE".to_owned())];
    by_directory.into_iter().filter(|(directory, _)| directory.exists()).map(|(_, command)| command).collect()
}

fn backup_hint(report: &RecoveryReport) -> String {
    match &report.backup {
        Some(backup) => format!("report this bug; the former store is in `{}`", backup.display()),
        None => "report this bug".to_owned(),
    }
}

fn failed(error: &dyn Error) -> Failure {
    Failure::from_error(Exit::Store, error)
}
