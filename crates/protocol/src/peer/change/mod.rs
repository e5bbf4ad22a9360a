//! The writes of a cycle's document, each a function from the old document to the new one.
//!
//! Every write adds one to `sequence`, sets `updated_at`, and appends one history entry with the new number. A write
//! that is not in the table "Transitions" of `docs/peer.md` is refused. The result breaks no rule of
//! [`check`](mod@super::check), and [`transition`](super::transition) recognises the write from the old and the new
//! document.

mod unknown_fields;

use serde_json::{Map, Value};

use super::document::{
    Context, Document, Event, HistoryEntry, Metadata, Mode, PeerCycleStatus, Phase, PhaseError, PhaseStatus,
    Phases, Unknown, VERSION, WholeSecond,
};
use super::document::{InvalidTransition, StatusWithPhase};
use super::names::PeerCycleId;
use super::output;
use crate::check::Violation;
pub use unknown_fields::{UnknownFields, set_unknown_fields};

/// What a cycle is started with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCycle {
    pub cycle: PeerCycleId,
    /// The command of the user, such as `plan-product`.
    pub instruction: String,
    pub mode: Mode,
    /// The arguments of the instruction, as they were typed.
    pub instruction_args: String,
    /// The user's text, unchanged.
    pub user_requirements: String,
    /// The failed cycle that this one continues.
    pub continues: Option<PeerCycleId>,
}

/// An error without a time: it gets the time of the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorDetail {
    /// A machine-readable word, such as `timeout` or `cancelled`.
    pub kind: String,
    pub message: String,
}

/// What the review adds at the root of the document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReviewFields {
    pub cycle_summary: Option<Value>,
    pub insights: Option<Value>,
}

/// Why a change is refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Invalid(#[from] InvalidTransition),
    /// The pointers start at the root of the document.
    #[error("the output of `{phase}` is invalid: {}", .violations.first().map_or("", |first| &first.message))]
    Output { phase: Phase, violations: Vec<Violation> },
    #[error("cannot reuse `{phase}` of `{from}`: this cycle does not continue it")]
    Reuse { phase: Phase, from: PeerCycleId },
}

