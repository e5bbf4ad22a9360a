//! A store that SQLite has nothing to say against: do its runs add up, and do their files show them?

use std::fs;
use std::path::{Path, PathBuf};

use protocol::{RunId, View};
use runner::{Inconsistency, Journal};
use store::{AnyStore, Store as _};

use super::report::{RecoveryReport, RunRecovery};
use crate::control::views;
use crate::failure::{Exit, Failure};
use crate::present::{self, Deed, Presentation};
use crate::workspace::Workspace;

/// Verifies every run and mends its views. Answers how many runs do not add up.
pub(super) async fn check(
    workspace: &Workspace,
    dry_run: bool,
    told: &mut RecoveryReport,
) -> Result<usize, Failure> {
    let Some(store) = workspace.existing_store().await? else { return Ok(0) };
    let mut inconsistencies = 0;
    for row in store.runs().await? {
        if !present::is_known(&row.protocol) {
            told.runs.push(RunRecovery::of_another_protocol(&row));
            continue;
        }
        let checking = Checking { workspace, store: &store, run: &row.run, dry_run, told };
        match present::by_name(&row.protocol, &row.run, checking).await? {
            Ok(()) => {}
            // To cut it there would be damage of our own making.
            Err(inconsistency) if inconsistency.is_from_newer_version() => {
                return Err(Failure::from_error(Exit::Store, &inconsistency)
                    .while_doing(format_args!("cannot check run `{}`", row.run))
                    .hint("a newer callboard has written to this store: use that one; nothing was changed"));
            }
            Err(inconsistency) => {
                inconsistencies += 1;
                told.damage.push(format!("run `{}`: {}", row.run, runner::with_causes(&inconsistency)));
            }
        }
    }
    if inconsistencies > 0 {
        told.runs.clear();
    }
    Ok(inconsistencies)
}

/// To verify one run and mend its views.
struct Checking<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    dry_run: bool,
    told: &'a mut RecoveryReport,
}

impl Deed for Checking<'_> {
    type Done = Result<(), Inconsistency>;

    async fn with<P: Presentation>(self) -> Result<Self::Done, Failure> {
        let Self { workspace, store, run, dry_run, told } = self;
        match runner::verify::<P, _>(store, &workspace.clock, run).await {
            Ok(Some(journal)) => {
                told.runs.push(RunRecovery::sound(&journal));
                show(workspace, store, &journal, dry_run, told).await?;
            }
            Ok(None) => {}
            Err(inconsistency) => return Ok(Err(inconsistency)),
        }
        Ok(Ok(()))
    }
}

/// Writes the views of a run if they do not show it.
async fn show<P: Presentation>(
    workspace: &Workspace,
    store: &AnyStore,
    journal: &Journal<P, AnyStore>,
    dry_run: bool,
    told: &mut RecoveryReport,
) -> Result<(), Failure> {
    let wrong = wrong_views(journal);
    if wrong.is_empty() {
        return Ok(());
    }
    let repo = Path::new(&journal.spec.options.location.repo_dir);
    if !repo.is_dir() {
        told.notes.push(format!(
            "run `{}` was played in `{}`, which is not there; its files were not written",
            journal.run,
            repo.display()
        ));
        return Ok(());
    }
    if !dry_run {
        let Some(mut set_aside) = views::write::<P>(workspace, store, &journal.run).await? else {
            told.notes.push(format!("run `{}` has an engine, which writes its files itself", journal.run));
            return Ok(());
        };
        told.quarantined.append(&mut set_aside);
    }
    told.views.extend(wrong);
    Ok(())
}

/// Files that are missing or show something else.
fn wrong_views<P: Presentation>(journal: &Journal<P, AnyStore>) -> Vec<PathBuf> {
    let view = P::view(&journal.document);
    let differs = |view: &View| fs::read(&view.path).ok().as_deref() != Some(view.body.as_bytes());
    let mut wrong: Vec<_> = view.filter(differs).map(|view| PathBuf::from(view.path)).into_iter().collect();
    let reports = P::reported_steps(&journal.document).into_iter();
    let reports = reports.filter_map(|step| P::report_path(&journal.document, &step)).map(PathBuf::from);
    wrong.extend(reports.filter(|path| !path.is_file()));
    wrong
}
