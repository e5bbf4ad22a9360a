//! A store that SQLite has nothing to say against: do its runs add up, and do their files show them?

use std::fs;
use std::path::{Path, PathBuf};

use protocol::{RunId, View};
use runner::{Flaw, Journal};
use store::{AnyStore, Store as _};

use super::account::{Account, RunAccount};
use crate::face::{self, Deed, Face};
use crate::failure::{Exit, Failure};
use crate::here::Here;
use crate::views;

/// Verifies every run and mends its views. Answers how many runs do not add up.
pub(super) async fn check(here: &Here, dry_run: bool, told: &mut Account) -> Result<usize, Failure> {
    let Some(store) = here.existing_store().await? else { return Ok(0) };
    let mut flaws = 0;
    for row in store.runs().await? {
        if !face::is_known(&row.protocol) {
            told.runs.push(RunAccount::of_another_protocol(&row));
            continue;
        }
        let checking = Checking { here, store: &store, run: &row.run, dry_run, told };
        match face::by_name(&row.protocol, &row.run, checking).await? {
            Ok(()) => {}
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

/// To verify one run and mend its views.
struct Checking<'a> {
    here: &'a Here,
    store: &'a AnyStore,
    run: &'a RunId,
    dry_run: bool,
    told: &'a mut Account,
}

impl Deed for Checking<'_> {
    type Done = Result<(), Flaw>;

    async fn with<P: Face>(self) -> Result<Self::Done, Failure> {
        let Self { here, store, run, dry_run, told } = self;
        match runner::verify::<P, _>(store, &here.clock, run).await {
            Ok(Some(journal)) => {
                told.runs.push(RunAccount::sound(&journal));
                show(here, store, &journal, dry_run, told).await?;
            }
            Ok(None) => {}
            Err(flaw) => return Ok(Err(flaw)),
        }
        Ok(Ok(()))
    }
}

/// Writes the views of a run if they do not show it.
async fn show<P: Face>(
    here: &Here,
    store: &AnyStore,
    journal: &Journal<P, AnyStore>,
    dry_run: bool,
    told: &mut Account,
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
        let Some(mut set_aside) = views::write::<P>(here, store, &journal.run).await? else {
            told.notes.push(format!("run `{}` has an engine, which writes its files itself", journal.run));
            return Ok(());
        };
        told.quarantined.append(&mut set_aside);
    }
    told.views.extend(wrong);
    Ok(())
}

/// Files that are missing or show something else.
fn wrong_views<P: Face>(journal: &Journal<P, AnyStore>) -> Vec<PathBuf> {
    let view = P::view(&journal.document);
    let differs = |view: &View| fs::read(&view.path).ok().as_deref() != Some(view.body.as_bytes());
    let mut wrong: Vec<_> = view.filter(differs).map(|view| PathBuf::from(view.path)).into_iter().collect();
    let reports = P::reported(&journal.document).into_iter();
    let reports = reports.filter_map(|step| P::report_path(&journal.document, &step)).map(PathBuf::from);
    wrong.extend(reports.filter(|path| !path.is_file()));
    wrong
}
