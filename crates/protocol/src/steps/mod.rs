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
mod phases;
mod present;
mod record;
mod salvage;
mod state;
mod step;
mod time;
pub mod workflow;

use std::num::NonZeroU32;

pub use check::{check, check_document};
pub use decide::Request;
pub use definition::{DEFAULT_MAX_ITERATIONS, Definition, OnFailure, StoredDefinition};
pub use document::{Document, Status, StepDocument};
pub use load::add_effect_steps;
pub use phases::Phase;
pub use phases::items::ITEMS;
pub use phases::when::{Comparison, EXISTING, EndStatus, FIND_ARTIFACTS, Operand, PATHS, When};
pub use salvage::{FilledDocument, Reports, fill_missing, salvage};
pub use state::{Change, State};
pub use step::Verdict;
pub use time::Time;
pub use workflow::{DataLoop, ItemsSource, PERSON, StepCheck, StepEffect, StepSpec, UnknownCheck, Workflow};

use self::phases::{loops, people};
use crate::brief::Brief;
use crate::entry::Entry;
use crate::people::{Answer, AnswerFile, Question};
use crate::protocol_trait::{
    Deferred, Effect, Event, ImportRefusal, Move, Never, Outcome, ParsedReport, Progress, Protocol,
    RecordError, RequestRefusal, RunLocation, StepKind, StepStatus, View,
};
use crate::report::Report;
use crate::{StepId, Timestamp};

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

    fn step_kind(definition: &Definition, state: &State, step: &StepId) -> StepKind {
        definition.kind_in(step, state.phase(definition, step))
    }

    fn step_status(_: &Definition, state: &State, step: &StepId) -> StepStatus {
        decide::step_status(state, step)
    }

    fn failed_steps(definition: &Definition, state: &State) -> Vec<StepId> {
        Self::steps(definition, state).into_iter().filter(|id| state.failed.contains(id)).collect()
    }

    fn consider(
        definition: &Definition,
        state: &State,
        request: &Request,
        _: Option<Outcome>,
    ) -> Result<Move<Change, StepId>, RequestRefusal> {
        decide::consider(definition, state, request)
    }

    fn steps(definition: &Definition, state: &State) -> Vec<StepId> {
        let steps = definition.step_ids();
        steps.flat_map(|id| std::iter::once(id.clone()).chain(Self::items(definition, state, id))).collect()
    }

    fn items(definition: &Definition, state: &State, id: &StepId) -> Vec<StepId> {
        let step = definition.step(id);
        // An item has no items of its own.
        let items = (step.id == *id).then(|| loops::items(definition, state, step));
        items.into_iter().flatten().collect()
    }

    fn step(definition: &Definition, state: &State, id: &StepId) -> Option<StepId> {
        let is_item = || {
            definition.item_of(id).is_some_and(|(step, number)| {
                loops::item_count(definition, state, definition.step(step)).is_some_and(|last| number <= last)
            })
        };
        (definition.has_step(id) || is_item()).then(|| id.clone())
    }

    fn can_apply(definition: &Definition, _: &State, change: &Change) -> bool {
        change.steps().all(|step| definition.has_step(step) || definition.item_of(step).is_some())
    }

    fn max_attempts(definition: &Definition, state: &State, step: &StepId) -> NonZeroU32 {
        match state.phase(definition, step) {
            Phase::When | Phase::ReadItems => NonZeroU32::MIN,
            Phase::Conditions
            | Phase::WorkOnItems
            | Phase::Work
            | Phase::Checks
            | Phase::Approval
            | Phase::Approved => {
                // A turn whose checks failed counts as an attempt.
                let left = definition.max_attempts(step).get().saturating_sub(state.failed_check_turns(step));
                NonZeroU32::new(left).unwrap_or(NonZeroU32::MIN)
            }
        }
    }

    fn start_order(definition: &Definition, _: &State, step: &StepId) -> usize {
        // Items come in their order.
        let number = definition.item_of(step).map_or(0, |(_, number)| number as usize);
        (definition.index_in_file(step) << 32) + number
    }

    fn step_id(step: &StepId) -> StepId {
        step.clone()
    }

    fn parse_report(
        definition: &Definition,
        document: &Document,
        step: &StepId,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        step::parse_report(definition, document, step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &StepId, counted_attempt: u32) -> Brief {
        step::brief(definition, document, step, counted_attempt)
    }

    fn question(definition: &Definition, document: &Document, step: &StepId) -> Option<Question> {
        people::question(definition, document, step)
    }

    fn conditions(definition: &Definition, state: &State, step: &StepId) -> Vec<String> {
        match state.phase(definition, step) {
            Phase::Conditions => definition.step(step).gates.clone(),
            Phase::When
            | Phase::ReadItems
            | Phase::WorkOnItems
            | Phase::Work
            | Phase::Checks
            | Phase::Approval
            | Phase::Approved => Vec::new(),
        }
    }

    fn parse_answer(
        definition: &Definition,
        document: &Document,
        step: &StepId,
        answer: &Answer,
    ) -> Result<Verdict, String> {
        people::parse_answer(definition, document, step, answer)
    }

    fn answer_file(definition: &Definition, document: &Document, step: &StepId) -> Option<AnswerFile> {
        people::answer_file(definition, document, step)
    }

    fn parse_answer_file(
        definition: &Definition,
        document: &Document,
        step: &StepId,
        text: &str,
    ) -> Result<Option<Answer>, String> {
        people::parse_answer_file(definition, document, step, text)
    }

    fn effect(definition: &Definition, document: &Document, step: &StepId) -> Option<Effect> {
        step::effect(definition, document, step)
    }

    fn import(
        definition: &Definition,
        document: &serde_json::Value,
    ) -> Result<Move<Change, StepId>, ImportRefusal> {
        import::import(definition, document)
    }

    fn open_document(definition: &Definition, location: &RunLocation, at: Timestamp) -> Document {
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

    fn report_view_path(document: &Document, step: &StepId) -> Option<String> {
        let head = &document.run_fields;
        Some(layout::report_path(&head.reports_dir, &head.run_id, step.as_str()))
    }

    fn shows_report(definition: &Definition, step: &StepId, report: &Report) -> bool {
        definition.step(step).agent == workflow::ENGINE || report.agent != workflow::ENGINE
    }

    fn reported_steps(document: &Document) -> Vec<StepId> {
        let reported =
            document.steps.iter().chain(&document.items).filter(|(_, step)| step.report_path.is_some());
        reported.filter_map(|(id, _)| StepId::new(id).ok()).collect()
    }

    fn progress(definition: &Definition, state: &State) -> Progress {
        let total = definition.workflow().steps.len();
        // `done` has the items of data loops, too.
        if definition.has_data_loops() {
            let done = definition.step_ids().filter(|step| state.done.contains(*step)).count();
            return Progress { done, total };
        }
        Progress { done: state.done.len(), total }
    }
}
