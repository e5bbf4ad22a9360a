//! Imports a document: determines the state of a run that starts with it.

use serde_json::Value;

use super::check::check;
use super::decide::{self, Change, State};
use super::definition::Definition;
use super::document::{Document, Phase, StatusWithPhase};
use super::names::MAX_SAFE_INTEGER;
use super::output;
use crate::protocol_trait::{ImportRefusal, Move};

/// Imports a document. Fails if it breaks rules, is about another cycle, or has a sequence that cannot grow any further.
pub(super) fn import(
    definition: &Definition,
    document: &Value,
) -> Result<Move<Change, Phase>, ImportRefusal> {
    let violations = check(document).violations;
    if !violations.is_empty() {
        return Err(ImportRefusal::Invalid(violations));
    }
    let document: Document =
        serde_json::from_value(document.clone()).expect("BUG: a valid document cannot be parsed");
    if document.cycle_id != definition.cycle {
        return Err(ImportRefusal::Unusable(format!("it is about cycle `{}`", document.cycle_id)));
    }
    if document.sequence > MAX_SAFE_INTEGER - RESERVED_WRITES {
        return Err(ImportRefusal::SequenceExhausted(document.sequence));
    }
    Ok(decide::import(state_of(&document)))
}

/// More writes than any cycle makes.
const RESERVED_WRITES: u64 = 1 << 40;

/// The state of a cycle with this document. A phase in progress has no attempt here: it is run again, with its output so far.
pub(super) fn state_of(document: &Document) -> State {
    let output = |phase| document.phases[phase].output.clone().unwrap_or_default();
    let success = || {
        let summary = document.cycle_summary.as_ref();
        output::succeeded(&output(Phase::Execute), &output(Phase::Review), summary)
    };
    match document.status_with_phase() {
        StatusWithPhase::Initialized => State::Ready(Phase::Plan),
        StatusWithPhase::InProgress(phase) => State::Ready(phase),
        StatusWithPhase::PhaseCompleted(phase) => match phase.next() {
            Some(next) => State::Ready(next),
            None => State::Reviewed { success: success() },
        },
        StatusWithPhase::Completed => State::Closed { success: success() },
        StatusWithPhase::Failed(phase) => State::Failed(phase),
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::{Mode, change};
    use super::*;
    use crate::Timestamp;

    #[test]
    fn a_document_at_the_highest_sequence_is_refused() {
        let definition = Definition {
            cycle: "peer:global:cycle:1".parse().unwrap(),
            instruction: "plan-product".to_owned(),
            mode: Mode::New,
            instruction_args: String::new(),
            user_requirements: String::new(),
            continues: None,
            earlier_review: None,
            max_attempts: NonZeroU32::MIN,
            timeout: None,
            prompts: std::collections::BTreeMap::new(),
        };
        let mut document = change::initialise(definition.new_cycle(), Timestamp::from_micros(0).into());
        assert!(import(&definition, &document.to_value()).is_ok());
        document.sequence = MAX_SAFE_INTEGER;
        let refused = import(&definition, &document.to_value()).unwrap_err();
        assert_eq!(refused, ImportRefusal::SequenceExhausted(MAX_SAFE_INTEGER));
    }
}
