//! Recognises which transition of the matrix (the table "Transitions" in `docs/peer.md`) a write is, or why it is none.
//!
//! A write is recognised by the history entry that it appends. From the old document, the entry and the values that
//! the transition may set (an output, an error, unknown fields), [`change`] makes the expected document. A write that
//! differs from it is refused.

mod differences;

use std::fmt;

use serde_json::Value;

use super::change::{self, ChangeError, ReviewFields, UnknownFields};
use super::check::check;
use super::document::InvalidTransition;
use super::document::{
    Context, Document, Event, HistoryEntry, PeerCycleStatus, Phase, PhaseDocument, PhaseStatus,
};
use crate::check::Violation;
use differences::differences;

/// The id of the rule that a write breaks if it changes fields that its transition may not change. It is not
/// among the rules in `docs/peer.md`.
pub(super) const TRANSITION_RULE: &str = "matrix";

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transition {
    /// The document is unchanged.
    Unchanged,
    Initialized,
    /// The first write of a cycle that was migrated from an earlier format.
    Migrated,
    Started(Phase),
    /// `unknown_fields`: unknown fields changed as well.
    Progress {
        phase: Phase,
        unknown_fields: bool,
    },
    Completed(Phase),
    Failed(Phase),
    CycleCompleted,
    /// Only unknown fields changed.
    UnknownFields,
    /// An earlier document was restored.
    Recovered,
}

/// Why a write is refused. Nothing is written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WriteRefusal {
    /// The new document breaks rules.
    #[error("the document would break {} of its rules: {}", .0.len(), .0.first().map_or("", |first| &first.message))]
    Violations(Vec<Violation>),
    #[error(transparent)]
    Invalid(#[from] InvalidTransition),
}

impl WriteRefusal {
    /// The original's word for the error.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Violations(_) => "schema_validation_failed",
            Self::Invalid(_) => "invalid_transition",
        }
    }
}

/// Checks a write: first the new document, then the transition from the old one, which must be valid.
pub fn check_write(old: Option<&Document>, new: &Value) -> Result<(Transition, Document), WriteRefusal> {
    let violations = check(new).violations;
    if !violations.is_empty() {
        return Err(WriteRefusal::Violations(violations));
    }
    let new: Document = serde_json::from_value(new.clone()).expect("BUG: a valid document cannot be parsed");
    Ok((recognise(old, &new)?, new))
}

/// Recognises the transition between two valid documents.
pub fn recognise(old: Option<&Document>, new: &Document) -> Result<Transition, InvalidTransition> {
    let Some(old) = old else { return recognise_first_write(new) };
    if old == new {
        return Ok(Transition::Unchanged);
    }
    let entry = new.history.last().filter(|entry| entry.sequence > old.sequence);
    if entry.is_some_and(|entry| entry.event == Event::Recovered) {
        return recognise_recovery(old, new);
    }
    let expectation = match entry {
        Some(entry) => expect_with_entry(old, new, entry),
        None => Some(expect_without_entry(old, new)),
    };
    let invalid = |violations| InvalidTransition {
        cycle_id: old.cycle_id.clone(),
        from: Some(old.status_with_phase()),
        to: new.status_with_phase(),
        violations,
    };
    let (transition, expected) = match expectation {
        None => return Err(invalid(Vec::new())),
        Some(Err(ChangeError::Invalid(error))) => {
            return Err(InvalidTransition { to: new.status_with_phase(), ..error });
        }
        Some(Err(ChangeError::Output { violations, .. })) => return Err(invalid(violations)),
        Some(Err(error @ ChangeError::Reuse { phase, .. })) => {
            return Err(invalid(vec![differences::not_reusable(phase, &error)]));
        }
        Some(Ok(recognised)) => recognised,
    };
    let differences = differences(&expected, new);
    if differences.is_empty() { Ok(transition) } else { Err(invalid(differences)) }
}

/// The transition that a write seems to be, and the document that this transition would make.
type Expectation = Result<(Transition, Document), ChangeError>;

/// The expected result of a write with this entry; `None` if no transition has such an entry.
fn expect_with_entry(old: &Document, new: &Document, entry: &HistoryEntry) -> Option<Expectation> {
    let expectation = match (&entry.event, entry.phase) {
        (Event::Started, Some(phase)) => {
            let reused_from = new.phases[phase].reused_from.clone();
            change::start_or_reuse(old, phase, reused_from, new.metadata.updated_at)
                .map(|expected| (Transition::Started(phase), expected))
        }
        (Event::Progress, Some(phase)) => expect_progress(old, new, phase),
        (Event::Progress, None) => {
            let expected = change::set_unknown_fields(old, UnknownFields::of(new), new.metadata.updated_at);
            Ok((Transition::UnknownFields, expected))
        }
        (Event::Completed, Some(phase)) => {
            expect_completion(old, new, phase).map(|expected| (Transition::Completed(phase), expected))
        }
        (Event::Completed, None) => change::complete_cycle(old, new.metadata.updated_at)
            .map(|expected| (Transition::CycleCompleted, expected)),
        (Event::Failed, Some(phase)) => {
            let error = new.phases[phase].errors().last()?.clone();
            change::fail_with(old, phase, error, new.metadata.updated_at)
                .map(|expected| (Transition::Failed(phase), expected))
        }
        (Event::Started | Event::Failed, None)
        | (Event::Initialized | Event::Migrated | Event::Recovered | Event::Compacted | Event::Other(_), _) =>
        {
            return None;
        }
    };
    Some(expectation.map(|(transition, mut expected)| {
        // The entry may have unknown fields, such as the author.
        if let Some(last) = expected.history.last_mut() {
            last.unknown.clone_from(&entry.unknown);
        }
        (transition, expected)
    }))
}

