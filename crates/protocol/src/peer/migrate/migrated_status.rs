//! Decides from the old keys of a cycle how far each phase got. The first phase that is not completed gives the status
//! of the cycle.

use serde_json::Value;

use super::read::{OldCycle, OldPhase};
use super::status::OldStatus;
use crate::peer::document::Phase;

/// The status that a phase gets in the migrated document: how far it got.
#[derive(Debug)]
pub(super) enum MigratedStatus {
    Completed,
    InProgress,
    Pending,
    Failed(PhaseFailure),
}

/// How a phase failed.
#[derive(Debug)]
pub(super) struct PhaseFailure {
    pub(super) kind: &'static str,
    /// Used if no key has an error.
    pub(super) message: String,
    /// The error that a key has.
    pub(super) error: Option<Value>,
    /// Whether a key says that the phase failed. Otherwise it follows from a missing output.
    pub(super) stated: bool,
}

/// Decides about a phase whose predecessors are all completed.
pub(super) fn migrated_status(old: &OldCycle, phase: Phase) -> MigratedStatus {
    let old_phase = old.phase(phase);
    if let Some(key) = &old.unreadable
        && old.status.is_none()
        && !old.phases.iter().any(OldPhase::has_started)
    {
        return inferred_failure(
            "unreadable",
            format!("`{key}` is not a document, and no other key describes the cycle"),
        );
    }
    let failed = failed_phase(old);
    if failed == Some(phase) {
        return stated_failure(old, phase);
    }
    let is_running = old.status.is_some_and(|parsed| parsed.status == OldStatus::InProgress);
    let current_phase =
        old.status.and_then(|parsed| parsed.phase).or(old.current_phase).filter(|_| is_running);
    let is_current = is_running && current_phase.unwrap_or(Phase::Plan) == phase;
    let is_reached =
        |later: Phase| old.phase(later).has_started() || [failed, current_phase].contains(&Some(later));
    let later = Phase::ALL.into_iter().find(|later| *later > phase && is_reached(*later));
    // Why the phase must have ended; `None` if nothing shows that it has.
    let why_ended = match later {
        _ if old.is_completed() => Some("the cycle is marked completed".to_owned()),
        later => later.map(|later| format!("`{later}` was reached")),
    };
    let is_done = match old_phase.status {
        Some(OldStatus::Completed) => true,
        // The format with one key per value (generation 1) wrote the key of an output when the phase had ended.
        None => !is_current || why_ended.is_some(),
        Some(OldStatus::Pending | OldStatus::InProgress | OldStatus::Failed | OldStatus::Cancelled) => false,
    };
    match (&old_phase.output, old_phase.status, why_ended) {
        (Some(_), _, _) if is_done => MigratedStatus::Completed,
        (None, Some(OldStatus::Completed), _) => {
            inferred_failure("missing_output", format!("`{phase}` is marked completed, but has no output"))
        }
        (None, _, Some(why_ended)) => {
            inferred_failure("missing_output", format!("{why_ended}, but `{phase}` has no output"))
        }
        (Some(_), _, Some(why_ended)) => {
            inferred_failure("out_of_order", format!("{why_ended}, but `{phase}` is not completed"))
        }
        (_, Some(OldStatus::InProgress), None) => MigratedStatus::InProgress,
        (_, None, None) if is_current => MigratedStatus::InProgress,
        (_, _, None) => MigratedStatus::Pending,
    }
}

/// A failure that no key states.
fn inferred_failure(kind: &'static str, message: String) -> MigratedStatus {
    MigratedStatus::Failed(PhaseFailure { kind, message, error: None, stated: false })
}

/// A failure that a key states.
fn stated_failure(old: &OldCycle, phase: Phase) -> MigratedStatus {
    let old_phase = old.phase(phase);
    let is_cancelled =
        [old_phase.status, old.status.map(|parsed| parsed.status)].contains(&Some(OldStatus::Cancelled));
    let (kind, what) = if is_cancelled { ("cancelled", "was cancelled") } else { ("error", "failed") };
    let error = old_phase.errors.last().or(old.error.as_ref()).cloned();
    let message = format!("`{phase}` {what}; the old keys do not say why");
    MigratedStatus::Failed(PhaseFailure { kind, message, error, stated: true })
}

/// The phase that failed according to the keys. If they name several, the first ended the cycle.
fn failed_phase(old: &OldCycle) -> Option<Phase> {
    let has_failed = |phase: &Phase| old.phase(*phase).status.is_some_and(OldStatus::is_failure);
    let by_phase_status = Phase::ALL.into_iter().find(has_failed);
    if !old.status.is_some_and(|parsed| parsed.status.is_failure()) {
        return by_phase_status;
    }
    let is_done = |phase: &Phase| {
        let old_phase = old.phase(*phase);
        matches!(old_phase.status, Some(OldStatus::Completed) | None) && old_phase.output.is_some()
    };
    let unfinished = || Phase::ALL.into_iter().find(|phase| !is_done(phase)).unwrap_or(Phase::Review);
    Some([by_phase_status, old.error_phase].into_iter().flatten().min().unwrap_or_else(unfinished))
}
