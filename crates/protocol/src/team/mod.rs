//! `team`: a project manager splits a request into groups; each group goes from developer to QA to tech lead on its own branch;
//! approved groups are merged one by one; the project manager checks at the end.
//!
//! ```text
//! pm.plan ─▶ A.developer ─▶ A.qa ─▶ A.tech_lead ─▶ A.merge ─┐
//!        └─▶ B.developer ─▶ B.qa ─▶ B.tech_lead ─▶ B.merge ─┴▶ pm.criteria ─▶ pm.check ─▶ pm.merge
//! ```
//!
//! QA and the tech lead send a group back to its developer. A blocked role gets help from the tech lead. A merge that
//! conflicts, or whose checks fail, is a request for changes. At a limit a person decides (`A.decision`, `pm.decision`).
//! The document is the original's six files in `coordination/`. In these, the orchestrator is what Callboard's engine is here.

mod brief;
mod check;
mod decide;
mod definition;
mod document;
mod import;
mod present;
mod record;
mod report;
mod state;
mod step;

use std::num::NonZeroU32;

use serde_json::Value;

use crate::brief::Brief;
use crate::entry::Entry;
use crate::people::{Answer, Question};
use crate::protocol_trait::{
    Effect, Event, ImportRefusal, Move, Never, Outcome, ParsedReport, Protocol, RecordError, RequestRefusal,
    RunLocation, StepKind, StepStatus, View,
};
use crate::report::Report;
use crate::{StepId, Timestamp};

pub use decide::Change;
pub use definition::{Definition, GroupId, Limits, Mode, ModeChoice};
pub use document::{Document, GroupPart, Mailbox, Message, OrchestratorStatus};
pub use import::{BranchWork, CoordinationFiles, ImportPreview, Salvaged};
pub use report::plan::{Criterion, Plan, PlanGroup, Task};
pub use state::{
    Blocked, DecisionReason, DevelopReason, FinalStage, Group, GroupProgress, Stage, State, TurnsLeft,
};
pub use step::{
    Choice, DeveloperVerdict, MergeVerdict, PlannedCriterion, PlannedWork, PmStep, QaVerdict, Role,
    ScheduledGroup, Step, TechLeadVerdict, Verdict,
};

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Team {}

impl Protocol for Team {
    const NAME: &'static str = "team";

    type Definition = Definition;
    type State = State;
    type Change = Change;
    type Step = Step;
    type Verdict = Verdict;
    type Document = Document;
    type Edit = Never;
    type Request = Never;

    fn begin(definition: &Definition) -> State {
        State::begin(definition)
    }

    fn decide(definition: &Definition, state: &State, event: Event<Step, Verdict>) -> Move<Change, Step> {
        decide::decide(definition, state, event)
    }

    fn consider(
        _: &Definition,
        _: &State,
        request: &Never,
        _: Option<Outcome>,
    ) -> Result<Move<Change, Step>, RequestRefusal> {
        match *request {}
    }

    fn on_stop(definition: &Definition, state: &State) -> Option<Move<Change, Step>> {
        Some(decide::on_stop(definition, state))
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
        Step::parse(id).filter(|step| state.has_step(step))
    }

    fn step_id(step: &Step) -> StepId {
        step.id()
    }

    fn step_kind(_: &Definition, _: &State, step: &Step) -> StepKind {
        step.kind()
    }

    fn step_status(_: &Definition, state: &State, step: &Step) -> StepStatus {
        state.status(step)
    }

    fn failed_steps(_: &Definition, state: &State) -> Vec<Step> {
        state.failed_steps()
    }

    fn max_attempts(definition: &Definition, _: &State, _: &Step) -> NonZeroU32 {
        definition.limits.attempts
    }

    fn start_order(_: &Definition, state: &State, step: &Step) -> usize {
        state.start_order(step)
    }

    fn remove_unauthorized(
        _: &Definition,
        document: &Document,
        step: &Step,
        report: &mut Report,
    ) -> Vec<String> {
        report::rights::remove_unauthorized(document, step, report)
    }

    fn parse_report(
        definition: &Definition,
        document: &Document,
        step: &Step,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        report::verdicts::parse_report(definition, document, step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &Step, counted_attempt: u32) -> Brief {
        brief::brief(definition, document, step, counted_attempt)
    }

    fn question(_: &Definition, document: &Document, step: &Step) -> Option<Question> {
        brief::question(document, step)
    }

    fn parse_answer(_: &Definition, _: &Document, step: &Step, answer: &Answer) -> Result<Verdict, String> {
        report::verdicts::parse_answer(step, answer)
    }

    fn effect(_: &Definition, document: &Document, step: &Step) -> Option<Effect> {
        brief::effect(document, step)
    }

    fn import(definition: &Definition, document: &Value) -> Result<Move<Change, Step>, ImportRefusal> {
        import::import(definition, document)
    }

    fn open_document(definition: &Definition, location: &RunLocation, at: Timestamp) -> Document {
        Document::open(definition, location, at)
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

    fn assemble(_: &Definition, parts: &[(String, String)]) -> Option<Document> {
        Document::assemble(parts)
    }

    fn assemble_without_definition(parts: &[(String, String)]) -> Option<Document> {
        Document::assemble(parts)
    }

    fn views(document: &Document) -> Vec<View> {
        document.views()
    }
}
