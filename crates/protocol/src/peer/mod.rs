//! `peer`, the initials of its phases: plan, execute, express, review.
//!
//! A *cycle* is one run of this protocol: the four phases in a row, all on one document. `plan` says what to do, `execute`
//! does it, `express` turns the result into text for people, `review` judges it. The document counts its own writes in
//! `sequence`, which is not the revision of the run in the store. `docs/peer.md` describes the document and lists its
//! rules by their ids (F1 to F8, P1 to P5, S1 to S4).
//!
//! A cycle is started with an [instruction](Instruction), for a spec or for the repository as a whole. Each phase is a step
//! and produces an output that the next phases build on. No phase runs twice: an unsuccessful review ends the cycle like a
//! successful one, and improvement is a new cycle.
//!
//! `decide` has the transition table, `record` the write that an entry makes in the document. The other modules:
//!
//! * [`document`] and its rules in [`check`](mod@check)
//! * [`change`]: the possible writes; [`transition`]: whether a given write is one of them; `edit`: what agents and other
//!   clients may write
//! * [`output`]: what each phase must produce; [`prompts`]: the prompt of each agent
//! * [`names`]: specs, cycle ids and keys; [`migrate`]: documents of earlier formats

pub mod change;
pub mod check;
mod decide;
mod definition;
pub mod document;
mod edit;
mod import;
pub mod migrate;
pub mod names;
pub mod output;
mod present;
mod record;
mod step;
pub mod transition;

use std::num::NonZeroU32;

pub use check::{RuleViolations, check, check_document};
pub use decide::{Change, State, Verdict};
pub use definition::{Continued, Definition, EarlierReview};
pub use document::{
    Context, Document, Event, HistoryEntry, InvalidTransition, Metadata, Mode, PeerCycleStatus, Phase,
    PhaseDocument, PhaseError, PhaseStatus, Phases, StatusWithPhase, WholeSecond,
};
pub use names::{Instruction, PeerCycleId, Scope, SpecName};
pub use step::{BUCKET, prompts};
pub use transition::{Transition, WriteRefusal, check_write};

use crate::brief::Brief;
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::entry::Entry;
use crate::protocol_trait::{
    Deferred, Event as RunEvent, ImportRefusal, Move, Never, Outcome, ParsedReport, Progress, Protocol,
    RecordError, RequestRefusal, RunLocation, StepStatus, View,
};
use crate::report::Report;
use crate::{StepId, Timestamp};

/// The `peer` protocol: plan, execute, express, review.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {}

impl Protocol for Peer {
    const NAME: &'static str = "peer";
    const CHECKS_WRITES: bool = true;
    const PUBLISHES_DOCUMENT: bool = true;

    type Definition = Definition;
    type State = State;
    type Change = Change;
    /// Each phase is a step, run by the agent [`Phase::agent`].
    type Step = Phase;
    type Verdict = Verdict;
    type Document = Document;
    /// Leads from the old document to the new one, without `sequence`, `updated_at` and the history.
    type Edit = json_patch::Patch;
    type Request = Never;

    fn begin(_: &Definition) -> State {
        State::Ready(Phase::Plan)
    }

    fn decide(_: &Definition, state: &State, event: RunEvent<Phase, Verdict>) -> Move<Change, Phase> {
        decide::decide(*state, event)
    }

    fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, Phase>> {
        decide::deferred(definition, *state)
    }

    fn on_stop(_: &Definition, state: &State) -> Option<Move<Change, Phase>> {
        Some(decide::stopped(*state))
    }

    fn apply(state: &mut State, change: &Change) {
        state.apply(*change);
    }

    fn step_status(_: &Definition, state: &State, step: &Phase) -> StepStatus {
        decide::step_status(*state, *step)
    }

    /// A failed phase is never retried in its cycle: a new cycle continues it.
    fn failed_steps(_: &Definition, _: &State) -> Vec<Phase> {
        Vec::new()
    }

