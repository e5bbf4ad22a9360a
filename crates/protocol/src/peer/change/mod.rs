//! The changes of a cycle's document: old → new, one write each.
//!
//! Every write adds one to `sequence`, stamps `updated_at`, and appends one entry to the history that carries the new
//! number. What is not in the seed's matrix is refused. What comes out keeps all rules, and
//! [`transition`](super::transition) recognises it.

mod compact;
mod unknown_fields;

use serde_json::{Map, Value};

use super::document::{
    Context, CycleStatus, Document, Event, HistoryEntry, Metadata, Mode, Phase, PhaseError, PhaseStatus,
    Phases, Second, Unknown, VERSION,
};
use super::document::{InvalidTransition, Position};
use super::names::CycleId;
use super::output;
use crate::check::Violation;
pub use compact::compact;
pub use unknown_fields::{Foreign, set_foreign};

/// What a cycle is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    pub cycle: CycleId,
    pub instruction: String,
    pub mode: Mode,
    pub instruction_args: String,
    /// Verbatim.
    pub user_requirements: String,
    /// The failed cycle that this one goes on with.
    pub continues: Option<CycleId>,
}

/// What went wrong, without its time: that is the write's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A word for programs, such as `timeout` or `cancelled`.
    pub kind: String,
    pub message: String,
}

/// What a review adds at the document's root.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Closing {
    pub cycle_summary: Option<Value>,
    pub insights: Option<Value>,
}

/// Why a document cannot be changed so.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Invalid(#[from] InvalidTransition),
    /// Pointers begin at the document.
    #[error("what `{phase}` produced will not do: {}", .violations.first().map_or("", |first| &first.message))]
    Output { phase: Phase, violations: Vec<Violation> },
    #[error("`{phase}` cannot be taken over from `{from}`: {because}")]
    Reuse { phase: Phase, from: CycleId, because: NotReusable },
}

/// Why a phase cannot be taken over from an earlier cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotReusable {
    #[error("this cycle does not continue it")]
    NotContinued,
    #[error("it was not completed there")]
    NotCompleted,
}

/// A new cycle, before its first phase.
pub fn initialise(opening: Opening, at: Second) -> Document {
    let Opening { cycle, instruction, mode, instruction_args, user_requirements, continues } = opening;
    let spec_name = cycle.scope.spec().cloned();
    Document {
        version: VERSION,
        sequence: 1,
        metadata: Metadata {
            instruction,
            spec_name: spec_name.clone(),
            key_prefix: cycle.scope.clone(),
            cycle_number: cycle.number,
            created_at: at,
            updated_at: at,
            status: CycleStatus::Initialized,
            current_phase: Phase::Plan,
            unknown: Unknown::new(),
        },
        context: Context {
            peer_mode: mode,
            spec_aware: spec_name.is_some(),
            instruction_args,
            user_requirements,
            continues,
            unknown: Unknown::new(),
        },
        phases: Phases::pending(),
        history: vec![HistoryEntry::new(at, None, Event::Initialized, 1)],
        cycle_summary: None,
        insights: None,
        unknown: Unknown::new(),
        cycle_id: cycle,
    }
}

/// Starts a phase: the first, or the one after the phase that was completed last.
pub fn start(old: &Document, phase: Phase, at: Second) -> Result<Document, ChangeError> {
    start_as(old, phase, None, at)
}

/// The same, for a phase that will not run if its output comes from another cycle.
pub(super) fn start_as(
    old: &Document,
    phase: Phase,
    reused_from: Option<CycleId>,
    at: Second,
) -> Result<Document, ChangeError> {
    if old.position().startable() != Some(phase) {
        return Err(no_way(old, Position::Working(phase)));
    }
    if let Some(from) = reused_from.clone().filter(|from| old.context.continues.as_ref() != Some(from)) {
        return Err(ChangeError::Reuse { phase, from, because: NotReusable::NotContinued });
    }
    let (mut new, at) = written(old, at, Some(phase), Event::Started);
    new.metadata.status = CycleStatus::InProgress;
    new.metadata.current_phase = phase;
    let sequence = new.sequence;
    let shown = &mut new.phases[phase];
    shown.status = PhaseStatus::InProgress;
    shown.started_at = Some(at);
    shown.sequence_at_start = Some(sequence);
    // There from the start, so that a JSON patch has something to add to.
    shown.output.get_or_insert_with(|| Value::Object(Map::new()));
    shown.errors.get_or_insert_default();
    shown.reused_from = reused_from;
    Ok(new)
}

/// Notes how far the phase in progress is.
pub fn progress(old: &Document, phase: Phase, output: Value, at: Second) -> Result<Document, ChangeError> {
    touch(old, phase, Some(output), old.phases[phase].errors.clone(), at)
}

/// Notes that an attempt of the phase in progress failed; there will be another.
pub fn fail_attempt(old: &Document, phase: Phase, fault: Fault, at: Second) -> Result<Document, ChangeError> {
    let shown = &old.phases[phase];
    let mut errors = shown.errors().to_vec();
    errors.push(fault.at(at.max(old.metadata.updated_at)));
    touch(old, phase, shown.output.clone(), Some(errors), at)
}

pub(super) fn touch(
    old: &Document,
    phase: Phase,
    output: Option<Value>,
    errors: Option<Vec<PhaseError>>,
    at: Second,
) -> Result<Document, ChangeError> {
    if old.position() != Position::Working(phase) {
        return Err(no_way(old, Position::Working(phase)));
    }
    let (mut new, _) = written(old, at, Some(phase), Event::Progress);
    new.phases[phase].output = output;
    new.phases[phase].errors = errors;
    Ok(new)
}

