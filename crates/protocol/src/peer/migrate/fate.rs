//! What became of a phase, as far as the facts tell: the first one that is not completed decides about the cycle.

use serde_json::Value;

use super::facts::{Facts, PhaseFacts};
use super::words::Standing;
use crate::peer::document::Phase;

#[derive(Debug)]
pub(super) enum Fate {
    Completed,
    Working,
    Waiting,
    Failed(Failing),
}

/// How a phase failed.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) kind: &'static str,
    /// As it was found.
    pub(super) error: Option<Value>,
    /// What to say if there is none.
    pub(super) message: String,
    /// Whether this is said somewhere, or only follows.
    pub(super) said: bool,
}

/// Decides about a phase whose predecessors are all completed. `unreadable`: a key that should tell, and does not.
pub(super) fn fate(facts: &Facts, phase: Phase, unreadable: Option<&str>) -> Fate {
    let shown = facts.phase(phase);
    let cycle = facts.status;
    if let Some(key) = unreadable
        && cycle.is_none()
        && facts.phases.iter().all(|phase| !phase.is_seen())
    {
        let message = format!("`{key}` cannot be read, and nothing else says how far the cycle came");
        return fails("unreadable", message);
    }
    let blamed = blamed(facts);
    if blamed == Some(phase) {
        return blame(facts, shown);
    }
    let over = facts.is_over();
    let working = cycle.is_some_and(|said| said.standing == Standing::Working);
    let named = cycle.and_then(|said| said.phase).or(facts.current).filter(|_| working);
    let at_work = named == Some(phase) || working && named.is_none() && phase == Phase::Plan;
    let is_seen = |later: Phase| facts.phase(later).is_seen() || [blamed, named].contains(&Some(later));
    let passed = Phase::ALL.into_iter().find(|later| *later > phase && is_seen(*later));
    let done = match shown.status {
        Some(Standing::Done) => true,
        // A key of its own for the output was written when the phase was over.
        None => !at_work || over || passed.is_some(),
        Some(Standing::Pending | Standing::Working | Standing::Failed | Standing::Cancelled) => false,
    };
    if done && shown.output.is_some() {
        return Fate::Completed;
    }
    let beyond = match (passed, over) {
        (Some(later), true) => {
            Some(format!("`{later}` came after it, and the cycle says that it is completed"))
        }
        (Some(later), false) => Some(format!("`{later}` came after it")),
        (None, true) => Some("the cycle says that it is completed".to_owned()),
        (None, false) => None,
    };
    match (shown.status, beyond) {
        (Some(Standing::Done), beyond) => {
            let beyond = beyond.map(|beyond| format!(", and {beyond}")).unwrap_or_default();
            let message = format!("`{phase}` says that it is completed{beyond}, but its output is missing");
            fails("missing_output", message)
        }
        (Some(Standing::Working), Some(beyond)) => {
            fails("out_of_order", format!("`{phase}` was still in progress, but {beyond}"))
        }
        (Some(Standing::Pending), Some(beyond)) if shown.output.is_some() => {
            fails("out_of_order", format!("`{phase}` was still pending, but {beyond}"))
        }
        (Some(Standing::Pending | Standing::Failed | Standing::Cancelled) | None, Some(beyond)) => {
            let message = format!("`{phase}` never ran: {beyond}, but the output of `{phase}` is missing");
            fails("missing_output", message)
        }
        (Some(Standing::Working), None) => Fate::Working,
        (None, None) if at_work => Fate::Working,
        (Some(Standing::Pending | Standing::Failed | Standing::Cancelled) | None, None) => Fate::Waiting,
    }
}

fn fails(kind: &'static str, message: String) -> Fate {
    Fate::Failed(Failing { kind, error: None, message, said: false })
}

fn is_bad(standing: Standing) -> bool {
    match standing {
        Standing::Failed | Standing::Cancelled => true,
        Standing::Pending | Standing::Working | Standing::Done => false,
    }
}

/// The phase that failed, if one did.
fn blamed(facts: &Facts) -> Option<Phase> {
    let own = facts.phases.iter().find(|phase| phase.status.is_some_and(is_bad)).map(|phase| phase.phase);
    if !facts.status.is_some_and(|said| is_bad(said.standing)) {
        return own;
    }
    let unfinished = || {
        let done = |phase: &PhaseFacts| {
            matches!(phase.status, Some(Standing::Done) | None) && phase.output.is_some()
        };
        let first = facts.phases.iter().find(|phase| !done(phase)).map(|phase| phase.phase);
        Some(first.unwrap_or(Phase::Review))
    };
    // Whoever comes first ends the cycle.
    [own, facts.error_phase].into_iter().flatten().min().or_else(unfinished)
}

fn blame(facts: &Facts, shown: &PhaseFacts) -> Fate {
    let is_cancelled = |standing| standing == Standing::Cancelled;
    let cancelled = shown.status.is_some_and(is_cancelled)
        || facts.status.is_some_and(|said| is_cancelled(said.standing));
    let (kind, what) = if cancelled { ("cancelled", "was cancelled") } else { ("error", "failed") };
    let error = shown.errors.first().cloned().or_else(|| facts.error.clone());
    let message = format!("`{}` {what}; the old document does not say why", shown.phase);
    Fate::Failed(Failing { kind, error, message, said: true })
}
