//! `peer`: plan, execute, express, review; four phases in a line, and one document for the whole cycle.
//!
//! A cycle is opened with an [instruction](Instruction), for a spec or for the repository as a whole. Each phase is played
//! by a step of its own and leaves an output that the next ones build on. There is no way back: an unsuccessful review
//! ends the cycle like a successful one, and improvement is a new cycle.
//!
//! The table is in `decide`, what an entry writes into the document in `record`. Beneath them lie: what cycles are called ([`name`]), the [`document`] and its rules
//! ([`check`](mod@check)), what each phase must produce ([`output`]), how a document [changes](change), whether any
//! write is such a change ([`transition`]), what others may edit (`edit`), what each step is told ([`prompts`]), and how
//! [older formats](old) become this one.

pub mod change;
pub mod check;
mod decide;
mod definition;
pub mod document;
mod edit;
mod import;
mod lean;
pub mod name;
pub mod old;
pub mod output;
mod parts;
mod position;
pub mod prompts;
mod record;
mod step;
pub mod transition;

use std::num::NonZeroU32;

pub use check::{Checked, check, check_document};
pub use decide::{Change, State, Verdict};
pub use definition::{Advice, Continued, Definition};
pub use document::{
    Context, CycleStatus, Document, Event, HistoryEntry, Metadata, Mode, Phase, PhaseDocument, PhaseError,
    PhaseStatus, Phases, Second,
};
pub use name::{CycleId, Instruction, Scope, SpecName};
pub use position::{InvalidTransition, Position};
pub use step::{BUCKET, check_report};
pub use transition::{Refusal, Transition, check_write};

use crate::brief::Brief;
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::entry::Entry;
use crate::report::Report;
use crate::rules::{
    Deferred, Event as RunEvent, ImportRefusal, Move, ParsedReport, Progress, Protocol, RecordError,
    RunLocation, StepStatus, View,
};
use crate::{Stamp, StepId};

/// The protocol of seed 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {}

impl Protocol for Peer {
    const NAME: &'static str = "peer";
    const SKIPS: bool = false;
    const CHECKS_WRITES: bool = true;
    const SHOWS_DOCUMENT: bool = true;

    type Definition = Definition;
    type State = State;
    type Change = Change;
    /// Each phase is played by a step of its own: the phase is its name, [`Phase::step`] the agent's.
    type Step = Phase;
    type Verdict = Verdict;
    type Document = Document;
    /// From the old document to the new one, but for what every write does.
    type Edit = json_patch::Patch;

    fn begin(_: &Definition) -> State {
        State::Before(Phase::Plan)
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

    /// A failed phase is not tried again in its cycle: a new one continues it.
    fn failed_steps(_: &Definition, _: &State) -> Vec<Phase> {
        Vec::new()
    }

    fn has_step(_: &Definition, _: &Phase) -> bool {
        true
    }

    fn admits(_: &Definition, state: &State, change: &Change) -> bool {
        state.admits(*change)
    }

    fn max_attempts(definition: &Definition, _: &Phase) -> NonZeroU32 {
        definition.max_attempts
    }

    fn rank(_: &Definition, step: &Phase) -> usize {
        *step as usize
    }

    fn step_id(step: &Phase) -> StepId {
        StepId::new(step.as_str()).expect("BUG: a phase is a name")
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
        Some(serde_json::to_value(entry).expect("BUG: an entry is plain data"))
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

    fn partial_patch(step: &Phase, content: serde_json::Value) -> Option<Patch> {
        Some(Patch::Set(vec![(format!("/phases/{step}/output"), content)]))
    }

    fn open_document(definition: &Definition, _: &RunLocation, at: Stamp) -> Document {
        change::initialise(definition.opening(), at.into())
    }

    fn record(
        definition: &Definition,
        document: &mut Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, RecordError> {
        record::record(definition, document, entry)
    }

    fn part(document: &Document, path: &str) -> String {
        parts::part(document, path)
    }

    fn assemble(_: &Definition, parts: &[(String, String)]) -> Option<Document> {
        parts::assemble(parts)
    }

    fn assemble_without_definition(parts: &[(String, String)]) -> Option<Document> {
        parts::assemble(parts)
    }

    fn check_write(old: Option<&Document>, new: &Document) -> Result<(), RecordError> {
        let checked = match old.and_then(|old| lean::lean_both(old, new)) {
            Some((old, new)) => check_write(Some(&old), &new.to_value()),
            None => check_write(old, &new.to_value()),
        };
        checked.map(drop).map_err(|refusal| RecordError(refusal.to_string()))
    }

    fn violations(document: &Document) -> Vec<Violation> {
        check_document(document).violations
    }

    fn view(_: &Document) -> Option<View> {
        None
    }

    fn report_path(_: &Document, _: &Phase) -> Option<String> {
        None
    }

    fn reported_steps(_: &Document) -> Vec<Phase> {
        Vec::new()
    }

    fn progress(_: &Definition, state: &State) -> Progress {
        Progress { done: state.completed(), total: Phase::ALL.len() }
    }
}