    fn consider(
        _: &Definition,
        _: &State,
        request: &Never,
        _: Option<Outcome>,
    ) -> Result<Move<Change, Phase>, RequestRefusal> {
        match *request {}
    }

    fn steps(_: &Definition, _: &State) -> Vec<Phase> {
        Phase::ALL.to_vec()
    }

    fn step(_: &Definition, _: &State, id: &StepId) -> Option<Phase> {
        Phase::parse(id.as_str())
    }

    fn can_apply(_: &Definition, state: &State, change: &Change) -> bool {
        state.can_apply(*change)
    }

    fn max_attempts(definition: &Definition, _: &State, _: &Phase) -> NonZeroU32 {
        definition.max_attempts
    }

    fn start_order(_: &Definition, _: &State, step: &Phase) -> usize {
        *step as usize
    }

    fn step_id(step: &Phase) -> StepId {
        StepId::new(step.as_str()).expect("BUG: a phase is not a step id")
    }

    fn parse_report(
        _: &Definition,
        document: &Document,
        step: &Phase,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        step::parse_report(document, *step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &Phase, counted_attempt: u32) -> Brief {
        step::brief(definition, document, *step, counted_attempt)
    }

    fn import(
        definition: &Definition,
        document: &serde_json::Value,
    ) -> Result<Move<Change, Phase>, ImportRefusal> {
        import::import(definition, document)
    }

    fn sequence(document: &Document) -> Option<u64> {
        Some(document.sequence)
    }

    fn last_change(document: &Document) -> Option<serde_json::Value> {
        let entry = document.history.last()?;
        Some(serde_json::to_value(entry).expect("BUG: an entry cannot be serialized"))
    }

    fn edit(
        _: &Definition,
        based_on: &Document,
        current: &Document,
        author: &EditAuthor<Phase>,
        patch: &Patch,
    ) -> Result<Option<json_patch::Patch>, EditRefusal> {
        edit::edit(based_on, current, author, patch)
    }

    fn external_edit(
        _: &Definition,
        current: &Document,
        shown: &serde_json::Value,
        found: &serde_json::Value,
    ) -> Result<json_patch::Patch, EditRefusal> {
        edit::external_edit(current, shown, found)
    }

    fn partial_output_patch(step: &Phase, content: serde_json::Value) -> Option<Patch> {
        Some(Patch::Set(vec![(format!("/phases/{step}/output"), content)]))
    }

    fn open_document(definition: &Definition, _: &RunLocation, at: Timestamp) -> Document {
        change::initialise(definition.new_cycle(), at.into())
    }

    fn record(
        definition: &Definition,
        document: &mut Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, RecordError> {
        record::record(definition, document, entry)
    }

    fn part(document: &Document, path: &str) -> String {
        document::parts::part(document, path)
    }

    fn assemble(_: &Definition, parts: &[(String, String)]) -> Option<Document> {
        document::parts::assemble(parts)
    }

    fn assemble_without_definition(parts: &[(String, String)]) -> Option<Document> {
        document::parts::assemble(parts)
    }

    fn check_write(old: Option<&Document>, new: &Document) -> Result<(), RecordError> {
        // The progress entries that both histories have are left out: no rule needs them, and they may be thousands.
        let checked = match old.and_then(|old| document::progress_entries::without_progress_pair(old, new)) {
            Some((old, new)) => check_write(Some(&old), &new.to_value()),
            None => check_write(old, &new.to_value()),
        };
        checked.map(drop).map_err(|refusal| RecordError(refusal.to_string()))
    }

    fn violations(document: &Document) -> Vec<Violation> {
        check_document(document).violations
    }

    fn views(_: &Document) -> Vec<View> {
        Vec::new()
    }

    fn progress(_: &Definition, state: &State) -> Progress {
        Progress { done: state.completed(), total: Phase::ALL.len() }
    }
}
