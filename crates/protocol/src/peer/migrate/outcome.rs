//! Decides how far a phase got. The first phase that is not completed decides about the cycle.

use serde_json::Value;

use super::read::{Facts, PhaseFacts};
use super::status::OldStatus;
use crate::peer::document::Phase;

#[derive(Debug)]
pub(super) enum Outcome {
    Completed,
    InProgress,
    Pending,
    Failed(PhaseFailure),
}

/// How a phase failed.
#[derive(Debug)]
pub(super) struct PhaseFailure {
    pub(super) kind: &'static str,
    /// The message if the keys have no error.
    pub(super) message: String,
    /// What a key gives as the error.
    pub(super) error: Option<Value>,
    /// Whether a key says that the phase failed. Otherwise it follows from a missing output.
    pub(super) stated: bool,
}

/// Decides about a phase whose predecessors are all completed.
pub(super) fn outcome(facts: &Facts, phase: Phase) -> Outcome {
    let phase_facts = facts.phase(phase);
    if let Some(key) = &facts.unreadable
        && facts.status.is_none()
        && !facts.phases.iter().any(PhaseFacts::has_started)
    {
        return inferred(
            "unreadable",
            format!("`{key}` is not a document, and no other key describes the cycle"),
        );
    }
    let failed = failed_phase(facts);
    if failed == Some(phase) {
        return stated(facts, phase);
    }
    let is_running = facts.status.is_some_and(|word| word.status == OldStatus::InProgress);
    let current = facts.status.and_then(|word| word.phase).or(facts.current).filter(|_| is_running);
    let is_current = is_running && current.unwrap_or(Phase::Plan) == phase;
    let is_reached =
        |later: Phase| facts.phase(later).has_started() || [failed, current].contains(&Some(later));
    let later = Phase::ALL.into_iter().find(|later| *later > phase && is_reached(*later));
    let beyond = match later {
        _ if facts.is_completed() => Some("the cycle is marked completed".to_owned()),
        later => later.map(|later| format!("`{later}` was reached")),
    };
    let is_done = match phase_facts.status {
        Some(OldStatus::Completed) => true,
        // Generation 1 wrote the key of an output when the phase had ended.
        None => !is_current || beyond.is_some(),
        Some(OldStatus::Pending | OldStatus::InProgress | OldStatus::Failed | OldStatus::Cancelled) => false,
    };
    match (&phase_facts.output, phase_facts.status, beyond) {
        (Some(_), _, _) if is_done => Outcome::Completed,
        (None, Some(OldStatus::Completed), _) => {
            inferred("missing_output", format!("`{phase}` is marked completed, but has no output"))
        }
        (None, _, Some(beyond)) => {
            inferred("missing_output", format!("{beyond}, but `{phase}` has no output"))
        }
        (Some(_), _, Some(beyond)) => {
            inferred("out_of_order", format!("{beyond}, but `{phase}` is not completed"))
        }
        (_, Some(OldStatus::InProgress), None) => Outcome::InProgress,
        (_, None, None) if is_current => Outcome::InProgress,
        (_, _, None) => Outcome::Pending,
    }
}

fn inferred(kind: &'static str, message: String) -> Outcome {
    Outcome::Failed(PhaseFailure { kind, message, error: None, stated: false })
}

fn stated(facts: &Facts, phase: Phase) -> Outcome {
    let phase_facts = facts.phase(phase);
    let is_cancelled =
        [phase_facts.status, facts.status.map(|word| word.status)].contains(&Some(OldStatus::Cancelled));
    let (kind, what) = if is_cancelled { ("cancelled", "was cancelled") } else { ("error", "failed") };
    let error = phase_facts.errors.last().or(facts.error.as_ref()).cloned();
    let message = format!("`{phase}` {what}; the old keys do not say why");
    Outcome::Failed(PhaseFailure { kind, message, error, stated: true })
}

/// The phase that failed according to the keys. If they name several, the first ended the cycle.
fn failed_phase(facts: &Facts) -> Option<Phase> {
    let has_failed = |phase: &Phase| facts.phase(*phase).status.is_some_and(OldStatus::is_failure);
    let own = Phase::ALL.into_iter().find(has_failed);
    if !facts.status.is_some_and(|word| word.status.is_failure()) {
        return own;
    }
    let is_done = |phase: &Phase| {
        let phase_facts = facts.phase(*phase);
        matches!(phase_facts.status, Some(OldStatus::Completed) | None) && phase_facts.output.is_some()
    };
    let unfinished = || Phase::ALL.into_iter().find(|phase| !is_done(phase)).unwrap_or(Phase::Review);
    Some([own, facts.error_phase].into_iter().flatten().min().unwrap_or_else(unfinished))
}
