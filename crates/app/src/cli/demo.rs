//! `callboard demo`: a run, a kill, a resume, and what that cost, told while it happens.
//!
//! Nothing is acted: a real repository with a failing test, the engine as a real child process, a real `kill -9`. What
//! the story claims at its end is read from the journal, from the agents' own ledger and from the kernel; where one of
//! them says otherwise, the command fails.

mod engine;
mod hold;
mod journal;
mod ledger;
mod proof;
mod sandbox;
mod story;

use std::io::IsTerminal as _;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::block_on;
use crate::failure::{Exit, Failure};
use crate::output;
use proof::Finding;
use sandbox::Sandbox;
use story::Teller;

/// Watch a run survive `kill -9`: three scripted agents mend a bug, no model, no network
///
/// Makes a git repository with a failing test in a temporary folder and runs a workflow there: a coder whose first fix is
/// wrong, a gate that runs the test and sends the coder back, a writer. In the middle the engine is killed; `callboard
/// resume` adopts the agent that is still at work. What the story claims is checked, and a claim that does not hold is an
/// error. Nothing of yours is read or touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit codes: 0 the story holds, 1 it does not (the folder is kept as evidence)

Examples:
  callboard demo
  callboard demo --fast           # without pauses for reading
  callboard demo --keep           # leaves the folder, to look around with show, log and graph")]
pub(super) struct Arguments {
    /// Do not pause for reading; off a terminal there are no pauses anyway
    #[arg(long)]
    fast: bool,

    /// Leave the folder and say where it is
    #[arg(long)]
    keep: bool,
}

/// On a terminal, how long each agent rests after it has begun and before it ends.
const PACE: Duration = Duration::from_millis(250);

pub(super) fn run(arguments: Arguments) -> Result<Exit, Failure> {
    // An attempt that starts engines of its own would kill and adopt under the mark of another.
    crate::control::refuse_agents_without_run("show the demo")?;
    // A reader who leaves does not leave our children and folder behind.
    output::ignore_write_errors();
    let paced = !arguments.fast && std::io::stdout().is_terminal();
    let teller = Teller { paced };
    block_on(async {
        let interrupted = interrupted()?;
        let sandbox = Sandbox::build(if paced { PACE } else { Duration::ZERO }).await?;
        let told = tokio::select! {
            told = story::tell(&sandbox, &teller) => told.map(Some),
            () = interrupted => Ok(None),
        };
        match told {
            Ok(Some(findings)) => conclude(sandbox, &findings, &arguments),
            Ok(None) => {
                sandbox.clear().await?;
                leave(sandbox, arguments.keep)?;
                output::note("interrupted: engine and agents were ended");
                Ok(Exit::Interrupted)
            }
            Err(failure) => {
                sandbox.clear().await?;
                let folder = sandbox.keep();
                Err(failure.hint(format!("`{}` was kept as it is", folder.display())))
            }
        }
    })
}

/// Whether the story holds decides how the command ends.
fn conclude(sandbox: Sandbox, findings: &[Finding], arguments: &Arguments) -> Result<Exit, Failure> {
    let broken = findings.iter().filter(|finding| !finding.holds).count();
    if broken > 0 {
        let folder = sandbox.keep();
        return Err(Failure::new(
            Exit::Failed,
            format!("the story does not hold: {broken} of {} checks failed", findings.len()),
        )
        .hint(format!("everything was kept in `{}`", folder.display())));
    }
    leave(sandbox, arguments.keep)?;
    if !arguments.keep {
        output::data("`callboard demo --keep` leaves the folder, to look around in.");
    }
    Ok(Exit::Success)
}

/// Takes the folder away, or says what can be done in it.
fn leave(sandbox: Sandbox, keep: bool) -> Result<(), Failure> {
    if !keep {
        return sandbox.remove();
    }
    let run = sandbox::RUN;
    let repo = sandbox.repo().to_owned();
    sandbox.keep();
    output::data(format_args!("It is all still there:\n\n  cd {}", repo.display()));
    for (command, what) in [
        (format!("callboard show {run}"), "how far each step is"),
        (format!("callboard log {run}"), "every entry of the journal"),
        (format!("callboard graph {run}"), "the steps as a picture"),
        ("git log --oneline".to_owned(), "what the agents committed"),
    ] {
        output::data(format_args!("  {command:<22} {}", output::styled(output::DIM, what)));
    }
    Ok(())
}

/// Ends when somebody wants us to end.
fn interrupted() -> Result<impl Future<Output = ()>, Failure> {
    let listen = |kind| {
        signal(kind)
            .map_err(|error| Failure::new(Exit::Bug, "cannot listen to signals").because(Some(&error)))
    };
    let mut keyboard = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = keyboard.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}
