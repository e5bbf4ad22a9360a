//! A foreign document → a run: where a cycle stands that was begun elsewhere.

use serde_json::Value;

use super::check::check;
use super::decide::{self, Change, State};
use super::definition::Definition;
use super::document::{Document, Phase};
use super::output;
use super::position::Position;
use crate::rules::{Move, Unadoptable};

pub(super) fn adopt(definition: &Definition, document: &Value) -> Result<Move<Change, Phase>, Unadoptable> {
    let violations = check(document).violations;
    if !violations.is_empty() {
        return Err(Unadoptable::Broken(violations));
    }
    let document: Document =
        serde_json::from_value(document.clone()).expect("BUG: a document that keeps the rules can be read");
    if document.cycle_id != definition.cycle {
        return Err(Unadoptable::OtherSeats(format!("it is about cycle `{}`", document.cycle_id)));
    }
    Ok(decide::stands(stands(&document)))
}

/// Where the cycle stands. A phase in progress has nobody at work: it is asked again, and goes on with what it has.
pub(super) fn stands(document: &Document) -> State {
    let output = |phase| document.phases[phase].output.clone().unwrap_or_default();
    let success = || {
        let summary = document.cycle_summary.as_ref();
        output::succeeded(&output(Phase::Execute), &output(Phase::Review), summary)
    };
    match document.position() {
        Position::Initialized => State::Before(Phase::Plan),
        Position::Working(phase) => State::Before(phase),
        Position::Resting(phase) => match phase.next() {
            Some(next) => State::Before(next),
            None => State::Reviewed { success: success() },
        },
        Position::Completed => State::Closed { success: success() },
        Position::Failed(phase) => State::Failed(phase),
    }
}