/// The expected result of a write without a history entry: progress, as in the original's example, or unknown
/// fields.
fn expect_without_entry(old: &Document, new: &Document) -> Expectation {
    let has_changed = |phase: Phase| {
        let (before, after) = (&old.phases[phase], &new.phases[phase]);
        before.output != after.output || before.errors != after.errors
    };
    let expectation = match old.phases.find(PhaseStatus::InProgress).filter(|phase| has_changed(*phase)) {
        Some(phase) => expect_progress(old, new, phase),
        None => Ok((
            Transition::UnknownFields,
            change::set_unknown_fields(old, UnknownFields::of(new), new.metadata.updated_at),
        )),
    };
    expectation.map(|(transition, mut expected)| {
        expected.history.pop();
        (transition, expected)
    })
}

fn expect_progress(old: &Document, new: &Document, phase: Phase) -> Expectation {
    let (before, after) = (&old.phases[phase], &new.phases[phase]);
    // Errors of failed attempts may be added, but not changed or removed.
    let errors = if after.errors().starts_with(before.errors()) { &after.errors } else { &before.errors };
    let at = new.metadata.updated_at;
    let mut expected = change::update_phase(old, phase, after.output.clone(), errors.clone(), at)?;
    let fields = UnknownFields::of(new);
    let changed = fields != UnknownFields::of(old);
    fields.put(&mut expected);
    Ok((Transition::Progress { phase, unknown_fields: changed }, expected))
}

fn expect_completion(old: &Document, new: &Document, phase: Phase) -> Result<Document, ChangeError> {
    let output = new.phases[phase].output.clone().unwrap_or_default();
    let at = new.metadata.updated_at;
    match phase {
        Phase::Plan | Phase::Execute | Phase::Express => change::complete(old, phase, output, at),
        Phase::Review => {
            let added = |old: &Option<Value>, new: &Option<Value>| new.clone().filter(|_| old != new);
            let fields = ReviewFields {
                cycle_summary: added(&old.cycle_summary, &new.cycle_summary),
                insights: added(&old.insights, &new.insights),
            };
            change::complete_review(old, output, fields, at)
        }
    }
}

/// Recognises the first write of a document: a new cycle, or a migrated one.
fn recognise_first_write(new: &Document) -> Result<Transition, InvalidTransition> {
    let migrated = new.history.last().is_some_and(|entry| entry.event == Event::Migrated);
    let mut expected = new.clone();
    if migrated {
        for (entry, sequence) in expected.history.iter_mut().zip(1..) {
            entry.sequence = sequence;
        }
        expected.sequence = expected.history.len() as u64;
    } else {
        expected.sequence = 1;
        expected.metadata.updated_at = new.metadata.created_at;
        expected.metadata.status = PeerCycleStatus::Initialized;
        expected.metadata.current_phase = Phase::Plan;
        for phase in Phase::ALL {
            let unknown = new.phases[phase].unknown.clone();
            expected.phases[phase] = PhaseDocument { unknown, ..PhaseDocument::pending() };
        }
        let unknown = new.history.first().map(|entry| entry.unknown.clone()).unwrap_or_default();
        let entry = HistoryEntry::new(new.metadata.created_at, None, Event::Initialized, 1);
        expected.history = vec![HistoryEntry { unknown, ..entry }];
        (expected.cycle_summary, expected.insights) = (None, None);
    }
    let violations = differences(&expected, new);
    if violations.is_empty() {
        return Ok(if migrated { Transition::Migrated } else { Transition::Initialized });
    }
    Err(InvalidTransition {
        cycle_id: new.cycle_id.clone(),
        from: None,
        to: new.status_with_phase(),
        violations,
    })
}

/// Recognises a recovery: it must keep the cycle, and its history must agree with the old one as far as both go. Which
/// document is restored is the store's decision.
fn recognise_recovery(old: &Document, new: &Document) -> Result<Transition, InvalidTransition> {
    let mut expected = new.clone();
    expected.cycle_id.clone_from(&old.cycle_id);
    expected.metadata.instruction.clone_from(&old.metadata.instruction);
    expected.metadata.created_at = old.metadata.created_at;
    expected.metadata.updated_at = new.metadata.updated_at.max(old.metadata.updated_at);
    expected.context = Context { unknown: new.context.unknown.clone(), ..old.context.clone() };
    expected.sequence = new.sequence.max(old.sequence + 1);
    if let Some((last, before)) = expected.history.split_last_mut() {
        (last.phase, last.timestamp, last.sequence) = (None, expected.metadata.updated_at, expected.sequence);
        let common = before.len().min(old.history.len());
        before[..common].clone_from_slice(&old.history[..common]);
    }
    let violations = differences(&expected, new);
    if violations.is_empty() {
        return Ok(Transition::Recovered);
    }
    let (cycle_id, from) = (old.cycle_id.clone(), Some(old.status_with_phase()));
    Err(InvalidTransition { cycle_id, from, to: new.status_with_phase(), violations })
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unchanged => f.write_str("unchanged"),
            Self::Initialized => f.write_str("initialized"),
            Self::Migrated => f.write_str("migrated"),
            Self::Started(phase) => write!(f, "{phase} started"),
            Self::Progress { phase, .. } => write!(f, "{phase} progress"),
            Self::Completed(phase) => write!(f, "{phase} completed"),
            Self::Failed(phase) => write!(f, "{phase} failed"),
            Self::CycleCompleted => f.write_str("cycle completed"),
            Self::UnknownFields => f.write_str("unknown fields"),
            Self::Recovered => f.write_str("recovered"),
        }
    }
}