/// Ends the cycle because of a fault: in the phase in progress, else in the first that is not completed, which then never
/// starts.
pub fn fail(old: &Document, phase: Phase, fault: Fault, at: Second) -> Result<Document, ChangeError> {
    fail_with(old, phase, fault.at(at), at)
}

pub(super) fn fail_with(
    old: &Document,
    phase: Phase,
    error: PhaseError,
    at: Second,
) -> Result<Document, ChangeError> {
    if old.position().failable() != Some(phase) {
        return Err(no_way(old, Position::Failed(phase)));
    }
    let (mut new, at) = written(old, at, Some(phase), Event::Failed);
    new.metadata.status = CycleStatus::Failed;
    new.phases[phase].status = PhaseStatus::Failed;
    new.phases[phase].errors.get_or_insert_default().push(PhaseError { timestamp: at, ..error });
    Ok(new)
}

/// Completes the phase in progress with what it has produced.
pub fn complete(old: &Document, phase: Phase, output: Value, at: Second) -> Result<Document, ChangeError> {
    if old.position() != Position::Working(phase) {
        return Err(no_way(old, Position::Resting(phase)));
    }
    fits(phase, &format!("/phases/{phase}/output"), output::verify(phase, &output))?;
    let (mut new, at) = written(old, at, Some(phase), Event::Completed);
    let sequence = new.sequence;
    let shown = &mut new.phases[phase];
    shown.status = PhaseStatus::Completed;
    shown.completed_at = Some(at);
    shown.sequence_at_complete = Some(sequence);
    shown.output = Some(output);
    Ok(new)
}

/// Completes the review, with what it adds at the root.
pub fn complete_review(
    old: &Document,
    output: Value,
    closing: Closing,
    at: Second,
) -> Result<Document, ChangeError> {
    let phase = Phase::Review;
    let mut new = complete(old, phase, output, at)?;
    if let Some(summary) = closing.cycle_summary {
        fits(phase, "/cycle_summary", output::verify_summary(&summary))?;
        new.cycle_summary = Some(summary);
    }
    if let Some(insights) = closing.insights {
        fits(phase, "/insights", output::verify_insights(&insights))?;
        new.insights = Some(insights);
    }
    Ok(new)
}

/// Closes a cycle whose four phases are completed. A write of its own, whatever the review says.
pub fn complete_cycle(old: &Document, at: Second) -> Result<Document, ChangeError> {
    if old.position() != Position::Resting(Phase::Review) {
        return Err(no_way(old, Position::Completed));
    }
    let (mut new, _) = written(old, at, None, Event::Completed);
    new.metadata.status = CycleStatus::Completed;
    Ok(new)
}

/// Enters a phase as completed without running it, with the output it had in the cycle that this one continues. Two
/// writes, as for any phase: the order and the numbers of phases hold for it, too.
pub fn reuse(
    old: &Document,
    phase: Phase,
    earlier: &Document,
    at: Second,
) -> Result<[Document; 2], ChangeError> {
    let from = || earlier.cycle_id.clone();
    let there = &earlier.phases[phase];
    let output = match there.status {
        PhaseStatus::Completed => there.output.clone().unwrap_or_default(),
        PhaseStatus::Pending | PhaseStatus::InProgress | PhaseStatus::Failed => {
            return Err(ChangeError::Reuse { phase, from: from(), because: NotReusable::NotCompleted });
        }
    };
    let started = start_as(old, phase, Some(from()), at)?;
    let completed = complete(&started, phase, output, at)?;
    Ok([started, completed])
}

/// Puts a valid earlier document in the place of a corrupted one. `highest` is the highest sequence ever seen for the
/// cycle: the number never goes back, not even for what was lost.
pub fn recover(
    candidate: &Document,
    highest: u64,
    from_revision: u64,
    bad_revision: u64,
    at: Second,
) -> Document {
    let before = Document { sequence: candidate.sequence.max(highest), ..candidate.clone() };
    let (mut new, _) = written(&before, at, None, Event::Recovered);
    let entry = new.history.last_mut().expect("BUG: every write has its entry");
    entry.unknown.insert("from_revision".to_owned(), from_revision.into());
    entry.unknown.insert("bad_revision".to_owned(), bad_revision.into());
    new
}

/// Enters a cycle that was played again from an older format, whose keys are named. It is the first write of its document.
pub(super) fn migrate(played: &Document, keys: &[String], at: Second) -> Document {
    let (mut new, _) = written(played, at, None, Event::Migrated);
    let entry = new.history.last_mut().expect("BUG: every write has its entry");
    entry.unknown.insert("from".to_owned(), keys.into());
    new
}

/// What every write does. Answers the time it really has: never before the last one.
fn written(old: &Document, at: Second, phase: Option<Phase>, event: Event) -> (Document, Second) {
    let mut new = old.clone();
    let at = at.max(old.metadata.updated_at);
    new.sequence += 1;
    new.metadata.updated_at = at;
    new.history.push(HistoryEntry::new(at, phase, event, new.sequence));
    (new, at)
}

fn no_way(old: &Document, to: Position) -> ChangeError {
    let (cycle_id, from) = (old.cycle_id.clone(), Some(old.position()));
    ChangeError::Invalid(InvalidTransition { cycle_id, from, to, because: Vec::new() })
}

/// Moves the pointers of what will not do to where it would stand in the document.
fn fits(phase: Phase, at: &str, verified: Result<(), Vec<Violation>>) -> Result<(), ChangeError> {
    verified.map_err(|violations| {
        let moved = violations
            .into_iter()
            .map(|found| Violation { pointer: format!("{at}{}", found.pointer), ..found });
        ChangeError::Output { phase, violations: moved.collect() }
    })
}

impl Fault {
    fn at(self, timestamp: Second) -> PhaseError {
        PhaseError { kind: self.kind, message: self.message, timestamp, unknown: Unknown::new() }
    }
}
