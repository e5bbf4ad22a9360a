//! `callboard export RUN`.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use protocol::RunId;
use runner::{Logs, Manifest, RunAtRevision};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{LocationArgs, Workspace};

/// Write a run to an archive: its journal, prompts, reports and logs
///
/// The archive is a plain tar file with a manifest and digests. The same run gives the same bytes. Launch files are left
/// out, because their environment may hold secrets. Prompts, reports and logs are copied as they are: check them before
/// you share the archive.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard export f8c1a491                       # writes f8c1a491.callboard.tar
  callboard export f8c1a491 --no-logs -o run.tar
  callboard export f8c1a491 -o - | zstd > run.tar.zst
  callboard export f8c1a491 --documents out/      # the files of its format, without the journal")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// The archive to write; `-` is standard output [default: RUN.callboard.tar]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Leave out the agents' output
    #[arg(long)]
    no_logs: bool,

    /// Write the documents of the run to this directory instead: the files that its views show
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "no_logs"])]
    documents: Option<PathBuf>,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        // Refuse a run of an unknown protocol: this version could not import the archive.
        workspace.kind(&store, &run).await?;
        if let Some(directory) = &arguments.documents {
            return write_documents(&workspace, &store, &run, directory).await;
        }
        let logs = if arguments.no_logs { Logs::Without } else { Logs::With };
        let attempts = store.local_dir().attempts_dir();
        let host = linux::host_name();
        let output = arguments.output.unwrap_or_else(|| format!("{run}.callboard.tar").into());
        let unwritable = |error: &std::io::Error| {
            Failure::usage(format!("cannot write `{}`", output.display())).because(Some(error))
        };
        let failed = |error: runner::ExportError| {
            let failure = || {
                Failure::from_error(Exit::Store, &error).context(format_args!("cannot export run `{run}`"))
            };
            match &error {
                // The disk of the archive is not that of the store.
                runner::ExportError::Write(source) => unwritable(source),
                runner::ExportError::Changed { .. } => failure().hint("an agent is writing to it; try again"),
                _ => failure(),
            }
        };
        if output == Path::new("-") {
            let mut out = std::io::stdout().lock();
            let exported = runner::export(store.as_ref(), &run, &attempts, logs, &host, &mut out).await;
            match exported {
                // A closed pipe is a success, as for all other output.
                Err(runner::ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => {}
                exported => note_remote_files(&exported.map_err(failed)?),
            }
            return Ok(Exit::Success);
        }
        let directory = output.parent().filter(|parent| !parent.as_os_str().is_empty());
        // Written to a temporary file first, so that an archive is complete or missing.
        let mut file = tempfile::NamedTempFile::new_in(directory.unwrap_or(Path::new(".")))
            .map_err(|error| unwritable(&error))?;
        let manifest =
            runner::export(store.as_ref(), &run, &attempts, logs, &host, &mut file).await.map_err(failed)?;
        file.flush().and_then(|()| file.as_file().sync_all()).map_err(|error| unwritable(&error))?;
        file.persist_noclobber(&output).map_err(|error| {
            unwritable(&error.error).hint("choose another name with `-o`, or move the existing file")
        })?;
        output::message(format_args!(
            "exported run `{}` to `{}`: {} entries, {} files",
            manifest.run,
            output.display(),
            manifest.entries,
            manifest.files.len(),
        ));
        note_remote_files(&manifest);
        Ok(Exit::Success)
    })
}

/// Writes the documents of a run below a directory, at their paths in the repository, or at their absolute paths if they are
/// outside of it. Overwrites nothing.
async fn write_documents(
    workspace: &Workspace,
    store: &AnyStore,
    run: &RunId,
    directory: &Path,
) -> Result<Exit, Failure> {
    let run_at = RunAtRevision::load(store.as_ref(), workspace.protocols, run, None).await?;
    let run_at = run_at.ok_or_else(|| workspace.no_such_run(run.as_str()))?;
    let repo_dir = &run_at.spec.options.location.repo_dir;
    let views = run_at.machine().document().views();
    for view in &views {
        let path = Path::new(&view.path);
        let path =
            directory.join(path.strip_prefix(repo_dir).unwrap_or(path.strip_prefix("/").unwrap_or(path)));
        let write = || {
            std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
            std::fs::File::create_new(&path)?.write_all(view.body.as_bytes())
        };
        write().map_err(|error| {
            Failure::usage(format!("cannot write `{}`", path.display()))
                .because(Some(&error))
                .hint("choose an empty directory with `--documents`")
        })?;
    }
    output::message(format_args!(
        "wrote {} of run `{run}` to `{}`",
        output::count(views.len(), "file", "files"),
        directory.display()
    ));
    Ok(Exit::Success)
}

/// Names the attempts whose files are on other hosts.
fn note_remote_files(manifest: &Manifest) {
    for (host, attempts) in &manifest.remote {
        let names: Vec<_> = attempts.iter().map(|attempt| format!("`{attempt}`")).collect();
        output::note(format_args!(
            "prompts, reports and logs of {} are on `{host}` and not in the archive; run `callboard export {}` there",
            names.join(", "),
            manifest.run
        ));
    }
}
