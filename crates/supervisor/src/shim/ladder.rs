//! The ladder: TERM, grace, KILL, and then nobody left.
//!
//! Killing the agent's group is not enough. Real agent CLIs start their tools in new sessions, and those outlive
//! them. As subreaper the shim inherits every orphan below it, so it finds them by parent; a process that was started
//! on the agent's behalf by somebody else still carries the attempt's mark.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::agent::{Agent, Children, reap_all};
use super::wakeups::Wakeups;
use crate::exit::{Because, How};
use crate::launch::Launch;
use crate::os::{self, Process, Table};

/// What the agent left behind has this long at most; whoever waited for it is gone.
const GRACE_FOR_LEFT_OVERS: Duration = Duration::from_secs(2);

/// Ends the agent if it has not ended, and everything below it. Says how, why and how many were left over.
pub(super) fn end(
    agent: Agent,
    because: Because,
    launch: &Launch,
    wakeups: &Wakeups,
) -> io::Result<(How, Because, u32)> {
    if because != Because::Own {
        end_agent(&agent, launch.grace, wakeups)?;
    }
    let how = agent.reap()?;
    // A descendant cannot leave its subreaper: no child is proof enough after a peaceful end, and costs nothing.
    let swept = match (reap_all()?, because) {
        (Children::None, Because::Own) => 0,
        _ => clear(launch, wakeups)?,
    };
    Ok((how, because, swept))
}

fn end_agent(agent: &Agent, grace: Duration, wakeups: &Wakeups) -> io::Result<()> {
    if !wakeups.hurry()? {
        agent.signal_group(Signal::TERM)?;
        let fds = [agent.process.as_fd(), wakeups.hurry_fd()];
        os::poll_until(&fds, Instant::now().checked_add(grace))?;
    }
    if !agent.process.has_ended()? {
        agent.signal_group(Signal::KILL)?;
        os::poll_until(&[agent.process.as_fd()], None)?;
    }
    Ok(())
}

/// Ends what the agent left behind: politely first, then until none is left.
fn clear(launch: &Launch, wakeups: &Wakeups) -> io::Result<u32> {
    let lines = launch.mark().lines();
    let left_over = || {
        let table = Table::read()?;
        let marked = table.marked(&lines);
        Ok::<_, io::Error>(table.with_descendants([table.our_descendants(), marked].concat()))
    };
    let (mut asked, mut met) = (Vec::new(), BTreeSet::new());
    for row in left_over()? {
        if let Some(process) = Process::open(row.pid, row.start_time)? {
            process.signal(Signal::TERM)?;
            asked.push(process);
            met.insert(row.key());
        }
    }
    os::wait_for_all(&asked, Instant::now() + launch.grace.min(GRACE_FOR_LEFT_OVERS), wakeups.hurry_fd())?;
    met.extend(os::kill_until_none(left_over)?);
    reap_all()?;
    Ok(u32::try_from(met.len()).unwrap_or(u32::MAX))
}
