//! `callboard import FILE`, and `--peer` for cycles of older formats.

mod dump;
mod live;
mod peer;
mod told;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use protocol::RunId;
use protocol::run::RunStatus;
use runner::{ImportError, ImportTarget, Imported, Unpacked};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::control;
use crate::control::views::{self, ViewQuarantined};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::present::{self, Deed, Presentation};
use crate::workspace::definition;
use crate::workspace::{self, LocationArgs, Workspace};

/// Take a run out of an archive that `export` has written, or cycles out of a dump of older formats
///
/// Everything in it is checked first: digests, paths, and that its entries follow from one another. It is taken whole or
/// not at all. Its files show this repository from then on, and its journal says where it came from. An unfinished run
/// rests until you `resume` it; attempts that were open where it comes from count as interrupted.
///
/// With `--peer` it takes cycles of `peer` as they were kept before version 2, in any of their formats, from a dump of the
/// store they were in, or from the bucket itself. Without `--write` it only tells what each would become and what comes from where; what is there
/// already is left alone, so it can be repeated. A cycle that was at work is paused until you `resume` it. It ends with 2 if something in the dump cannot be read, and with 3 if a
/// cycle is there with other content; all others are entered.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard import f8c1a491.callboard.tar
  callboard import f8c1a491.callboard.tar --as from-the-server
  zstd -dc run.tar.zst | callboard import -
  callboard import --peer dump.jsonl            # what would become of the cycles in it
  callboard import --peer dump.jsonl --write
  callboard import --peer keys/ --temp-files /tmp --json
  callboard import --peer nats://127.0.0.1:4222 --write --delete-old")]
pub(super) struct Arguments {
    /// The archive; `-` is standard input
    #[arg(required_unless_present = "peer")]
    file: Option<PathBuf>,

    /// Its name here [default: the one it has]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    /// Print what was taken as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    location: LocationArgs,

    #[command(flatten)]
    peer: peer::PeerFlags,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    control::refuse_agents_without_run("import a run")?;
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    let Some(file) = &arguments.file else {
        return peer::run(&workspace, &arguments.peer, arguments.json);
    };
    let name = arguments.name.as_deref().map(RunId::new).transpose();
    let name = name.map_err(|error| Failure::usage("that cannot name a run").because(Some(&error)))?;
    let archive: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| {
            Failure::usage(format!("cannot read `{}`", file.display())).because(Some(&error))
        })?)
    };
    block_on(take(&workspace, &arguments, file, archive, name))
}

/// Takes a run out of an archive.
async fn take(
    workspace: &Workspace,
    arguments: &Arguments,
    file: &Path,
    archive: Box<dyn Read>,
    name: Option<RunId>,
) -> Result<Exit, Failure> {
    let import_target = ImportTarget {
        name,
        repo_dir: workspace.repo_dir()?,
        by: workspace::person(),
        now: workspace.clock.now(),
    };
    let store = workspace.store().await?;
    definition::exclude_views(&workspace.repo)?;
    let unpacked = runner::unpack(&store, archive).map_err(|error| refused(file, &error))?;
    let (protocol, run) = (unpacked.manifest.protocol.clone(), unpacked.manifest.run.clone());
    if !present::is_known(&protocol) {
        return Err(refused(file, &ImportError::OtherProtocol { found: protocol }));
    }
    let taking = Taking { workspace, store: &store, unpacked, import_target, file };
    let (imported, set_aside) = present::by_name(&protocol, &run, taking).await?;
    tell(&imported, arguments.json);
    for (view, kept) in set_aside.into_iter().flatten() {
        output::note(format_args!(
            "`{}` was somebody else's; its bytes are in `{}`",
            view.display(),
            kept.display()
        ));
    }
    Ok(Exit::Success)
}

struct Taking<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    unpacked: Unpacked,
    import_target: ImportTarget,
    file: &'a Path,
}

impl Deed for Taking<'_> {
    type Done = (Imported, Option<ViewQuarantined>);

    async fn with<P: Presentation>(self) -> Result<Self::Done, Failure> {
        let Self { workspace, store, unpacked, import_target, file } = self;
        let other = import_target.name.as_ref().filter(|name| **name != unpacked.manifest.run);
        if let Some(other) = other.filter(|_| !P::RENAMES) {
            let what =
                format!("a `{}` run is named by what it is about; it cannot be `{other}` here", P::NAME);
            return Err(Failure::usage(what).hint("without `--as` it keeps its name"));
        }
        let imported = runner::import::<P>(store, unpacked, &import_target).await;
        let imported = imported.map_err(|error| refused(file, &error))?;
        let set_aside = views::write::<P>(workspace, store, &imported.run).await?;
        Ok((imported, set_aside))
    }
}

fn tell(imported: &Imported, json: bool) {
    let Imported { run, manifest, revision, status, open } = imported;
    if json {
        output::json_pretty(&serde_json::json!({
            "run": run, "was": manifest.run, "host": manifest.host, "revision": revision,
            "status": run_status::name(*status),
            "files": manifest.files.len(), "interrupted": open, "elsewhere": manifest.remote,
        }));
        return;
    }
    output::data(run);
    output::message(format_args!(
        "{} entries and {} files were taken, written on `{}`; the run is {}",
        manifest.entries,
        manifest.files.len(),
        manifest.host,
        run_status::word(*status).1
    ));
    if !open.is_empty() {
        output::note(format_args!("open there, interrupted here: {}", open.join(", ")));
    }
    if !matches!(status, RunStatus::Finished(_)) {
        output::note(format_args!(
            "`callboard resume {run}` goes on with it here; give it the profiles of this machine"
        ));
    }
}

fn refused(file: &Path, error: &ImportError) -> Failure {
    let exit = match error {
        ImportError::Exists(_) | ImportError::LeftoverAttempts { .. } => Exit::Refused,
        ImportError::NotAnArchive(_)
        | ImportError::Newer { .. }
        | ImportError::OtherProtocol { .. }
        | ImportError::BadFile { .. }
        | ImportError::Entry { .. }
        | ImportError::Read(_) => Exit::Usage,
        ImportError::Write { .. } | ImportError::Void(_) | ImportError::Store(_) | ImportError::Query(_) => {
            Exit::Store
        }
    };
    let failure =
        Failure::from_error(exit, error).while_doing(format_args!("cannot import `{}`", file.display()));
    match error {
        ImportError::Exists(_) => failure.hint("`--as NAME` takes it under another name"),
        ImportError::LeftoverAttempts { path } => failure
            .hint("they may be all that is left of a run: `callboard recover` looks for it")
            .hint(format_args!(
                "move `{}` aside, or take this one under another name: `--as NAME`",
                path.display()
            )),
        _ => failure.hint("nothing of it was taken"),
    }
}
