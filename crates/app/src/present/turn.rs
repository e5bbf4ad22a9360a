//! What the turns of a step are called: an attempt of its agent, its checks, its conditions.

use protocol::entry::{Author, Entry};
use protocol::run::Change;
use protocol::{AttemptId, Kind, StepKind};

/// Returns whether the turn runs the checks of a step on which an agent works, too.
pub(crate) fn is_checks(kind: &dyn Kind, of: StepKind) -> bool {
    kind.info().checks_follow && of == StepKind::Command
}

/// Returns the name of an attempt: `code#1.1`, or `checks of code (code#2.1)`.
pub(crate) fn attempt(kind: &dyn Kind, attempt: &AttemptId, of: StepKind) -> String {
    match is_checks(kind, of) {
        true => format!("checks of {} ({attempt})", attempt.step),
        false => attempt.to_string(),
    }
}

/// Returns the attempt that the entry ends, and what worked in its turn.
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

/// Returns the conditions that the entry says to hold. A person may have answered for them instead.
pub(crate) fn fulfilled(entry: &Entry) -> Option<&[String]> {
    let by_file = match entry.by {
        Author::Engine { .. } => true,
        Author::Person { .. } | Author::Client { .. } => false,
    };
    let answered = entry.changes.iter().find_map(|change| match change {
        Change::Answered { conditions, .. } => Some(conditions.as_slice()),
        _ => None,
    });
    answered.filter(|conditions| by_file && !conditions.is_empty())
}

/// Returns ``condition `ci` ``, or ``conditions `ci` and `legal` ``.
pub(crate) fn conditions(names: &[String]) -> String {
    let word = if names.len() == 1 { "condition" } else { "conditions" };
    let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{word} {}", names.join(" and "))
}

/// Returns ``condition `ci` holds``, or ``conditions `ci` and `legal` hold``.
pub(crate) fn hold(names: &[String]) -> String {
    format!("{} {}", conditions(names), if names.len() == 1 { "holds" } else { "hold" })
}
