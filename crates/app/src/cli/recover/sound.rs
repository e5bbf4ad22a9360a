//! A store that SQLite has nothing to say against: do its runs add up, and do their files show them?

use std::fs;
use std::path::{Path, PathBuf};

use protocol::Protocol as _;
use protocol::steps::Steps;
use runner::Journal;
use store::{SqliteStore, Store as _};

use super::account::{Account, RunAccount};
use crate::failure::{Exit, Failure};
use crate::here::Here;
use crate::views;

/// Verifies every run and mends its views. Answers how many runs do not add up.
pub(super) async fn check(here: &Here, dry_run: bool, told: &mut Account) -> Result<usize, Failure> {
    let Some(store) = here.existing_store()? else { return Ok(0) };
    let mut flaws = 0;
    for row in store.runs().await? {
        if row.protocol != Steps::NAME {
            told.runs.push(RunAccount::of_another_protocol(&row));
            continue;
        }
        match runner::verify::<Steps, _>(&store, &here.clock, &row.run).await {
            Ok(Some(journal)) => {
                told.runs.push(RunAccount::sound(&journal));
                show(here, &store, &journal, dry_run, told).await?;
            }
            Ok(None) => {}
            // To cut it there would be damage of our own making.
            Err(flaw) if flaw.is_news_to_us() => {
                return Err(Failure::from_error(Exit::Store, &flaw)
                    .while_doing(format_args!("cannot check run `{}`", row.run))
                    .hint("a newer callboard has written to this store: use that one; nothing was changed"));
            }
            Err(flaw) => {
                flaws += 1;
                told.damage.push(format!("run `{}`: {}", row.run, runner::with_causes(&flaw)));
            }
        }
    }
    if flaws > 0 {
        told.runs.clear();
    }
    Ok(flaws)
}

/// Writes the views of a run if they do not show it.
pub(super) async fn show(
    here: &Here,
    store: &SqliteStore,
    journal: &Journal<Steps, SqliteStore>,
    dry_run: bool,
    told: &mut Account,
) -> Result<(), Failure> {
    let wrong = wrong_views(journal);
    if wrong.is_empty() {
        return Ok(());
    }
    let repo = Path::new(&journal.frozen.staging.stage.repo_dir);
    if !repo.is_dir() {
        told.notes.push(format!(
            "run `{}` was played in `{}`, which is not there; its files were not written",
            journal.run,
            repo.display()
        ));
        return Ok(());
    }
    if !dry_run {
        let Some(mut set_aside) = views::write(here, store, &journal.run).await? else {
            told.notes.push(format!("run `{}` has an engine, which writes its files itself", journal.run));
            return Ok(());
        };
        told.quarantined.append(&mut set_aside);
    }
    told.views.extend(wrong);
    Ok(())
}

/// Files that are missing or show something else.
fn wrong_views(journal: &Journal<Steps, SqliteStore>) -> Vec<PathBuf> {
    let view = Steps::view(&journal.document).into_iter();
    let view = view.filter(|view| fs::read(&view.path).ok().as_deref() != Some(view.body.as_bytes()));
    let mut wrong: Vec<_> = view.map(|view| PathBuf::from(view.path)).collect();
    let reports = Steps::reported(&journal.document).into_iter();
    let reports = reports.filter_map(|seat| Steps::report_path(&journal.document, &seat)).map(PathBuf::from);
    wrong.extend(reports.filter(|path| !path.is_file()));
    wrong
}
