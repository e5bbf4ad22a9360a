//! `callboard recover`.

mod damaged;
mod lost_stream;
mod nats;
mod report;
mod unknown_messages;
mod verify;
mod view;

pub(super) use view::turns;

use std::path::PathBuf;

use store::{Backup, Damage, ExclusiveAccess, find_damage};

use super::block_on;
use crate::config::Flags;
use crate::engine::profiles::AgentFlags;
use crate::failure::{Exit, Failure};
use crate::workspace::{LocationArgs, Workspace};

/// Check the store; if it is damaged, back it up and build a new one from what can be read
///
/// An intact store is verified and not changed; missing or damaged views are written again. A damaged store is first
/// copied to `saved/` inside the store. Then every run is rebuilt from its entries, up to the first lost entry. The report
/// lists the result for each run.
///
/// Refused while a run has an engine. Exits with 0 if nothing is lost, with 1 if something is.
///
/// A store on NATS is repaired in place, while other runs continue: messages that Callboard did not write are moved from the
/// journal to the object store, and a deleted bucket of documents is written again. A deleted journal or deleted blobs cannot
/// be restored: the report lists what they contained, and the exit code is 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard recover --dry-run           # list the damage and the result for each run
  callboard recover
  callboard recover --from ~/.local/state/callboard/saved/site-20261116T093000Z-4711.db
  callboard recover cycle-v1-20260122T100000-abc123
  callboard recover --from-view .agents/runs/f8c1a491/run_state.json --workflow wf.yaml")]
pub(super) struct Arguments {
    /// Restore this run of `cycle`. If the store has the run, its files are written again; otherwise the run is rebuilt from them
    #[arg(conflicts_with_all = ["from", "from_view", "dry_run", "json"])]
    cycle: Option<String>,

    /// Print what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Restore the runs of this database: a backup, or the copy that an engine has saved when its store disappeared
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    view: view::ViewFlags,

    #[command(flatten)]
    profiles: AgentFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    crate::control::refuse_inside_attempt("recover the store")?;
    let flags = Flags { max_attempts: arguments.view.max_attempts, ..Flags::default() };
    let workspace = Workspace::find(&arguments.location, flags)?;
    if let Some(cycle) = &arguments.cycle {
        return block_on(super::import::cycle::recover(&workspace, cycle, &arguments.profiles));
    }
    if let Some(view) = &arguments.view.from_view {
        return view::rebuild(&workspace, view, &arguments);
    }
    if workspace.nats.is_some() {
        if arguments.from.is_some() {
            workspace.require_embedded_store("`--from`")?;
        }
        return block_on(nats::recover(&workspace, &arguments));
    }
    if let Some(file) = &arguments.from
        && !file.is_file()
    {
        return Err(Failure::usage(format!("there is no file `{}`", file.display())));
    }
    if arguments.from.is_none() && !workspace.location.root().exists() {
        return Err(Failure::usage(format!("there is no store `{}`", workspace.location.root().display()))
            .hint("name another store with `--store DIR`, or restore a copy with `--from FILE`"));
    }
    let mut report = report::RecoveryReport::new(&workspace, &arguments);
    report.was_missing = !workspace.location.root().exists();
    // A dry run must not create the missing store, so it uses a temporary one.
    let temporary = (report.was_missing && arguments.dry_run).then(tempfile::tempdir).transpose();
    let temporary = temporary.map_err(|error| {
        Failure::new(Exit::Store, "cannot create a temporary directory").because(Some(&error))
    })?;
    let workspace = match &temporary {
        Some(directory) => workspace.with_store_at(directory.path())?,
        None => workspace,
    };
    let exclusive = ExclusiveAccess::acquire(&workspace.location)?;
    let damage = find_damage(&exclusive).map_err(|error| Failure::from_error(Exit::Store, &error))?;
    let interrupted_backup =
        if damage == [Damage::Missing] { Backup::of_interrupted_recovery(&exclusive) } else { None };
    let is_intact = damage.is_empty();
    if !report.was_missing {
        report.damage.extend(damage.iter().map(Damage::to_string));
    }
    block_on(async {
        if !is_intact {
            return damaged::recover(&workspace, &arguments, exclusive, interrupted_backup, report).await;
        }
        drop(exclusive);
        if let Some(file) = &arguments.from {
            return damaged::add_runs_of_copy(&workspace, file, &arguments, report).await;
        }
        let inconsistencies =
            verify::verify_and_write_views(&workspace, arguments.dry_run, &mut report).await?;
        if inconsistencies == 0 {
            return Ok(report.print());
        }
        let exclusive = ExclusiveAccess::acquire(&workspace.location)?;
        damaged::recover(&workspace, &arguments, exclusive, None, report).await
    })
}
