//! `callboard demo`: starts a run, kills its engine, resumes it, and checks that nothing was lost.
//!
//! Everything is real: a repository with a failing test, the engine as a child process, a `kill -9`. The checks at the
//! end read the journal, the agents' own log and /proc. The command fails if a check fails.

mod agent_log;
mod checks;
mod engine;
mod journal;
mod sandbox;
mod walkthrough;

use std::io::IsTerminal as _;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output;
use checks::DemoCheck;
use sandbox::Sandbox;
use walkthrough::Printer;

/// See a run survive `kill -9`, with scripted agents and without a network
///
/// Creates a git repository with a failing test in a temporary folder and runs a workflow there: a coder whose first fix is
/// wrong, a gate that runs the test and loops back to the coder, and a writer. Then the engine is killed, and `callboard
/// resume` adopts the agent that is still running. At the end the demo checks that nothing was lost or done twice. Your own
/// files and settings are not used.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 all checks passed, 1 one failed (the folder is kept), 130 interrupted

Examples:
  callboard demo
  callboard demo --fast           # without pauses
  callboard demo --keep           # keep the folder, to try show, log and graph in it")]
pub(super) struct Arguments {
    /// Do not pause between the parts; without a terminal there are no pauses
    #[arg(long)]
    fast: bool,

    /// Keep the folder and print its path
    #[arg(long)]
    keep: bool,
}

/// How long each agent sleeps after its start and before its end, on a terminal.
const AGENT_PAUSE: Duration = Duration::from_millis(250);

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    // An agent that runs the demo would kill and adopt processes under the mark of its own attempt.
    crate::control::refuse_inside_attempt("show the demo")?;
    // A closed stdout must not leave child processes and the folder behind.
    output::ignore_write_errors();
    let paced = !arguments.fast && std::io::stdout().is_terminal();
    let printer = Printer { paced };
    block_on(async {
        let interrupted = interrupted()?;
        let sandbox = Sandbox::build(if paced { AGENT_PAUSE } else { Duration::ZERO }).await?;
        let result = tokio::select! {
            checks = walkthrough::run(&sandbox, &printer) => checks.map(Some),
            () = interrupted => Ok(None),
        };
        match result {
            Ok(Some(checks)) => finish(sandbox, &checks, &arguments),
            Ok(None) => {
                sandbox.stop_run().await?;
                remove_or_keep(sandbox, arguments.keep)?;
                output::note("interrupted; the engine and the agents have ended");
                Ok(Exit::Interrupted)
            }
            Err(failure) => {
                // A second failure, to stop the run, would hide the first one.
                let _ = sandbox.stop_run().await;
                let folder = sandbox.keep();
                Err(failure.hint(format!("the files are in `{}`", folder.display())))
            }
        }
    })
}

/// Removes or keeps the folder, and fails if a check failed.
fn finish(sandbox: Sandbox, checks: &[DemoCheck], arguments: &Arguments) -> Result<Exit, Failure> {
    let failed = checks.iter().filter(|check| !check.passed).count();
    if failed > 0 {
        let folder = sandbox.keep();
        return Err(Failure::new(Exit::Failed, format!("{failed} of {} checks failed", checks.len()))
            .hint(format!("the files are in `{}`", folder.display())));
    }
    remove_or_keep(sandbox, arguments.keep)?;
    if !arguments.keep {
        output::data("Run `callboard demo --keep` to keep the folder and look around in it.");
    }
    Ok(Exit::Success)
}

/// Removes the folder, or prints what can be done in it.
fn remove_or_keep(sandbox: Sandbox, keep: bool) -> Result<(), Failure> {
    if !keep {
        return sandbox.remove();
    }
    let run = sandbox::RUN;
    let repo = sandbox.repo().to_owned();
    sandbox.keep();
    output::data(format_args!("The folder was kept:\n\n  cd {}", output::shell_word(&repo)));
    for (command, what) in [
        (format!("callboard show {run}"), "the status of each step"),
        (format!("callboard log {run}"), "every entry of the journal"),
        (format!("callboard graph {run}"), "the steps and their order"),
        ("git log --oneline".to_owned(), "what the agents committed"),
    ] {
        output::data(format_args!("  {command:<22} {}", output::styled(output::DIM, what)));
    }
    Ok(())
}

/// Completes on SIGINT, SIGTERM or SIGHUP.
fn interrupted() -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Failure::new(Exit::Bug, "cannot install signal handlers").because(Some(&error)))
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
