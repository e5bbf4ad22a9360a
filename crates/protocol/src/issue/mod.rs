//! `issue`: from an issue to a pull request.
//!
//! ```text
//! triage → analyst → [ writer → build → reviewer ] × pipeline attempts → commit → push → pull request → comment
//! ```
//!
//! Triage, analyst, writer and reviewer are agents; the engine itself builds and commits. A failed build, a rejection
//! and an empty change each use up a pipeline attempt. An agent that asks questions waits for the answers of other
//! agents or of a person.
//!
//! The document is `issue-state.json`. What an agent may read and update is a table (`rights.rs`), enforced on
//! its reports and on the edits of its private copy.

mod check;
mod decide;
mod definition;
pub mod document;
mod globs;
mod import;
mod parse;
mod present;
mod record;
mod rights;
mod step;
mod verdict;

use std::num::NonZeroU32;

use serde_json::Value;

use crate::brief::Brief;
use crate::check::Violation;
use crate::entry::Entry;
use crate::protocol_trait::StepStatus;
use crate::report::Report;
use crate::{
    Answer, Effect, Event, ImportRefusal, Move, Never, Outcome, ParsedReport, Protocol, Question,
    RecordError, RequestRefusal, RunLocation, StepId, StepKind, Timestamp, View,
};

pub use check::check;
pub use decide::{Change, FailureCause, Stage, State};
pub use definition::{
    CloseIssue, DEFAULT_MAX_QUESTIONS, DEFAULT_PIPELINE_ATTEMPTS, Definition, IssueData, Label, TrackerSpec,
    TriageMode,
};
pub use document::{
    Document, EnumOrText, FILE, IssueType, PipelineStatus, ReviewVerdict, changed_members, merge,
};
pub use rights::{Rights, Role, SECTIONS};
pub use step::forms::example_file;
pub use step::{Addressee, Agent, Step};
pub use verdict::{Pending, Verdict};

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Issue {}

impl Protocol for Issue {
    const NAME: &'static str = "issue";

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

    fn on_stop(_: &Definition, _: &State) -> Option<Move<Change, Step>> {
        Some(decide::stop())
    }

    fn apply(state: &mut State, change: &Change) {
        state.apply(change);
    }

    fn can_apply(_: &Definition, state: &State, change: &Change) -> bool {
        state.can_apply(change)
    }

    fn steps(definition: &Definition, state: &State) -> Vec<Step> {
        state.steps(definition)
    }

    fn step(definition: &Definition, state: &State, id: &StepId) -> Option<Step> {
        Step::parse(id).filter(|step| state.steps(definition).contains(step))
    }

    fn step_id(step: &Step) -> StepId {
        step.id()
    }

    fn step_kind(_: &Definition, _: &State, step: &Step) -> StepKind {
        step.kind()
    }

    fn step_status(_: &Definition, state: &State, step: &Step) -> StepStatus {
        state.status(*step)
    }

    fn failed_steps(_: &Definition, state: &State) -> Vec<Step> {
        state.failed_step().into_iter().collect()
    }

    fn max_attempts(definition: &Definition, _: &State, _: &Step) -> NonZeroU32 {
        definition.max_attempts
    }

    fn remove_unauthorized(
        _: &Definition,
        document: &Document,
        step: &Step,
        report: &mut Report,
    ) -> Vec<String> {
        rights::remove_unauthorized(document, *step, report)
    }

    fn parse_report(
        definition: &Definition,
        document: &Document,
        step: &Step,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        parse::parse_report(definition, document, *step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &Step, counted_attempt: u32) -> Brief {
        step::brief::brief(definition, document, *step, counted_attempt)
    }

    fn question(_: &Definition, document: &Document, step: &Step) -> Option<Question> {
        step::brief::question(document, *step)
    }

    fn parse_answer(
        _: &Definition,
        document: &Document,
        step: &Step,
        answer: &Answer,
    ) -> Result<Verdict, String> {
        parse::parse_answer(document, *step, answer)
    }

    fn effect(definition: &Definition, document: &Document, step: &Step) -> Option<Effect> {
        step::brief::effect(definition, document, *step)
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
        record::record(definition, document, entry)
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

    fn violations(document: &Document) -> Vec<Violation> {
        check::violations(document)
    }

    fn views(document: &Document) -> Vec<View> {
        document.views()
    }
}
