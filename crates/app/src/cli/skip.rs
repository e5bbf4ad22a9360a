//! `callboard skip RUN STEP`.

use protocol::RunId;
use protocol::run::{Request, RunStatus};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::control::{self, ControlRequest};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::run_status;
use crate::present::{self, Deed, Presentation};
use crate::workspace::{LocationArgs, Workspace};

/// Skip a step: continue as if it had succeeded
///
/// The step gets the status `skipped`, and steps that need it can start. A running step cannot be skipped.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard skip f8c1a491 docs --reason 'written by hand'")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of its cycle
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
        workspace
            .with_run(&store, &run, Skipping { workspace: &workspace, store: &store, run: &run, arguments })
            .await
    })
}

struct Skipping<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    arguments: Arguments,
}

impl Deed for Skipping<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { workspace, store, run, arguments } = self;
        let (word, _) = P::STEP;
        let journal = workspace.load::<P>(store, run).await?;
        let step = present::step::<P>(run, &journal.spec.definition, &arguments.step)?;
        let request = Request::Skip { step: step.clone() };
        let control = ControlRequest::<P> {
            doing: format!("skip a {word} of"),
            request,
            reason: Some(arguments.reason),
        };
        let taken = control.make(workspace, store, run).await?;
        output::talk(format_args!("{word} `{}` is skipped", P::step_id(&step)));
        let status = workspace.load::<P>(store, run).await?.state.run.status;
        if let RunStatus::Finished(_) = status {
            let (_, word) = run_status::word(status);
            output::note(format_args!("no step is left: the run is {word}"));
        } else {
            control::tell_who_goes_on(run, &taken);
        }
        Ok(Exit::Success)
    }
}
