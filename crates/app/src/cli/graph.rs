//! `callboard graph WORKFLOW|RUN`.

mod arrange;
mod aside;
mod canvas;
mod mermaid;
mod picture;
mod svg;
mod terminal;
mod tracks;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

use protocol::{Revision, RunId};
use store::AnyStore;

use super::{block_on, check};
use crate::config::Flags;
use crate::failure::{Exit, Failure};
use crate::output::{self, BOLD, DIM, styled};
use crate::present::run_status;
use crate::present::{Deed, Presentation};
use crate::workspace::definition::workflow;
use crate::workspace::{LocationArgs, Workspace};
use picture::{Picture, Run};
use words::Charset;

/// Draw the steps of a workflow or a run, and what leads to what
///
/// Lines go from what is needed to what needs it; a dashed one is a gate's way back. Of a run each step says how far it
/// is, how long it took, and gates which iteration this is. Where the terminal is too narrow for boxes, smaller ones
/// are drawn, and at last a list.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard graph wf.yaml
  callboard graph f8c1a491
  callboard graph f8c1a491 --at 12                    # as it was at revision 12
  callboard graph wf.yaml --format svg > wf.svg
  callboard graph wf.yaml --format mermaid >> README.md
  callboard graph f8c1a491 --json | jq '.steps[] | select(.status == \"FAILED\")'")]
pub(super) struct Arguments {
    /// A workflow file, or a run: its name, a beginning of it, or the id of its cycle
    #[arg(value_name = "WORKFLOW|RUN")]
    what: String,

    /// As what to draw it
    #[arg(long, value_name = "FORMAT", default_value = "terminal")]
    format: Format,

    /// Print the steps as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// The run as it was at a revision
    #[arg(long, value_name = "REV")]
    at: Option<u64>,

    /// How wide the drawing may be [default: the terminal's width, else 100]
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,

    /// Draw with plain ASCII characters only
    #[arg(long)]
    ascii: bool,

    #[command(flatten)]
    place: LocationArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Boxes and lines
    Terminal,
    /// A picture for browsers and documents
    Svg,
    /// A flowchart in the language of Mermaid
    Mermaid,
}

/// Off a terminal.
const WIDTH: usize = 100;

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let picture = if is_file(&arguments.what) { of_workflow(&arguments)? } else { of_run(&arguments)? };
    if arguments.json {
        output::json_pretty(&picture);
        return Ok(Exit::Success);
    }
    match arguments.format {
        Format::Svg => output::raw(&svg::draw(&picture)),
        Format::Mermaid => output::raw(&mermaid::draw(&picture)),
        Format::Terminal => {
            let charset = if arguments.ascii || !output::supports_unicode() {
                Charset::Ascii
            } else {
                Charset::Unicode
            };
            let width = arguments.width.or_else(output::width).unwrap_or(WIDTH);
            output::data(heading(&picture));
            for row in terminal::draw(&picture, width, charset) {
                output::data(row);
            }
        }
    }
    Ok(Exit::Success)
}

/// A path, or something that is there: names of runs have no `/`.
fn is_file(what: &str) -> bool {
    let path = Path::new(what);
    let like_one =
        path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known));
    what.contains('/') || like_one || path.is_file()
}

fn of_workflow(arguments: &Arguments) -> Result<Picture, Failure> {
    if arguments.at.is_some() {
        return Err(Failure::usage("a workflow file has no revisions").hint("`--at` is for runs"));
    }
    let file = PathBuf::from(&arguments.what);
    let source = fs::read_to_string(&file).map_err(|error| {
        Failure::usage(format!("cannot read the workflow `{}`", file.display()))
            .because(Some(&error))
            .hint("give the path of a workflow file, or a run; `callboard ls` lists the runs")
    })?;
    let repo = match &arguments.place.repo {
        Some(repo) => repo.clone(),
        None => check::repository(&file)?,
    };
    let workflow::Read { whole, problems, warnings } = workflow::read(&repo, &file, &source);
    for warning in &warnings {
        output::message(output::warning(&file, &source, warning));
    }
    match whole {
        Some((workflow, _)) => Ok(Picture::of_workflow(&workflow)),
        None => Err(Failure::of_problems("workflow", &file, &source, &problems)),
    }
}

fn of_run(arguments: &Arguments) -> Result<Picture, Failure> {
    let workspace = Workspace::find(&arguments.place, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.what).await?;
        let at = arguments.at.map(Revision);
        workspace
            .with_run(&store, &run, Drawing { workspace: &workspace, store: &store, run: &run, at })
            .await
    })
}

struct Drawing<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    at: Option<Revision>,
}

impl Deed for Drawing<'_> {
    type Done = Picture;

    async fn with<P: Presentation>(self) -> Result<Picture, Failure> {
        let Self { workspace, store, run, at } = self;
        let journal = workspace.load::<P>(store, run).await?;
        let run = journal.run.to_string();
        let Some(at) = at else {
            let (_, status) = run_status::word(journal.state.run.status);
            let run = Run { run, revision: journal.position.revision.0, status: Some(status) };
            return Ok(Picture::of_run(run, &journal.spec, &journal.document, workspace.clock.now()));
        };
        let (entry, document) = (journal.entry(at).await?, journal.document_at(at).await?);
        let (Some(entry), Some(document)) = (entry, document) else {
            return Err(Failure::usage(format!("run `{run}` has no revision {at}"))
                .hint(format!("it has 1 to {}", journal.position.revision)));
        };
        let run = Run { run, revision: at.0, status: None };
        Ok(Picture::of_run(run, &journal.spec, &document, entry.at))
    }
}

fn heading(picture: &Picture) -> String {
    let title = &picture.title;
    match &picture.run {
        None => format!(
            "{}  {}",
            styled(BOLD, title),
            styled(DIM, output::count(picture.steps.len(), "step", "steps"))
        ),
        Some(run) => {
            let status = run.status.map(|status| format!("  {status}")).unwrap_or_default();
            format!("{} {title}{status}  revision {}", styled(BOLD, &run.run), run.revision)
        }
    }
}
