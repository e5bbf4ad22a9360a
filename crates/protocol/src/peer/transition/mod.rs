//! Any write, old → new: which transition of the seed's matrix it is, or why it is none.
//!
//! A write is recognised by the history entry it appends. From that, and from what such a transition may bring along (an
//! output, an error, foreign fields), the new document is [made again](super::change) and compared: whatever differs, the
//! transition may not touch.

mod differences;

use std::fmt;

use serde_json::Value;

use super::change::{self, ChangeError, Closing, Foreign};
use super::check::check;
use super::document::InvalidTransition;
use super::document::{CycleStatus, Document, Event, HistoryEntry, Phase, PhaseDocument, PhaseStatus};
use crate::check::Violation;
use differences::differences;

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Nothing at all: the document stays as it is.
    Unchanged,
    Initialized,
    /// A document of an older format, entered under its new key.
    Migrated,
    Started(Phase),
    /// `foreign`: fields that the seed does not know changed as well.
    Progress {
        phase: Phase,
        foreign: bool,
    },
    Completed(Phase),
    Failed(Phase),
    CycleCompleted,
    /// Only fields that the seed does not know.
    Foreign,
    /// Old progress in the history became one entry.
    Compacted,
    /// An earlier document was put back.
    Recovered,
}

/// Why a write is refused. Nothing is written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The new document breaks rules, whatever was there before.
    #[error("the document would break {} of its rules: {}", .0.len(), .0.first().map_or("", |first| &first.message))]
    Violations(Vec<Violation>),
    #[error(transparent)]
    Invalid(#[from] InvalidTransition),
}

impl Refusal {
    /// The seed's word for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Violations(_) => "schema_validation_failed",
            Self::Invalid(_) => "invalid_transition",
        }
    }
}

/// Checks a write from anywhere: the new document for itself, then the step from the old one, which is known to be valid.
pub fn check_write(old: Option<&Document>, new: &Value) -> Result<(Transition, Document), Refusal> {
    let violations = check(new).violations;
    if !violations.is_empty() {
        return Err(Refusal::Violations(violations));
    }
    let new: Document =
        serde_json::from_value(new.clone()).expect("BUG: a document that keeps the rules can be read");
    Ok((recognise(old, &new)?, new))
}

/// Recognises the step between two documents that keep the rules.
pub fn recognise(old: Option<&Document>, new: &Document) -> Result<Transition, InvalidTransition> {
    let Some(old) = old else { return opened(new) };
    if old == new {
        return Ok(Transition::Unchanged);
    }
    let entry = new.history.last().filter(|entry| entry.sequence > old.sequence);
    if entry.is_some_and(|entry| entry.event == Event::Recovered) {
        return recovered(old, new);
    }
    let attempt = match entry {
        Some(entry) => with_entry(old, new, entry),
        None => Some(without_entry(old, new)),
    };
    let no_way = |because| InvalidTransition {
        cycle_id: old.cycle_id.clone(),
        from: Some(old.position()),
        to: new.position(),
        because,
    };
    let (transition, expected) = match attempt {
        None => return Err(no_way(Vec::new())),
        Some(Err(ChangeError::Invalid(invalid))) => {
            return Err(InvalidTransition { to: new.position(), ..invalid });
        }
        Some(Err(ChangeError::Output { violations, .. })) => return Err(no_way(violations)),
        Some(Err(error @ ChangeError::Reuse { phase, .. })) => {
            return Err(no_way(vec![differences::not_reusable(phase, &error)]));
        }
        Some(Ok(recognised)) => recognised,
    };
    let differences = differences(&expected, new);
    if differences.is_empty() { Ok(transition) } else { Err(no_way(differences)) }
}

type Attempt = Result<(Transition, Document), ChangeError>;

/// What the write should be, by its own entry; none if no transition has such an entry.
fn with_entry(old: &Document, new: &Document, entry: &HistoryEntry) -> Option<Attempt> {
    let attempt = match (&entry.event, entry.phase) {
        (Event::Started, Some(phase)) => {
            let reused_from = new.phases[phase].reused_from.clone();
            change::start_as(old, phase, reused_from, new.metadata.updated_at)
                .map(|expected| (Transition::Started(phase), expected))
        }
        (Event::Progress, Some(phase)) => progressed(old, new, phase),
        (Event::Progress, None) => {
            let expected = change::set_foreign(old, Foreign::of(new), new.metadata.updated_at);
            Ok((Transition::Foreign, expected))
        }
        (Event::Completed, Some(phase)) => {
            completed(old, new, phase).map(|expected| (Transition::Completed(phase), expected))
        }
        (Event::Completed, None) => change::complete_cycle(old, new.metadata.updated_at)
            .map(|expected| (Transition::CycleCompleted, expected)),
        (Event::Failed, Some(phase)) => {
            let error = new.phases[phase].errors().last()?.clone();
            change::fail_with(old, phase, error, new.metadata.updated_at)
                .map(|expected| (Transition::Failed(phase), expected))
        }
        (Event::Compacted, None) => {
            let number = |name: &str| entry.unknown.get(name).and_then(Value::as_u64);
            change::compact(old, number("from")?, number("to")?, new.metadata.updated_at)
                .map(|expected| (Transition::Compacted, expected))
        }
        (Event::Started | Event::Failed, None)
        | (Event::Compacted, Some(_))
        | (Event::Initialized | Event::Migrated | Event::Recovered | Event::Other(_), _) => return None,
    };
    Some(attempt.map(|(transition, mut expected)| {
        // The entry is this write's own: it may say more than we know of, such as who wrote.
        if let Some(own) = expected.history.last_mut() {
            own.unknown.clone_from(&entry.unknown);
        }
        (transition, expected)
    }))
}

