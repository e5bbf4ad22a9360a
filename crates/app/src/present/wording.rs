//! The names of attempts, checks and conditions in messages.

use protocol::entry::{Author, Entry};
use protocol::run::Change;
use protocol::{AttemptId, ProtocolKind, StepKind};

/// Whether a turn of this kind runs the checks of a step. In protocols with `checks_are_turns`, the agent's work and the
/// checks are two turns of one step.
pub(crate) fn runs_checks(kind: &dyn ProtocolKind, step_kind: StepKind) -> bool {
    kind.info().checks_are_turns && step_kind == StepKind::Command
}

/// Returns the name of an attempt: `code#1.1`, or `checks of code (code#2.1)`.
pub(crate) fn attempt(kind: &dyn ProtocolKind, attempt: &AttemptId, step_kind: StepKind) -> String {
    match runs_checks(kind, step_kind) {
        true => format!("checks of {} ({attempt})", attempt.step),
        false => attempt.to_string(),
    }
}

/// Returns the attempt that the entry ends, and whether an agent, a command or the engine did its work.
pub(crate) fn ended(entry: &Entry) -> Option<(&AttemptId, StepKind)> {
    entry.changes.iter().find_map(|change| match change {
        Change::Ended { attempt, kind, .. } => Some((attempt, *kind)),
        Change::Status { .. }
        | Change::Protocol { .. }
        | Change::Queued { .. }
        | Change::Waiting { .. }
        | Change::Answered { .. }
        | Change::BackoffElapsed { .. }
        | Change::Started { .. }
        | Change::StopRequested { .. }
        | Change::Dequeued { .. } => None,
    })
}

/// Returns the conditions that the engine found to be true. `None` if a person has answered instead.
pub(crate) fn fulfilled_conditions(entry: &Entry) -> Option<&[String]> {
    let is_by_engine = match entry.by {
        Author::Engine { .. } => true,
        Author::Person { .. } | Author::BucketClient { .. } => false,
    };
    let answered = entry.changes.iter().find_map(|change| match change {
        Change::Answered { conditions, .. } => Some(conditions.as_slice()),
        _ => None,
    });
    answered.filter(|conditions| is_by_engine && !conditions.is_empty())
}

/// Returns ``condition `ci` ``, or ``conditions `ci` and `legal` ``.
pub(crate) fn conditions(names: &[String]) -> String {
    let word = if names.len() == 1 { "condition" } else { "conditions" };
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{word} {}", names.join(" and "))
}

/// Returns ``condition `ci` holds``, or ``conditions `ci` and `legal` hold``.
pub(crate) fn conditions_hold(names: &[String]) -> String {
    format!("{} {}", conditions(names), if names.len() == 1 { "holds" } else { "hold" })
}
