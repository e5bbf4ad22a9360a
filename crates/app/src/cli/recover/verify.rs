//! Verifies the runs of a readable store and their views.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::View;
use runner::{Inconsistency, Journal};
use store::AnyStore;

use super::report::{RecoveryReport, RunRecovery};
use crate::control::views;
use crate::failure::{Exit, Failure};
use crate::workspace::Workspace;

/// Verifies every run and writes missing views. Returns the number of inconsistent runs.
pub(super) async fn verify_and_write_views(
    workspace: &Workspace,
    dry_run: bool,
    report: &mut RecoveryReport,
) -> Result<usize, Failure> {
    let Some(store) = workspace.existing_store().await? else { return Ok(0) };
    let mut inconsistencies = 0;
    for row in store.runs().await? {
        // Only its own protocol can verify a run.
        if workspace.protocols.find(&row.protocol).is_none() {
            report.runs.push(RunRecovery::of_another_protocol(&row));
            continue;
        }
        match runner::verify(&store, &workspace.clock, workspace.protocols, &row.run).await {
            Ok(Some(journal)) => {
                report.runs.push(RunRecovery::intact(&journal));
                write_views(workspace, &store, &journal, dry_run, report).await?;
            }
            Ok(None) => {}
            // A recovery would drop the entries that only a newer version understands.
            Err(inconsistency) if inconsistency.is_from_newer_version() => {
                return Err(Failure::from_error(Exit::Store, &inconsistency)
                    .context(format_args!("cannot verify run `{}`", row.run))
                    .hint("use the newer version of callboard that wrote it"));
            }
            // An error that is no damage, such as a store that does not answer, is no reason to rebuild the store.
            Err(Inconsistency::Load(error)) if !error.is_damage() => {
                return Err(Failure::from(error).context(format_args!("cannot verify run `{}`", row.run)));
            }
            Err(inconsistency) => {
                inconsistencies += 1;
                report.damage.push(format!("run `{}`: {}", row.run, runner::with_causes(&inconsistency)));
            }
        }
    }
    // The recovery that follows reports every run again.
    if inconsistencies > 0 {
        report.runs.clear();
    }
    Ok(inconsistencies)
}

/// Writes the views of a run if one is missing or differs from its document.
async fn write_views(
    workspace: &Workspace,
    store: &AnyStore,
    journal: &Journal,
    dry_run: bool,
    report: &mut RecoveryReport,
) -> Result<(), Failure> {
    let wrong = wrong_views(journal);
    if wrong.is_empty() {
        return Ok(());
    }
    let repo = Path::new(&journal.spec.options.location.repo_dir);
    if !repo.is_dir() {
        report.notes.push(format!(
            "the views of run `{}` were not written: its repository `{}` does not exist",
            journal.run,
            repo.display()
        ));
        return Ok(());
    }
    if !dry_run {
        let Some(mut quarantined) = views::write(workspace, store, &journal.run).await? else {
            report.notes.push(format!(
                "the views of run `{}` were not written: it has an engine, which writes them",
                journal.run
            ));
            return Ok(());
        };
        report.quarantined.append(&mut quarantined);
    }
    report.views.extend(wrong);
    Ok(())
}

/// Returns the views that are missing or differ from the document, and the report files that are missing.
fn wrong_views(journal: &Journal) -> Vec<PathBuf> {
    let (machine, views) = (journal.machine(), journal.document().views());
    let differs = |view: &View| fs::read(&view.path).ok().as_deref() != Some(view.body.as_bytes());
    let mut wrong: Vec<_> = views.into_iter().filter(differs).map(|view| PathBuf::from(view.path)).collect();
    let reports = machine.reported_steps().into_iter();
    let reports = reports.filter_map(|step| machine.report_view_path(&step)).map(PathBuf::from);
    wrong.extend(reports.filter(|path| !path.is_file()));
    wrong
}
