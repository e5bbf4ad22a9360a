//! A store that is damaged or gone: kept as it is, read entry by entry, written anew.

use std::error::Error;
use std::path::Path;

use protocol::RunId;
use runner::{SalvageOutcome, SalvageTarget, Salvaged};
use store::{
    Backup, ExclusiveAccess, FoundRun, ReplacementDatabase, Salvage, SqliteStore, Store as _, find_damage,
};

use super::report::{RecoveryReport, RunRecovery};
use super::{Arguments, sound};
use crate::failure::{Exit, Failure};
use crate::present::{self, Deed, Presentation};
use crate::workspace::{self, Workspace};

/// Keeps what is there, builds a new database from what can be read, and puts it in place.
pub(super) async fn recover(
    workspace: &Workspace,
    arguments: &Arguments,
    mut exclusive: ExclusiveAccess,
    unfinished: Option<Backup>,
    mut told: RecoveryReport,
) -> Result<Exit, Failure> {
    let now = workspace.clock.now();
    let scratch = scratch(workspace)?;
    let kept = match unfinished {
        Some(kept) => {
            told.notes
                .push("an earlier recovery was cut off; this one goes on from what it had kept".to_owned());
            Some(kept)
        }
        None if arguments.dry_run || !Backup::has_files(&exclusive) => None,
        None => Some(
            Backup::create(&exclusive, now.timestamp().unwrap_or_default())
                .map_err(|error| failed(&error))?,
        ),
    };
    let source = match (&arguments.from, &kept) {
        (Some(file), _) => file.clone(),
        (None, Some(kept)) => kept.database(),
        (None, None) => workspace.location.database(),
    };
    let salvage = Salvage::read(&source, &scratch.path().join("found.db"));
    let salvage = salvage.map_err(|error| failed(&error))?;
    let draft = if arguments.dry_run {
        ReplacementDatabase::create_at(&scratch.path().join("draft.db"))
    } else {
        ReplacementDatabase::create(&exclusive)
    };
    let mut draft = draft.map_err(|error| failed(&error))?;
    let salvaged = salvage_all(workspace, &salvage, &mut draft, &[]).await?;
    told.kept = kept.as_ref().map(|kept| kept.directory().to_owned());
    told.runs = salvaged.iter().map(RunRecovery::salvaged).collect();
    if salvaged.iter().all(|run| matches!(run.outcome, SalvageOutcome::Unreadable { .. })) {
        return Err(nothing_left(workspace, &told));
    }
    if arguments.dry_run {
        draft.finish().map_err(|error| failed(&error))?;
        return Ok(told.tell());
    }
    draft.install(&mut exclusive, kept.as_ref()).map_err(|error| failed(&error))?;
    let damage = find_damage(&exclusive).map_err(|error| Failure::from_error(Exit::Bug, &error))?;
    drop(exclusive);
    let mut after = RecoveryReport::new(workspace, arguments);
    let inconsistencies = sound::check(workspace, false, &mut after).await?;
    if let Some(damage) = damage.iter().map(ToString::to_string).chain(after.damage).next() {
        let what = format!("the store that was just written is not sound: {damage}");
        return Err(Failure::new(Exit::Bug, what).hint(where_it_is(&told)));
    }
    debug_assert_eq!(inconsistencies, 0, "a flaw is damage");
    told.views = after.views;
    told.quarantined = after.quarantined;
    told.notes.append(&mut after.notes);
    Ok(told.tell())
}

/// Adds the runs of a saved copy to a store that is sound. What is there already stays as it is.
pub(super) async fn graft(
    workspace: &Workspace,
    file: &Path,
    arguments: &Arguments,
    mut told: RecoveryReport,
) -> Result<Exit, Failure> {
    let scratch = scratch(workspace)?;
    let salvage = Salvage::read(file, &scratch.path().join("found.db")).map_err(|error| failed(&error))?;
    let store = SqliteStore::open(&workspace.location)?;
    let there: Vec<_> = store.runs().await?.into_iter().map(|row| row.run).collect();
    let mut draft =
        ReplacementDatabase::create_at(&scratch.path().join("draft.db")).map_err(|error| failed(&error))?;
    let salvaged = salvage_all(workspace, &salvage, &mut draft, &[]).await?;
    draft.finish().map_err(|error| failed(&error))?;
    for Salvaged { run, outcome } in &salvaged {
        let exists = run.as_ref().is_ok_and(|run| there.contains(run));
        told.runs.push(match exists {
            true => RunRecovery::there_already(run),
            false => RunRecovery::salvaged(&Salvaged { run: run.clone(), outcome: outcome.clone() }),
        });
    }
    if arguments.dry_run {
        return Ok(told.tell());
    }
    salvage_all(workspace, &salvage, &mut &store, &there).await?;
    let mut after = RecoveryReport::new(workspace, arguments);
    sound::check(workspace, false, &mut after).await?;
    told.damage.append(&mut after.damage);
    told.views = after.views;
    told.quarantined = after.quarantined;
    told.notes.append(&mut after.notes);
    Ok(told.tell())
}

