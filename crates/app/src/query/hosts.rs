//! Attempts on other hosts, and the commands that deal with them.

use std::collections::BTreeMap;

use protocol::run::RunState;
use protocol::{AttemptId, RunId};
use store::AnyStore;

/// Returns attempts that may be alive on other hosts, by host. An embedded store has none.
pub(crate) fn remote(store: &AnyStore, state: &RunState) -> BTreeMap<String, Vec<AttemptId>> {
    let mut by_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
    if store.is_shared() {
        for (attempt, host) in state.remote(&linux::host_name()) {
            by_host.entry(host.to_owned()).or_default().push(attempt.clone());
        }
    }
    by_host
}

/// Returns the host of an attempt, if it is not this one.
pub(crate) fn of<'a>(store: &AnyStore, state: &'a RunState, attempt: &AttemptId) -> Option<&'a str> {
    let host = state.hosts.get(attempt).filter(|_| store.is_shared())?;
    (*host != linux::host_name()).then_some(host)
}

/// Says how to continue a run with attempts on another host.
pub(crate) fn advice(run: &RunId, host: &str, attempts: &[AttemptId]) -> String {
    format!(
        "{}: run `callboard resume {run}` there; if that host does not come back, \
         run `callboard resume {run} --abandon-host {host}` here",
        attempts_on(host, attempts)
    )
}

/// Says how to stop the attempts on another host. Resuming the run would start new ones.
pub(crate) fn advice_to_stop(run: &RunId, host: &str, attempts: &[AttemptId]) -> String {
    format!(
        "{}: run `callboard stop {run}` there; if that host does not come back, \
         run `callboard resume {run} --abandon-host {host}` here to continue without {}",
        attempts_on(host, attempts),
        if attempts.len() == 1 { "it" } else { "them" }
    )
}

fn attempts_on(host: &str, attempts: &[AttemptId]) -> String {
    let names: Vec<_> = attempts.iter().map(|attempt| format!("`{attempt}`")).collect();
    match names.split_last() {
        Some((last, [])) => format!("{last} is on `{host}`"),
        Some((last, others)) => format!("{} and {last} are on `{host}`", others.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_listed_in_plain_english() {
        let run = RunId::new("trial").unwrap();
        let attempts: Vec<AttemptId> = ["a#1.1", "b#1.1", "c#2.1"].map(|id| id.parse().unwrap()).into();
        let advice = |count| advice_to_stop(&run, "far", &attempts[..count]);
        let (one, two, three) = (advice(1), advice(2), advice(3));
        assert!(one.starts_with("`a#1.1` is on `far`: ") && one.ends_with("continue without it"), "{one}");
        assert!(two.starts_with("`a#1.1` and `b#1.1` are on `far`: "), "{two}");
        assert!(three.starts_with("`a#1.1`, `b#1.1` and `c#2.1` are on `far`: "), "{three}");
        assert!(three.ends_with("continue without them"), "{three}");
    }
}
