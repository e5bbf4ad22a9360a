//! `callboard skip RUN STEP`.

use protocol::run::{Request, RunStatus};

use super::block_on;
use crate::config::Flags;
use crate::control::{self, ControlRequest};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::{self, run_status};
use crate::workspace::{LocationArgs, Workspace};

/// Skip a step: continue as if it had succeeded
///
/// The step gets the status `skipped`, and steps that need it can start. A running step cannot be skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard skip f8c1a491 docs --reason 'written by hand'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
    run: String,

    /// The step
    step: String,

    /// The reason, for the journal and the document
    #[arg(long, value_name = "TEXT")]
    reason: String,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        let journal = workspace.load(&store, &run).await?;
        let (step_noun, _) = journal.kind().info().step_nouns;
        let step = present::find_step(&run, journal.machine(), &arguments.step)?;
        let control = ControlRequest {
            action: format!("skip a {step_noun} of"),
            request: Request::Skip { step: step.clone() },
            reason: Some(arguments.reason),
        };
        let handled_by = control.submit(&workspace, &store, &run).await?;
        output::message(format_args!("{step_noun} `{step}` is skipped"));
        let status = workspace.load(&store, &run).await?.state.run.status;
        if let RunStatus::Finished(_) = status {
            let (_, word) = run_status::label(status);
            output::note(format_args!("no step is left: the run is {word}"));
        } else {
            control::note_how_run_continues(&run, &handled_by);
        }
        Ok(Exit::Success)
    })
}
