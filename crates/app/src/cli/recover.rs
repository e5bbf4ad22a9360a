//! `callboard recover`.

mod damaged;
mod lost;
mod report;
mod shared;
mod sound;
mod strangers;
mod view;

use std::path::PathBuf;

use store::{Backup, Damage, ExclusiveAccess, find_damage};

use super::block_on;
use crate::config::Flags;
use crate::engine::profiles::AgentFlags;
use crate::failure::{Exit, Failure};
use crate::workspace::{LocationArgs, Workspace};

/// Check the store; if it is damaged, keep it as it is and build a new one from what can be read
///
/// A sound store is checked from end to end and left alone; view files that are missing or damaged are written again.
/// A damaged one is copied to `saved/` inside the store first, byte for byte. Then every run is built again from its
/// entries, up to the first one that is lost, and you are told what became of each.
///
/// Refused while a run has an engine. Ends with 0 if nothing is lost, with 1 if something is.
///
/// A store on NATS is mended where it stands, while other runs go on: messages that are not ours are kept as objects and taken
/// out of the journal, a deleted bucket of documents is written again. A deleted journal, or deleted blobs, cannot be brought
/// back: what was in them is told, and it ends with 5.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard recover --dry-run           # what is wrong, and what would become of each run
  callboard recover
  callboard recover --from ~/.local/state/callboard/saved/site-20261116T093000Z-4711.db
  callboard recover --from-view .agents/runs/f8c1a491/run_state.json --workflow wf.yaml")]
pub(super) struct Arguments {
    /// Say what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Read this database instead of the store's own: a copy that was saved
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
    crate::control::refuse_agents_outright("recover the store")?;
    let flags = Flags { max_attempts: arguments.view.max_attempts, ..Flags::default() };
    let workspace = Workspace::find(&arguments.location, flags)?;
    if let Some(view) = &arguments.view.from_view {
        return view::rebuild(&workspace, view, &arguments);
    }
    if workspace.nats.is_some() {
        if arguments.from.is_some() {
            workspace.embedded_only("`--from`")?;
        }
        return block_on(shared::check(&workspace, &arguments));
    }
    if let Some(file) = &arguments.from
        && !file.is_file()
    {
        return Err(Failure::usage(format!("there is no file `{}`", file.display())));
    }
    if arguments.from.is_none() && !workspace.location.root().exists() {
        return Err(Failure::usage(format!("there is no store `{}`", workspace.location.root().display()))
            .hint("`--store DIR` names another one; `--from FILE` puts a saved copy back"));
    }
    let mut told = report::RecoveryReport::new(&workspace, &arguments);
    told.was_none = !workspace.location.root().exists();
    // A dry run leaves no store where there was none: it looks at an empty one elsewhere.
    let stand_in = (told.was_none && arguments.dry_run).then(tempfile::tempdir).transpose();
    let stand_in = stand_in.map_err(|error| {
        Failure::new(Exit::Store, "cannot make a temporary directory").because(Some(&error))
    })?;
    let workspace = match &stand_in {
        Some(directory) => workspace.with_store_at(directory.path())?,
        None => workspace,
    };
    let exclusive = ExclusiveAccess::acquire(&workspace.location)?;
    let damage = find_damage(&exclusive).map_err(|error| Failure::from_error(Exit::Store, &error))?;
    let unfinished = if damage == [Damage::Missing] { Backup::unfinished(&exclusive) } else { None };
    let sound = damage.is_empty();
    if !told.was_none {
        told.damage.extend(damage.iter().map(Damage::to_string));
    }
    block_on(async {
        if !sound {
            return damaged::recover(&workspace, &arguments, exclusive, unfinished, told).await;
        }
        drop(exclusive);
        if let Some(file) = &arguments.from {
            return damaged::graft(&workspace, file, &arguments, told).await;
        }
        let inconsistencies = sound::check(&workspace, arguments.dry_run, &mut told).await?;
        if inconsistencies == 0 {
            return Ok(told.tell());
        }
        let exclusive = ExclusiveAccess::acquire(&workspace.location)?;
        damaged::recover(&workspace, &arguments, exclusive, None, told).await
    })
}
