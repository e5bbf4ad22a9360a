//! Stops an attempt: TERM, grace period, KILL, until no process of it is left.
//!
//! Killing the agent's group is not enough. Real agent CLIs start their tools in new sessions, and those outlive the
//! agent. As subreaper the shim becomes the parent of every orphaned descendant and finds it by parent. A process that
//! another program started on behalf of the agent carries the attempt's mark.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use linux::{Process, ProcessTable};
use rustix::process::Signal;

use super::agent::{Agent, Children, reap_all};
use super::signals::Signals;
use crate::attempt::{EndReason, ExitStatus, Launch};

/// The longest grace period of processes that outlive the agent: no process waits for their result.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);

/// Stops the agent if it has not ended, and all its descendants. Returns how the agent ended and how many descendants
/// outlived it.
pub(super) fn stop(
    agent: Agent,
    reason: EndReason,
    launch: &Launch,
    signals: &Signals,
) -> io::Result<(ExitStatus, u32)> {
    if reason != EndReason::Finished {
        stop_agent(&agent, launch.grace, signals)?;
    }
    let status = agent.reap()?;
    // A descendant cannot leave its subreaper. So if the agent ended by itself and the shim has no child, none is left,
    // and the process table need not be read.
    let leftovers = match (reap_all()?, reason) {
        (Children::None, EndReason::Finished) => 0,
        _ => stop_leftovers(launch, signals)?,
    };
    Ok((status, leftovers))
}

fn stop_agent(agent: &Agent, grace: Duration, signals: &Signals) -> io::Result<()> {
    // SIGINT asks for a stop without a grace period.
    if !signals.int_received()? {
        agent.signal_group(Signal::TERM)?;
        let fds = [agent.process.as_fd(), signals.int_fd()];
        linux::poll_until(&fds, Instant::now().checked_add(grace))?;
    }
    if !agent.process.has_ended()? {
        agent.signal_group(Signal::KILL)?;
        linux::poll_until(&[agent.process.as_fd()], None)?;
    }
    Ok(())
}

/// Stops the processes that the agent left: TERM, grace period, KILL until none is left. Returns how many there were.
fn stop_leftovers(launch: &Launch, signals: &Signals) -> io::Result<u32> {
    let lines = launch.mark().lines();
    let find = || {
        let table = ProcessTable::read()?;
        let marked = table.marked(&lines)?;
        Ok::<_, io::Error>(table.with_descendants([table.our_descendants(), marked].concat()))
    };
    let (mut terminated, mut found) = (Vec::new(), BTreeSet::new());
    for row in find()? {
        if let Some(process) = Process::open(row.pid, row.start_time)? {
            process.signal(Signal::TERM)?;
            terminated.push(process);
            found.insert(row.key());
        }
    }
    let deadline = Instant::now() + launch.grace.min(LEFTOVER_GRACE);
    linux::wait_for_all(&terminated, deadline, signals.int_fd())?;
    found.extend(linux::kill_until_none(find)?);
    reap_all()?;
    Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
}
