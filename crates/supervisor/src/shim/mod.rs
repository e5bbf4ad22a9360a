//! The shim: a process between engine and agent, which outlives the engine and ends with the agent.
//!
//! It is started for every attempt, so it must be cheap: one thread, no runtime, no logger, no argument parser. In
//! order: start a session of its own, become subreaper, claim the attempt (or exit), start the agent, wait, stop what is
//! left, write `exit.json`. While it waits, only the agent's end, a child's end, a signal, a limit or a new version of
//! the report file wakes it. That version is kept, because a wrapper may overwrite its agent's report.
//!
//! SIGTERM stops the attempt with its grace period, SIGINT at once.

mod agent;
mod limits;
mod signals;
mod stop_sequence;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use jiff::Timestamp;
use linux::ReportWatch;

use self::agent::Agent;
use self::limits::Limits;
use self::signals::Signals;
use crate::attempt::{self, AttemptDir, ClaimError, EndReason, ExitRecord, ExitStatus, Launch};

/// Runs the attempt of this directory. Must be called first in the process, which must have no other thread.
pub fn main(dir: &Path) -> ExitCode {
    match run(&AttemptDir::at(dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is `shim.log`. If that fails, too, the engine notices the missing exit record.
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
    linux::detach_and_become_subreaper().map_err(while_doing("could not leave the engine's session"))?;
    // Handlers are installed before the claim exists, because the engine may signal us as soon as it does.
    let signals = Signals::install().map_err(while_doing("could not install signal handlers"))?;
    let launch = Launch::read(dir).map_err(while_doing("could not read `launch.json`"))?;
    // Space is reserved before the claim, too: without space for the record nothing is started.
    let reserved =
        ExitRecord::reserve(dir).map_err(while_doing("could not reserve space for `exit.json`"))?;
    let Some(_claim) = attempt::claim(dir)? else { return Ok(()) };
    let record = run_agent(dir, &launch, &signals).map_err(while_doing("could not run the agent"))?;
    record.write(dir, reserved).map_err(while_doing("could not write `exit.json`"))
}

/// Starts the agent and waits until no process of the attempt is left.
fn run_agent(dir: &AttemptDir, launch: &Launch, signals: &Signals) -> io::Result<ExitRecord> {
    let (started, started_at) = (Instant::now(), Timestamp::now());
    if let Some(limit) = launch.agent_open_files_limit {
        linux::set_descriptor_limit(limit)?;
    }
    let (status, reason, leftover_processes) = match Agent::start(dir, launch) {
        Err(error) => (ExitStatus::NotStarted { error }, EndReason::Finished, 0),
        Ok(mut agent) => {
            let mut limits = Limits::new(started, launch, agent.log_sizes()?);
            let reason = wait(dir, &mut agent, &mut limits, signals)?;
            let (status, leftovers) = stop_sequence::stop(agent, reason, launch, signals)?;
            (status, reason, leftovers)
        }
    };
    Ok(ExitRecord {
        attempt: launch.attempt.clone(),
        status,
        reason,
        boot_id: linux::boot_id()?,
        started_at,
        ended_at: Timestamp::now(),
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        leftover_processes,
    })
}

/// Waits for the first reason to end the attempt. The agent's own end takes precedence over all others.
fn wait(
    dir: &AttemptDir,
    agent: &mut Agent,
    limits: &mut Limits,
    signals: &Signals,
) -> io::Result<EndReason> {
    // The engine passes an inotify descriptor as the standard input.
    let mut report_watch = ReportWatch::inherited_as_stdin();
    loop {
        let woken = signals.wait(agent, report_watch.as_ref(), limits.deadline())?;
        if woken.report_watch
            && let Err(error) = keep_report(dir, report_watch.as_ref())
        {
            // Only earlier versions of the report are lost: the last one is read when the attempt has ended.
            let _ = writeln!(io::stderr(), "shim: earlier versions of the report are not kept: {error}");
            report_watch = None;
        }
        if woken.agent {
            return Ok(EndReason::Finished);
        }
        if woken.term || signals.int_received()? {
            return Ok(EndReason::Stopped);
        }
        if woken.child {
            agent.reap_orphans()?;
        }
        if let Some(reason) = limits.check(Instant::now(), || agent.log_sizes())? {
            return Ok(reason);
        }
    }
}

/// Keeps the report file if it was written.
fn keep_report(dir: &AttemptDir, watch: Option<&ReportWatch>) -> io::Result<()> {
    if watch.map(|watch| watch.take_written(&dir.report())).transpose()? == Some(true) {
        attempt::record_report_file(dir)?;
    }
    Ok(())
}
