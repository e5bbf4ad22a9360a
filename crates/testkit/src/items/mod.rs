//! `items`: a small protocol for tests, and the example of `docs/adding-a-protocol.md`.
//!
//! A planner names items. Each item is made by an agent, approved by a person, and recorded by an effect or by the commands
//! that the run was started with. A rejected item is made again. The run has succeeded when all items are recorded. The
//! request [`Reopen`] has a recorded item made again, also in a finished run.
//!
//! It has most of what a protocol can have: steps that appear during the run, people, effects, commands, a request of its
//! own, and a document of several files. It has no edits, no import and no deferred transitions.

mod decide;
mod document;
mod explored;
mod ledger;
mod present;
mod step;

use std::num::NonZeroU32;

use protocol::brief::Brief;
use protocol::checks::CheckSpec;
use protocol::entry::Entry;
use protocol::protocol_trait::{DEFAULT_MAX_ATTEMPTS, StepStatus};
use protocol::report::Report;
use protocol::{
    Answer, Effect, Event, ImportRefusal, Move, Never, Outcome, ParsedReport, Protocol, Question,
    RecordError, RequestRefusal, RunLocation, StepId, StepKind, Timestamp, View,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use decide::{Change, Stage, State};
pub use document::{Document, ItemDocument};
pub use ledger::Ledger;
pub use step::{Step, Verdict};

/// The protocol `items`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {}

/// What a run is started with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// What the user wants, verbatim.
    pub request: String,
    /// The commands that record an item; empty if an effect does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CheckSpec>,
}

impl Definition {
    /// Returns a definition whose items are recorded by an effect.
    pub fn new(request: &str) -> Self {
        Self { request: request.to_owned(), commands: Vec::new() }
    }
}

/// The request that only this protocol has: make a recorded item again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopen {
    pub reopen: StepId,
}

impl Protocol for Items {
    const NAME: &'static str = "items";

    type Definition = Definition;
    type State = State;
    type Change = Change;
    type Step = Step;
    type Verdict = Verdict;
    type Document = Document;
    type Edit = Never;
    type Request = Reopen;

    fn begin(_: &Definition) -> State {
        State::default()
    }

    fn decide(_: &Definition, state: &State, event: Event<Step, Verdict>) -> Move<Change, Step> {
        decide::decide(state, event)
    }

    fn consider(
        _: &Definition,
        state: &State,
        request: &Reopen,
        _: Option<Outcome>,
    ) -> Result<Move<Change, Step>, RequestRefusal> {
        decide::reopen(state, &request.reopen)
    }

    fn apply(state: &mut State, change: &Change) {
        state.apply(change);
    }

    fn can_apply(_: &Definition, state: &State, change: &Change) -> bool {
        state.can_apply(change)
    }

    fn steps(_: &Definition, state: &State) -> Vec<Step> {
        state.steps()
    }

    fn step(_: &Definition, state: &State, id: &StepId) -> Option<Step> {
        Step::parse(id).filter(|step| step.item().is_none_or(|item| state.items.contains_key(item)))
    }

    fn step_id(step: &Step) -> StepId {
        step.id()
    }

    fn step_kind(definition: &Definition, _: &State, step: &Step) -> StepKind {
        match step {
            Step::Plan | Step::Make(_) => StepKind::Agent,
            Step::Approve(_) => StepKind::Person,
            Step::Record(_) if definition.commands.is_empty() => StepKind::Effect,
            Step::Record(_) => StepKind::Command,
        }
    }

    fn step_status(_: &Definition, state: &State, step: &Step) -> StepStatus {
        state.status(step)
    }

    fn failed_steps(_: &Definition, state: &State) -> Vec<Step> {
        state.failed.iter().cloned().collect()
    }

    fn max_attempts(_: &Definition, _: &State, _: &Step) -> NonZeroU32 {
        DEFAULT_MAX_ATTEMPTS
    }

    fn remove_unauthorized(
        _: &Definition,
        document: &Document,
        step: &Step,
        report: &mut Report,
    ) -> Vec<String> {
        step::remove_unauthorized(document, step, report)
    }

    fn parse_report(
        definition: &Definition,
        document: &Document,
        step: &Step,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        step::parse_report(definition, document, step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &Step, counted_attempt: u32) -> Brief {
        step::brief(definition, document, step, counted_attempt)
    }

    fn question(_: &Definition, document: &Document, step: &Step) -> Option<Question> {
        step::question(document, step)
    }

    fn parse_answer(_: &Definition, _: &Document, step: &Step, answer: &Answer) -> Result<Verdict, String> {
        step::parse_answer(step, answer)
    }

    fn effect(_: &Definition, document: &Document, step: &Step) -> Option<Effect> {
        step::effect(document, step)
    }

    fn import(_: &Definition, _: &Value) -> Result<Move<Change, Step>, ImportRefusal> {
        Err(ImportRefusal::Unusable("a run of `items` cannot be made from a document".to_owned()))
    }

    fn open_document(definition: &Definition, location: &RunLocation, at: Timestamp) -> Document {
        Document::open(definition, location, at)
    }

    fn record(
        _: &Definition,
        document: &mut Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, RecordError> {
        Ok(document::record(document, entry))
    }

    fn part(document: &Document, path: &str) -> String {
        document.part(path)
    }

    fn assemble(_: &Definition, parts: &[(String, String)]) -> Option<Document> {
        Document::assemble(parts)
    }

    fn views(document: &Document) -> Vec<View> {
        document.views()
    }
}