/// Progress without an entry of its own, as the seed's example has it; with one we would leave no gap.
fn without_entry(old: &Document, new: &Document) -> Attempt {
    let working = |phase: Phase| {
        let (before, after) = (&old.phases[phase], &new.phases[phase]);
        before.output != after.output || before.errors != after.errors
    };
    let attempt = match old.phases.find(PhaseStatus::InProgress).filter(|phase| working(*phase)) {
        Some(phase) => progressed(old, new, phase),
        None => {
            Ok((Transition::Foreign, change::set_foreign(old, Foreign::of(new), new.metadata.updated_at)))
        }
    };
    attempt.map(|(transition, mut expected)| {
        expected.history.pop();
        (transition, expected)
    })
}

fn progressed(old: &Document, new: &Document, phase: Phase) -> Attempt {
    let (before, after) = (&old.phases[phase], &new.phases[phase]);
    // Failed tries are evidence: they may become more, never others.
    let errors = if after.errors().starts_with(before.errors()) { &after.errors } else { &before.errors };
    let at = new.metadata.updated_at;
    let mut expected = change::touch(old, phase, after.output.clone(), errors.clone(), at)?;
    let foreign = Foreign::of(new);
    let changed = foreign != Foreign::of(old);
    foreign.put(&mut expected);
    Ok((Transition::Progress { phase, foreign: changed }, expected))
}

fn completed(old: &Document, new: &Document, phase: Phase) -> Result<Document, ChangeError> {
    let output = new.phases[phase].output.clone().unwrap_or_default();
    let at = new.metadata.updated_at;
    match phase {
        Phase::Plan | Phase::Execute | Phase::Express => change::complete(old, phase, output, at),
        Phase::Review => {
            let added = |old: &Option<Value>, new: &Option<Value>| new.clone().filter(|_| old != new);
            let closing = Closing {
                cycle_summary: added(&old.cycle_summary, &new.cycle_summary),
                insights: added(&old.insights, &new.insights),
            };
            change::complete_review(old, output, closing, at)
        }
    }
}

/// The first write of a document: a new cycle, or one of an older format.
fn opened(new: &Document) -> Result<Transition, InvalidTransition> {
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
        expected.metadata.status = CycleStatus::Initialized;
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
    let because = differences(&expected, new);
    if because.is_empty() {
        return Ok(if migrated { Transition::Migrated } else { Transition::Initialized });
    }
    Err(InvalidTransition { cycle_id: new.cycle_id.clone(), from: None, to: new.position(), because })
}

/// A recovery puts back what was, as far as it is known: the same cycle, and a history that neither rewrites ours nor is
/// rewritten by it. Which document it took, only whoever holds the store can judge.
fn recovered(old: &Document, new: &Document) -> Result<Transition, InvalidTransition> {
    let mut expected = new.clone();
    expected.cycle_id.clone_from(&old.cycle_id);
    expected.metadata.instruction.clone_from(&old.metadata.instruction);
    expected.metadata.created_at = old.metadata.created_at;
    expected.metadata.updated_at = new.metadata.updated_at.max(old.metadata.updated_at);
    expected.context =
        super::document::Context { unknown: new.context.unknown.clone(), ..old.context.clone() };
    expected.sequence = new.sequence.max(old.sequence + 1);
    if let Some((own, before)) = expected.history.split_last_mut() {
        (own.phase, own.timestamp, own.sequence) = (None, expected.metadata.updated_at, expected.sequence);
        let common = before.len().min(old.history.len());
        before[..common].clone_from_slice(&old.history[..common]);
    }
    let because = differences(&expected, new);
    if because.is_empty() {
        return Ok(Transition::Recovered);
    }
    let (cycle_id, from) = (old.cycle_id.clone(), Some(old.position()));
    Err(InvalidTransition { cycle_id, from, to: new.position(), because })
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
            Self::Foreign => f.write_str("foreign fields"),
            Self::Compacted => f.write_str("compacted"),
            Self::Recovered => f.write_str("recovered"),
        }
    }
}