/// Returns the document of a new cycle.
pub fn initialise(new: NewCycle, at: WholeSecond) -> Document {
    let NewCycle { cycle, instruction, mode, instruction_args, user_requirements, continues } = new;
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
            status: PeerCycleStatus::Initialized,
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

/// Starts a phase: the first one, or the one after the last completed phase.
pub fn start(old: &Document, phase: Phase, at: WholeSecond) -> Result<Document, ChangeError> {
    start_or_reuse(old, phase, None, at)
}

/// Starts a phase. With `reused_from` it will not run: its output comes from that cycle.
pub(super) fn start_or_reuse(
    old: &Document,
    phase: Phase,
    reused_from: Option<PeerCycleId>,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    if old.status_with_phase().startable() != Some(phase) {
        return Err(invalid_transition(old, StatusWithPhase::InProgress(phase)));
    }
    if let Some(from) = reused_from.clone().filter(|from| old.context.continues.as_ref() != Some(from)) {
        return Err(ChangeError::Reuse { phase, from });
    }
    let (mut new, at) = next_write(old, at, Some(phase), Event::Started);
    new.metadata.status = PeerCycleStatus::InProgress;
    new.metadata.current_phase = phase;
    let sequence = new.sequence;
    let phase_document = &mut new.phases[phase];
    phase_document.status = PhaseStatus::InProgress;
    phase_document.started_at = Some(at);
    phase_document.sequence_at_start = Some(sequence);
    // Present from the start, so that a JSON patch can add to them.
    phase_document.output.get_or_insert_with(|| Value::Object(Map::new()));
    phase_document.errors.get_or_insert_default();
    phase_document.reused_from = reused_from;
    Ok(new)
}

/// Sets the output of the phase in progress.
pub fn progress(
    old: &Document,
    phase: Phase,
    output: Value,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    update_phase(old, phase, Some(output), old.phases[phase].errors.clone(), at)
}

/// Adds the error of a failed attempt to the phase in progress. Another attempt will follow.
pub fn fail_attempt(
    old: &Document,
    phase: Phase,
    error: ErrorDetail,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    let phase_document = &old.phases[phase];
    let mut errors = phase_document.errors().to_vec();
    errors.push(error.at(at.max(old.metadata.updated_at)));
    update_phase(old, phase, phase_document.output.clone(), Some(errors), at)
}

/// Replaces the output and the errors of the phase in progress.
pub(super) fn update_phase(
    old: &Document,
    phase: Phase,
    output: Option<Value>,
    errors: Option<Vec<PhaseError>>,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    if old.status_with_phase() != StatusWithPhase::InProgress(phase) {
        return Err(invalid_transition(old, StatusWithPhase::InProgress(phase)));
    }
    let (mut new, _) = next_write(old, at, Some(phase), Event::Progress);
    new.phases[phase].output = output;
    new.phases[phase].errors = errors;
    Ok(new)
}

/// Ends the cycle with an error: in the phase in progress, else in the first that is not completed, which then never
/// starts.
pub fn fail(
    old: &Document,
    phase: Phase,
    error: ErrorDetail,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    fail_with(old, phase, error.at(at), at)
}

/// Ends the cycle with an error. The time of the write replaces the time of the error.
pub(super) fn fail_with(
    old: &Document,
    phase: Phase,
    error: PhaseError,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    if old.status_with_phase().failable() != Some(phase) {
        return Err(invalid_transition(old, StatusWithPhase::Failed(phase)));
    }
    let (mut new, at) = next_write(old, at, Some(phase), Event::Failed);
    new.metadata.status = PeerCycleStatus::Failed;
    new.phases[phase].status = PhaseStatus::Failed;
    new.phases[phase].errors.get_or_insert_default().push(PhaseError { timestamp: at, ..error });
    Ok(new)
}

/// Completes the phase in progress with its output. Fails if the output is invalid.
pub fn complete(
    old: &Document,
    phase: Phase,
    output: Value,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    if old.status_with_phase() != StatusWithPhase::InProgress(phase) {
        return Err(invalid_transition(old, StatusWithPhase::PhaseCompleted(phase)));
    }
    check_output(phase, &format!("/phases/{phase}/output"), output::verify(phase, &output))?;
    let (mut new, at) = next_write(old, at, Some(phase), Event::Completed);
    let sequence = new.sequence;
    let phase_document = &mut new.phases[phase];
    phase_document.status = PhaseStatus::Completed;
    phase_document.completed_at = Some(at);
    phase_document.sequence_at_complete = Some(sequence);
    phase_document.output = Some(output);
    Ok(new)
}

/// Completes the review, with its fields at the root.
pub fn complete_review(
    old: &Document,
    output: Value,
    fields: ReviewFields,
    at: WholeSecond,
) -> Result<Document, ChangeError> {
    let phase = Phase::Review;
    let mut new = complete(old, phase, output, at)?;
    if let Some(summary) = fields.cycle_summary {
        check_output(phase, "/cycle_summary", output::verify_summary(&summary))?;
        new.cycle_summary = Some(summary);
    }
    if let Some(insights) = fields.insights {
        check_output(phase, "/insights", output::verify_insights(&insights))?;
        new.insights = Some(insights);
    }
    Ok(new)
}

/// Completes a cycle whose four phases are completed, whatever the review says.
pub fn complete_cycle(old: &Document, at: WholeSecond) -> Result<Document, ChangeError> {
    if old.status_with_phase() != StatusWithPhase::PhaseCompleted(Phase::Review) {
        return Err(invalid_transition(old, StatusWithPhase::Completed));
    }
    let (mut new, _) = next_write(old, at, None, Event::Completed);
    new.metadata.status = PeerCycleStatus::Completed;
    Ok(new)
}

/// Replaces a corrupted document by a valid earlier one, the `candidate`. `highest` is the highest sequence ever seen
/// for the cycle, since the sequence never goes back. `from_revision` is the revision of the run with the candidate,
/// and `bad_revision` the one at which the document was found broken.
pub fn recover(
    candidate: &Document,
    highest: u64,
    from_revision: u64,
    bad_revision: u64,
    at: WholeSecond,
) -> Document {
    let before = Document { sequence: candidate.sequence.max(highest), ..candidate.clone() };
    let (mut new, _) = next_write(&before, at, None, Event::Recovered);
    let entry = new.history.last_mut().expect("BUG: a write without a history entry");
    entry.unknown.insert("from_revision".to_owned(), from_revision.into());
    entry.unknown.insert("bad_revision".to_owned(), bad_revision.into());
    new
}

/// Finishes the migration of a cycle from an older format. `replayed` is the document after the writes that rebuild the cycle,
/// none of which is stored. This adds the history entry `migrated`, which names the `keys` that the old format used.
pub(super) fn migrate(replayed: &Document, keys: &[String], at: WholeSecond) -> Document {
    let (mut new, _) = next_write(replayed, at, None, Event::Migrated);
    let entry = new.history.last_mut().expect("BUG: a write without a history entry");
    entry.unknown.insert("from".to_owned(), keys.into());
    new
}

/// Does what every write does. Returns the new document and the time of the write, which is never before the last one.
fn next_write(
    old: &Document,
    at: WholeSecond,
    phase: Option<Phase>,
    event: Event,
) -> (Document, WholeSecond) {
    let mut new = old.clone();
    let at = at.max(old.metadata.updated_at);
    new.sequence += 1;
    new.metadata.updated_at = at;
    new.history.push(HistoryEntry::new(at, phase, event, new.sequence));
    (new, at)
}

/// Returns the error for a transition that is not in the table.
fn invalid_transition(old: &Document, to: StatusWithPhase) -> ChangeError {
    let (cycle_id, from) = (old.cycle_id.clone(), Some(old.status_with_phase()));
    ChangeError::Invalid(InvalidTransition { cycle_id, from, to, violations: Vec::new() })
}

/// Converts violations of an output, whose pointers start at the output, into an error with pointers into the document.
fn check_output(phase: Phase, at: &str, verified: Result<(), Vec<Violation>>) -> Result<(), ChangeError> {
    verified.map_err(|violations| {
        let moved = violations
            .into_iter()
            .map(|found| Violation { pointer: format!("{at}{}", found.pointer), ..found });
        ChangeError::Output { phase, violations: moved.collect() }
    })
}

impl ErrorDetail {
    fn at(self, timestamp: WholeSecond) -> PhaseError {
        PhaseError { kind: self.kind, message: self.message, timestamp, unknown: Unknown::new() }
    }
}