/// Puts every run that can be read where it is to be, except those that are left out, and says what became of each.
async fn salvage_all(
    workspace: &Workspace,
    salvage: &Salvage,
    ground: &mut impl SalvageTarget,
    but: &[RunId],
) -> Result<Vec<Salvaged>, Failure> {
    let mut salvaged = Vec::new();
    for found in salvage.runs().map_err(|error| failed(&error))? {
        let salvaging = Salvaging { workspace, salvage, found: &found, ground, but };
        let protocol = protocol_of(salvage, &found).await?;
        let one = present::dispatch(protocol, salvaging).await.expect("BUG: we know this protocol");
        salvaged.extend(one?);
    }
    let lost = runner::lost_runs(salvage, &salvaged).map_err(|error| failed(&error))?;
    salvaged.extend(lost.into_iter().filter(|lost| !lost.run.as_ref().is_ok_and(|run| but.contains(run))));
    Ok(salvaged)
}

/// The protocol that a run was opened by. Of one that no protocol makes anything of, any can say what is wrong with it.
async fn protocol_of(salvage: &Salvage, found: &FoundRun) -> Result<&'static str, Failure> {
    for protocol in present::KNOWN {
        let asking = Asking { salvage, found };
        if present::dispatch(protocol, asking).await.expect("BUG: we know this protocol")? {
            return Ok(protocol);
        }
    }
    Ok(present::KNOWN[0])
}

/// Whether a run is one of a protocol's.
struct Asking<'a> {
    salvage: &'a Salvage,
    found: &'a FoundRun,
}

impl Deed for Asking<'_> {
    type Done = bool;

    async fn with<P: Presentation>(self) -> Result<bool, Failure> {
        runner::was_opened_by::<P>(self.salvage, self.found).map_err(|error| failed(&error))
    }
}

struct Salvaging<'a, G> {
    workspace: &'a Workspace,
    salvage: &'a Salvage,
    found: &'a FoundRun,
    ground: &'a mut G,
    but: &'a [RunId],
}

impl<G: SalvageTarget> Deed for Salvaging<'_, G> {
    type Done = Option<Salvaged>;

    async fn with<P: Presentation>(self) -> Result<Option<Salvaged>, Failure> {
        let Self { workspace, salvage, found, ground, but } = self;
        let (by, now) = (workspace::person(), workspace.clock.now());
        runner::salvage::<P>(salvage, found, ground, but, &by, now).map_err(|error| failed(&error))
    }
}

fn scratch(workspace: &Workspace) -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new().prefix("recover-").tempdir_in(workspace.location.root()).map_err(|error| {
        Failure::new(Exit::Store, format!("cannot write to `{}`", workspace.location.root().display()))
            .because(Some(&error))
    })
}

fn nothing_left(workspace: &Workspace, told: &RecoveryReport) -> Failure {
    let what = format!("nothing can be read of the store `{}`", workspace.location.root().display());
    let mut failure = Failure::new(Exit::Store, what);
    failure.causes.extend(told.damage.iter().cloned());
    for run in &told.runs {
        failure.causes.push(run.line());
    }
    failure
        .hint("`callboard recover --from FILE` puts a saved copy back")
        .hint("`callboard recover --from-view .agents/runs/RUN/run_state.json --workflow WORKFLOW` rebuilds a run")
        .hint(format!("move `{}` aside to begin with an empty store", workspace.location.root().display()))
}

fn where_it_is(told: &RecoveryReport) -> String {
    match &told.kept {
        Some(kept) => format!("what was there is in `{}`; please report this", kept.display()),
        None => "please report this".to_owned(),
    }
}

fn failed(error: &dyn Error) -> Failure {
    Failure::from_error(Exit::Store, error)
}
