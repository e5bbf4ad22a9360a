//! `callboard stop RUN`.

use protocol::Outcome;
use protocol::run::{Request, RunStatus};

use super::block_on;
use crate::config::Flags;
use crate::control::{self, ControlRequest};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::{LocationArgs, Workspace};

/// Stop a run: end its agents
///
/// Returns when no agent is left. Attempts that are stopped do not count towards the limit. `resume` continues a workflow.
/// A run of `team`, `cycle` or `issue` has failed when it is stopped, and `retry` continues it. A `peer` cycle has failed, too;
/// `callboard peer --continue` continues it in a new cycle.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  callboard stop f8c1a491 && callboard resume f8c1a491")]
pub(super) struct Arguments {
    /// The run: its name, a unique prefix of it, or the id of a peer cycle
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
        let journal = workspace.load(&store, &run).await?;
        // The run is ending already: some protocols refuse to stop it while its engine is at work.
        if let RunStatus::Draining(_) | RunStatus::Finishing(_) = journal.state.run.status {
            control::refuse_while_engine_runs(&store, &journal, "stop").await?;
        }
        let control =
            ControlRequest { action: "stop".to_owned(), request: Request::Stop, reason: arguments.reason };
        control.submit_and_wait(&workspace, &store, &run).await?;
        let journal = workspace.load(&store, &run).await?;
        output::message(match journal.state.run.status {
            RunStatus::Finished(Outcome::Succeeded) => {
                format!("run `{run}` succeeded before it could be stopped")
            }
            RunStatus::Finished(Outcome::Incomplete) => {
                format!("run `{run}` ended incomplete before it could be stopped")
            }
            RunStatus::Finished(Outcome::Failed) => {
                format!("run `{run}` failed; {}", journal.machine().failure_hint(&run))
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
    })
}
