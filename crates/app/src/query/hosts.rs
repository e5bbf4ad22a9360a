//! Which attempts are on other hosts, and what to type about them.

use std::collections::BTreeMap;

use protocol::entry::RunState;
use protocol::run::Run;
use protocol::{AttemptId, Protocol, RunId};
use store::Store;

/// Attempts that may be alive on other hosts, by host. Of a store that only this machine can have there are none.
pub(crate) fn remote<P: Protocol>(
    store: &impl Store,
    state: &RunState<P>,
) -> BTreeMap<String, Vec<AttemptId>> {
    let mut by_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
    if store.is_shared() {
        for (attempt, host) in state.remote(&store::host_name()) {
            by_host.entry(host.to_owned()).or_default().push(Run::<P>::id(&attempt));
        }
    }
    by_host
}

/// The host of an attempt, if it is another one than this.
pub(crate) fn of<'a, P: Protocol>(
    store: &impl Store,
    state: &'a RunState<P>,
    attempt: &AttemptId,
) -> Option<&'a str> {
    let host = state.hosts.get(attempt).filter(|_| store.is_shared())?;
    (*host != store::host_name()).then_some(host)
}

/// What to do about the attempts on one host.
pub(crate) fn advice(run: &RunId, host: &str, attempts: &[AttemptId]) -> String {
    format!(
        "{}: `callboard resume {run}` there goes on; if that host does not come back, \
         `callboard resume {run} --abandon-host {host}` here",
        placed(host, attempts)
    )
}

/// The same for whoever wants them to end: to resume the run would start it again.
pub(crate) fn advice_to_end(run: &RunId, host: &str, attempts: &[AttemptId]) -> String {
    format!(
        "{}: `callboard stop {run}` there ends what is left; if that host does not come back, \
         `callboard resume {run} --abandon-host {host}` here goes on with the run",
        placed(host, attempts)
    )
}

fn placed(host: &str, attempts: &[AttemptId]) -> String {
    let names: Vec<_> = attempts.iter().map(|attempt| format!("`{attempt}`")).collect();
    let is = if attempts.len() == 1 { "is" } else { "are" };
    format!("{} {is} on `{host}`", names.join(" and "))
}
