//! `callboard stop RUN`.

use protocol::run::{Request, RunStatus};
use protocol::{Outcome, RunId};
use store::AnyStore;

use super::block_on;
use crate::config::Flags;
use crate::control::ControlRequest;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::present::{Deed, Presentation};
use crate::workspace::{LocationArgs, Workspace};

/// Stop a run: end its agents; `resume` continues it
///
/// Returns when no agent is left. Attempts that are stopped do not count towards the limit. A `peer` cycle fails when it is
/// stopped; `callboard peer --continue` continues it in a new cycle.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard stop f8c1a491 && callboard resume f8c1a491")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of its cycle
    run: String,

    /// The reason, for the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    location: LocationArgs,
}

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let workspace = Workspace::find(&arguments.location, Flags::default())?;
    block_on(async {
        let (store, run) = workspace.find_run(&arguments.run).await?;
        let reason = arguments.reason;
        workspace
            .with_run(&store, &run, Stopping { workspace: &workspace, store: &store, run: &run, reason })
            .await
    })
}

struct Stopping<'a> {
    workspace: &'a Workspace,
    store: &'a AnyStore,
    run: &'a RunId,
    reason: Option<String>,
}

impl Deed for Stopping<'_> {
    type Done = Exit;

    async fn with<P: Presentation>(self) -> Result<Exit, Failure> {
        let Self { workspace, store, run, reason } = self;
        let control = ControlRequest::<P> { doing: "stop".to_owned(), request: Request::Stop, reason };
        control.fulfil(workspace, store, run).await?;
        let journal = workspace.load::<P>(store, run).await?;
        output::talk(match journal.state.run.status {
            RunStatus::Finished(Outcome::Succeeded) => {
                format!("run `{run}` succeeded before it could be stopped")
            }
            RunStatus::Finished(Outcome::Incomplete) => {
                format!("run `{run}` ended incomplete before it could be stopped")
            }
            RunStatus::Finished(Outcome::Failed) => {
                format!("run `{run}` failed; {}", P::after_failure(run, &journal.document))
            }
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Stopped(_)
            | RunStatus::Draining(_)
            | RunStatus::Finishing(_) => {
                format!("run `{run}` is stopped; run `callboard resume {run}` to continue it")
            }
        });
        Ok(Exit::Success)
    }
}
