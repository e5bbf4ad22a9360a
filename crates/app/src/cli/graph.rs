//! `callboard graph WORKFLOW|RUN`.

mod labels;
mod layout;
mod list;
mod mermaid;
mod model;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};

use protocol::Revision;

use super::{block_on, check};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::query::RunHandle;
use crate::query::overview::RunOverview;
use crate::workspace::LocationArgs;
use crate::workspace::definition::workflow::{self, KnownChecks};
use model::{Graph, Run};

/// Show the steps of a workflow or a run, and which step needs which
///
/// Prints one line per step, each after the steps it needs. A gate says which step it loops back to. A step also shows its
/// conditions, its data loop, its checks, and whether a person is asked. For a run, each step also shows its status, how long
/// it took, and the current iteration of a gate.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  callboard graph wf.yaml
  callboard graph f8c1a491
  callboard graph f8c1a491 --at 12                    # as it was at revision 12
  callboard graph wf.yaml --format svg > wf.svg
  callboard graph wf.yaml --format mermaid >> README.md
  callboard graph f8c1a491 --json | jq '.steps[] | select(.status == \"failed\")'")]
pub(super) struct Arguments {
    /// A workflow file, or a run: its name, a unique prefix of it, or the id of a peer cycle
    #[arg(value_name = "WORKFLOW|RUN")]
    subject: String,

    /// The output format
    #[arg(long, value_name = "FORMAT", default_value = "list")]
    format: Format,

    /// Print the steps as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Show the run as it was at this revision
    #[arg(long, value_name = "REV")]
    at: Option<u64>,

    #[command(flatten)]
    location: LocationArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Plain lines
    List,
    /// An image for browsers and documents
    Svg,
    /// A Mermaid flowchart
    Mermaid,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let graph =
        if names_workflow_file(&arguments.subject) { of_workflow(&arguments)? } else { of_run(&arguments)? };
    if arguments.json {
        output::json_pretty(&graph);
        return Ok(Exit::Success);
    }
    match arguments.format {
        Format::List => list::render(&graph).iter().for_each(output::data),
        Format::Svg => output::raw(&svg::render(&graph)),
        Format::Mermaid => output::raw(&mermaid::render(&graph)),
    }
    Ok(Exit::Success)
}

/// Returns whether the argument names a workflow file, existing or not. The name of a run has no `/`.
fn names_workflow_file(subject: &str) -> bool {
    let path = Path::new(subject);
    let has_known_extension =
        path.extension().is_some_and(|found| ["yaml", "yml", "json"].iter().any(|known| found == *known));
    subject.contains('/') || has_known_extension || path.is_file()
}

fn of_workflow(arguments: &Arguments) -> Result<Graph, Failure> {
    if arguments.at.is_some() {
        return Err(Failure::usage("cannot use `--at` with a workflow file: it has no revisions")
            .hint("name a run instead; `callboard ls` lists them"));
    }
    let file = PathBuf::from(&arguments.subject);
    let source = fs::read_to_string(&file).map_err(|error| {
        Failure::usage(format!("cannot read the workflow `{}`", file.display()))
            .because(Some(&error))
            .hint("name a workflow file or a run; `callboard ls` lists the runs")
    })?;
    let repo = match &arguments.location.repo {
        Some(repo) => repo.clone(),
        None => check::repository(&file)?,
    };
    let workflow::ReadResult { workflow, problems, warnings } =
        workflow::read(&repo, &file, &source, &KnownChecks::NotNeeded);
    for warning in &warnings {
        output::message(output::warning(&file, &source, warning));
    }
    match workflow {
        Some((workflow, _)) => Ok(Graph::of_workflow(&workflow)),
        None => Err(Failure::of_problems("workflow", &file, &source, &problems)),
    }
}

fn of_run(arguments: &Arguments) -> Result<Graph, Failure> {
    block_on(async {
        let handle = RunHandle::of(&arguments.location, &arguments.subject).await?;
        let (run_at, overview) = RunOverview::read(&handle, arguments.at.map(Revision)).await?;
        let (status, now) = match arguments.at {
            None => {
                let (_, word) = run_status::label_with_engine(&run_at.summary(), overview.engine.presence());
                (Some(word), handle.workspace.clock.now())
            }
            Some(_) => (None, run_at.state.at),
        };
        let run = Run { run: run_at.run.to_string(), revision: run_at.revision.0, status };
        Ok(Graph::of_run(run, &run_at.spec.title, run_at.machine(), now))
    })
}

#[cfg(test)]
mod tests;
