//! Recovers a damaged or missing store: backs it up, reads its entries, and writes a new database.

use std::error::Error;
use std::path::Path;

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
    let salvaged = salvage_all(workspace, &salvage, &mut replacement)?;
    report.backup = backup.as_ref().map(|backup| backup.directory().to_owned());
    report.runs = salvaged.iter().map(RunRecovery::salvaged).collect();
    if salvaged.iter().all(|run| matches!(run.outcome, SalvageOutcome::Unreadable { .. })) {
        return Err(nothing_readable(workspace, arguments, &report));
    }
    if arguments.dry_run {
        replacement.finish().map_err(|error| failed(&error))?;
        return Ok(report.print());
    }
    replacement.install(&mut exclusive, backup.as_ref()).map_err(|error| failed(&error))?;
    let damage = find_damage(&exclusive).map_err(|error| failed(&error))?;
    drop(exclusive);
    let mut after = RecoveryReport::new(workspace, arguments);
    let inconsistencies = verify::verify_and_write_views(workspace, false, &mut after).await?;
    if let Some(damage) = damage.iter().map(ToString::to_string).chain(after.damage).next() {
        return Err(still_damaged(&damage, &report));
    }
    assert_eq!(inconsistencies, 0, "BUG: an inconsistency was counted and not listed in `damage`");
    report.views = after.views;
    report.quarantined = after.quarantined;
    report.notes.append(&mut after.notes);
    Ok(report.print())
}

/// Adds the runs of a copy of a database (`--from`) to an intact store. Existing runs stay unchanged. Changes nothing and
/// fails if one of them is inconsistent.
pub(super) async fn add_runs_of_copy(
    workspace: &Workspace,
    file: &Path,
    arguments: &Arguments,
    mut report: RecoveryReport,
) -> Result<Exit, Failure> {
    // Verifies only: views are written below, when the store is known to be intact.
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
    // The runs are first written to a database that is thrown away: a copy that cannot be read changes nothing.
    let mut replacement = ReplacementDatabase::create_at(&scratch.path().join("replacement.db"))
        .map_err(|error| failed(&error))?;
    let mut salvaged = salvage_all(workspace, &salvage, &mut replacement)?;
    replacement.finish().map_err(|error| failed(&error))?;
    if !arguments.dry_run {
        salvaged = salvage_all(workspace, &salvage, &mut &store)?;
    }
    let row = |salvaged: &Salvaged| match &salvaged.run {
        Ok(run) if existing.contains(run) => RunRecovery::existing(run),
        Ok(_) | Err(_) => RunRecovery::salvaged(salvaged),
    };
    report.runs = salvaged.iter().map(row).collect();
    if arguments.dry_run {
        return Ok(report.print());
    }
    let mut after = RecoveryReport::new(workspace, arguments);
    verify::verify_and_write_views(workspace, false, &mut after).await?;
    if let Some(damage) = after.damage.first() {
        return Err(still_damaged(damage, &report));
    }
    report.views = after.views;
    report.quarantined = after.quarantined;
    report.notes.append(&mut after.notes);
    Ok(report.print())
}

/// Writes every readable run to the target, and returns the result for each. A run that the target has is not changed.
fn salvage_all(
    workspace: &Workspace,
    salvage: &Salvage,
    target: &mut impl SalvageTarget,
) -> Result<Vec<Salvaged>, Failure> {
    let mut salvaged = Vec::new();
    for found in salvage.runs().map_err(|error| failed(&error))? {
        let kind =
            runner::salvaged_kind(workspace.protocols, salvage, &found).map_err(|error| failed(&error))?;
        // The protocol that can read the spec is the run's. If none can, it does not matter which one says what is damaged.
        let kind = kind.unwrap_or(workspace.protocols.0[0]);
        let (by, now) = (workspace::person_author(), workspace.clock.now());
        let result = runner::salvage(kind, salvage, &found, target, &by, now);
        salvaged.push(result.map_err(|error| failed(&error))?);
    }
    // Add the runs that the damaged store lists without any entry.
    let lost = runner::lost_runs(salvage, &salvaged).map_err(|error| failed(&error))?;
    salvaged.extend(lost);
    Ok(salvaged)
}

fn create_scratch_dir(workspace: &Workspace) -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new().prefix("recover-").tempdir_in(workspace.location.root()).map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write to `{}`", workspace.location.root().display()))
            .because(Some(&error))
    })
}

fn nothing_readable(workspace: &Workspace, arguments: &Arguments, report: &RecoveryReport) -> Failure {
    let store = &report.store;
    let mut failure = match &arguments.from {
        Some(file) => {
            let message = format!("cannot restore `{}`: no run in it can be read", file.display());
            Failure::new(Exit::Store, message)
        }
        None => {
            let message = format!("cannot recover the store `{store}`: no run can be read");
            let mut failure = Failure::new(Exit::Store, message);
            failure.causes.extend(report.damage.iter().cloned());
            failure
        }
    };
    failure.causes.extend(report.runs.iter().map(RunRecovery::line));
    if let Some(backup) = &report.backup {
        failure =
            failure.hint(format!("look at the backup in `{}`; the store was not changed", backup.display()));
    }
    failure = failure.hint(match &arguments.from {
        Some(_) => "run `callboard recover --from FILE` with another copy",
        None => "run `callboard recover --from FILE` to restore a copy",
    });
    if !report.was_missing {
        failure = failure.hint(format!("move `{store}` aside to start with an empty store"));
    }
    let named = report.runs.iter().filter_map(RunRecovery::run);
    let found: Vec<_> = named.filter_map(|run| rebuild_command(&workspace.repo, run.as_str())).collect();
    let commands = if found.is_empty() { general_rebuild_commands(workspace) } else { found };
    commands.into_iter().fold(failure, |failure, command| {
        failure.hint(format_args!("run `{command}` in an empty store to rebuild a run from its files"))
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

fn still_damaged(damage: &str, report: &RecoveryReport) -> Failure {
    let hint = match &report.backup {
        Some(backup) => format!("report this bug; the former store is in `{}`", backup.display()),
        None => "report this bug".to_owned(),
    };
    Failure::new(Exit::Bug, format!("the recovered store is damaged: {damage}")).hint(hint)
}

fn failed(error: &dyn Error) -> Failure {
    Failure::from_error(Exit::Store, error)
}
