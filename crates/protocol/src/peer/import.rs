//! A foreign document → a run: where a cycle stands that was begun elsewhere.

use serde_json::Value;

use super::check::check;
use super::decide::{self, Change, State};
use super::definition::Definition;
use super::document::Position;
use super::document::{Document, Phase};
use super::names::LARGEST;
use super::output;
use crate::rules::{Move, NotImportable};

pub(super) fn import(
    definition: &Definition,
    document: &Value,
) -> Result<Move<Change, Phase>, NotImportable> {
    let violations = check(document).violations;
    if !violations.is_empty() {
        return Err(NotImportable::Broken(violations));
    }
    let document: Document =
        serde_json::from_value(document.clone()).expect("BUG: a document that keeps the rules can be read");
    if document.cycle_id != definition.cycle {
        return Err(NotImportable::OtherSteps(format!("it is about cycle `{}`", document.cycle_id)));
    }
    if document.sequence > LARGEST - ROOM {
        return Err(NotImportable::NoRoom(document.sequence));
    }
    Ok(decide::stands(stands(&document)))
}

/// More writes than any cycle has.
const ROOM: u64 = 1 << 40;

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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::{Mode, change};
    use super::*;
    use crate::Stamp;

    #[test]
    fn a_document_that_could_not_be_written_once_more_is_not_taken_over() {
        let definition = Definition {
            cycle: "peer:global:cycle:1".parse().unwrap(),
            instruction: "plan-product".to_owned(),
            mode: Mode::New,
            instruction_args: String::new(),
            user_requirements: String::new(),
            continues: None,
            advice: None,
            max_attempts: NonZeroU32::MIN,
            timeout: None,
        };
        let mut document = change::initialise(definition.opening(), Stamp::from_micros(0).into());
        assert!(import(&definition, &document.to_value()).is_ok());
        document.sequence = LARGEST;
        let refused = import(&definition, &document.to_value()).unwrap_err().to_string();
        assert!(refused.contains("leaves no room"), "{refused}");
    }
}
