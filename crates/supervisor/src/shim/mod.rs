//! The shim: stands between engine and agent, outlives the one and ends with the other.
//!
//! It is started for every attempt, so it must be cheap: one thread, no runtime, no logger, no argument parser. In
//! order: leave the engine's session, become subreaper, take the claim (or exit in silence), start the agent, wait,
//! end what must be ended, write `exit.json`. While it waits it is woken only by the agent's end, a child's end, a
//! signal or a limit.
//!
//! SIGTERM orders it to end the attempt with all patience, SIGINT at once.

mod agent;
mod ladder;
mod limits;
mod wakeups;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use jiff::Timestamp;

use self::agent::Agent;
use self::limits::Limits;
use self::wakeups::Wakeups;
use crate::claim::{self, ClaimError};
use crate::dir::AttemptDir;
use crate::exit::{Because, ExitRecord, How};
use crate::launch::Launch;
use crate::os;

/// Runs the attempt of this directory. To be called first thing in the process, which must have no other thread.
pub fn main(dir: &Path) -> ExitCode {
    match run(&AttemptDir::at(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is `shim.log`. Should even that fail, the missing exit record speaks for itself.
            let _ = writeln!(io::stderr(), "shim in `{}`: {error}", dir.display());
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ShimError {
    #[error("{context}: {source}")]
    Io { context: &'static str, source: io::Error },
    #[error("{0}: {cause}", cause = std::error::Error::source(.0).map_or(String::new(), ToString::to_string))]
    Claim(#[from] ClaimError),
}

fn while_doing(context: &'static str) -> impl FnOnce(io::Error) -> ShimError {
    move |source| ShimError::Io { context, source }
}

fn run(dir: &AttemptDir) -> Result<(), ShimError> {
    os::stand_alone().map_err(while_doing("could not leave the engine's session"))?;
    // Before the claim: from then on the engine may send signals, and they must not kill us.
    let wakeups = Wakeups::install().map_err(while_doing("could not install signal handlers"))?;
    let launch = Launch::read(dir).map_err(while_doing("could not read `launch.json`"))?;
    // Before the claim, too: where there is no room for the record nothing is begun.
    let room = ExitRecord::reserve(dir).map_err(while_doing("could not keep room for `exit.json`"))?;
    let Some(_held) = claim::take(dir)? else { return Ok(()) };
    let record = attend(dir, &launch, &wakeups).map_err(while_doing("could not attend the agent"))?;
    record.write(dir, room).map_err(while_doing("could not write `exit.json`"))
}

/// Starts the agent and stays until nothing is left of it.
fn attend(dir: &AttemptDir, launch: &Launch, wakeups: &Wakeups) -> io::Result<ExitRecord> {
    let (started, started_at) = (Instant::now(), Timestamp::now());
    if let Some(limit) = launch.descriptors {
        os::set_descriptor_limit(limit)?;
    }
    let (how, because, swept) = match Agent::start(dir, launch) {
        Err(error) => (How::NotStarted { error }, Because::Own, 0),
        Ok(mut agent) => {
            let mut limits = Limits::new(started, launch, agent.log_sizes()?);
            let because = wait(&mut agent, &mut limits, wakeups)?;
            ladder::end(agent, because, launch, wakeups)?
        }
    };
    Ok(ExitRecord {
        attempt: launch.attempt.clone(),
        how,
        because,
        boot_id: os::boot_id()?,
        started_at,
        ended_at: Timestamp::now(),
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        swept,
    })
}

/// Waits for the first reason to end. The agent's own end goes before all others: what is over cannot be ordered.
fn wait(agent: &mut Agent, limits: &mut Limits, wakeups: &Wakeups) -> io::Result<Because> {
    loop {
        let woken = wakeups.wait(agent, limits.deadline())?;
        if woken.agent {
            return Ok(Because::Own);
        }
        if woken.term || wakeups.hurry()? {
            return Ok(Because::Ordered);
        }
        if woken.child {
            agent.reap_strays()?;
        }
        if let Some(because) = limits.passed(Instant::now(), || agent.log_sizes())? {
            return Ok(because);
        }
    }
}
