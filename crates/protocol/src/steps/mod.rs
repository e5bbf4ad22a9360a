//! `steps`: a graph of steps, each run by an agent. A step starts when all steps it needs are done.
//!
//! A workflow file names the steps. A report says that its step is done or, for a step with `loop_back_to`, that the gate
//! failed and the run loops back; anything else costs an attempt. When a step has no attempts left, or a gate no iterations,
//! the [policy](OnFailure) decides about the rest. When all steps are done, the run has succeeded. The document is
//! `run_state.json`.

pub mod check;
pub mod decide;
pub mod definition;
pub mod document;
mod import;
mod layout;
pub mod load;
mod present;
mod record;
mod step;
pub mod workflow;

use std::num::NonZeroU32;

pub use check::{check, check_document};
pub use decide::{Change, Request, State};
pub use definition::{DEFAULT_ITERATIONS, Definition, DefinitionSource, OnFailure};
pub use document::{Document, Status, StepDocument};
pub use load::add_effects;
pub use step::Verdict;
pub use workflow::{PERSON, StepEffect, StepSpec, Workflow};

use crate::brief::Brief;
use crate::entry::Entry;
use crate::people::{Answer, Question};
use crate::report::Report;
use crate::rules::{
    Deferred, Effect, Event, ImportRefusal, Move, Never, Outcome, ParsedReport, Progress, Protocol,
    RecordError, RequestRefusal, RunLocation, StepKind, StepStatus, View,
};
use crate::{Stamp, StepId};

/// The `steps` protocol: the steps of a workflow file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {}

impl Protocol for Steps {
    const NAME: &'static str = "steps";
    const SKIPS: bool = true;

    type Definition = Definition;
    type State = State;
    type Change = Change;
    type Step = StepId;
    type Verdict = Verdict;
    type Document = Document;
    type Edit = Never;
    type Request = Request;

    fn begin(_: &Definition) -> State {
        State::default()
    }

    fn decide(definition: &Definition, state: &State, event: Event<StepId, Verdict>) -> Move<Change, StepId> {
        decide::decide(definition, state, event)
    }

    fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, StepId>> {
        decide::deferred(definition, state)
    }

    fn apply(state: &mut State, change: &Change) {
        state.apply(change);
    }

    fn step_kind(definition: &Definition, _: &State, step: &StepId) -> StepKind {
        definition.step(step).kind()
    }

    fn step_status(_: &Definition, state: &State, step: &StepId) -> StepStatus {
        decide::step_status(state, step)
    }

    fn failed_steps(definition: &Definition, state: &State) -> Vec<StepId> {
        definition.step_ids().filter(|id| state.failed.contains(*id)).cloned().collect()
    }

    fn consider(
        definition: &Definition,
        state: &State,
        request: &Request,
        _: Option<Outcome>,
    ) -> Result<Move<Change, StepId>, RequestRefusal> {
        decide::consider(definition, state, request)
    }

    fn steps(definition: &Definition, _: &State) -> Vec<StepId> {
        definition.step_ids().cloned().collect()
    }

    fn step(definition: &Definition, _: &State, id: &StepId) -> Option<StepId> {
        definition.has_step(id).then(|| id.clone())
    }

    fn admits(definition: &Definition, _: &State, change: &Change) -> bool {
        change.steps().all(|step| definition.has_step(step))
    }

    fn max_attempts(definition: &Definition, _: &State, step: &StepId) -> NonZeroU32 {
        definition.max_attempts(step)
    }

    fn rank(definition: &Definition, _: &State, step: &StepId) -> usize {
        definition.position(step)
    }

    fn step_id(step: &StepId) -> StepId {
        step.clone()
    }

    fn parse_report(
        definition: &Definition,
        _: &Document,
        step: &StepId,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        step::parse_report(definition, step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &StepId, counted_attempt: u32) -> Brief {
        step::brief(definition, document, step, counted_attempt)
    }

    fn question(definition: &Definition, _: &Document, step: &StepId) -> Option<Question> {
        step::question(definition, step)
    }

    fn parse_answer(
        definition: &Definition,
        _: &Document,
        step: &StepId,
        answer: &Answer,
    ) -> Result<Verdict, String> {
        step::parse_answer(definition, step, answer)
    }

    fn effect(definition: &Definition, _: &Document, step: &StepId) -> Option<Effect> {
        definition.step(step).effect.as_ref().map(step::effect)
    }

    fn import(
        definition: &Definition,
        document: &serde_json::Value,
    ) -> Result<Move<Change, StepId>, ImportRefusal> {
        import::import(definition, document)
    }

    fn open_document(definition: &Definition, location: &RunLocation, at: Stamp) -> Document {
        record::open(definition, location, at)
    }

    fn record(
        definition: &Definition,
        document: &mut Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, RecordError> {
        Ok(record::record(definition, document, entry))
    }

    fn part(document: &Document, path: &str) -> String {
        document.part(path)
    }

    fn assemble(definition: &Definition, parts: &[(String, String)]) -> Option<Document> {
        Document::assemble(definition.step_ids(), parts)
    }

    fn views(document: &Document) -> Vec<View> {
        vec![layout::state_file(document)]
    }

    fn report_path(document: &Document, step: &StepId) -> Option<String> {
        let head = &document.head;
        Some(layout::report_path(&head.reports_dir, &head.run_id, step.as_str()))
    }

    fn reported_steps(document: &Document) -> Vec<StepId> {
        let reported = document.steps.iter().filter(|(_, step)| step.report_path.is_some());
        reported.filter_map(|(id, _)| StepId::new(id).ok()).collect()
    }

    fn progress(definition: &Definition, state: &State) -> Progress {
        Progress { done: state.done.len(), total: definition.workflow().steps.len() }
    }
}
