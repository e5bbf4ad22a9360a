//! The object-safe form of a protocol: what the rest of the program sees of a run.
//!
//! [`Machine`] has the definition, the state and the document of one run. They stay typed inside [`TypedMachine`], the only
//! code that is compiled per protocol. Verdicts, changes, edits and requests cross the boundary as JSON: they are small, and the
//! journal stores them as JSON anyway.

mod document;
mod protocol_kind;

use std::any::Any;
use std::fmt::Debug;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{self, RawValue};
use serde_json::{Map, Value};

use crate::brief::Brief;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::entry::Entry;
use crate::people::{Answer, AnswerFile, OpenItem, Question};
use crate::present::{Line, LoopBack, Present, StepDetails, StepSummary, StepTable, StepTableRow};
use crate::protocol_trait::{
    Deferred, Effect, Event, ImportRefusal, Move, Next, Outcome, ParsedReport, Progress, Protocol,
    RecordError, StepKind, StepStatus,
};
use crate::report::Report;
use crate::run::Refusal;
use crate::{RunId, StepId, Timestamp};

pub use document::Document;
pub use protocol_kind::{PROTOCOLS, ProtocolInfo, ProtocolKind, Protocols, protocol_kind};

/// Definition, state and document of one run, whatever its protocol. Functions without a comment are explained at the
/// function of the same name of [`Protocol`] or [`Present`]. A step that the run does not have is a bug of the caller.
pub trait Machine: Debug + Send + Sync {
    fn kind(&self) -> &'static dyn ProtocolKind;
    fn boxed_clone(&self) -> Box<dyn Machine>;
    fn as_any(&self) -> &dyn Any;
    /// Returns the definition as JSON.
    fn definition(&self) -> Box<RawValue>;

    // Deciding.
    fn decide(&self, event: Event) -> Move;
    fn consider(&self, request: &Value, outcome: Option<Outcome>) -> Result<Move, Refusal>;
    fn deferred(&self) -> Option<Deferred>;
    fn on_stop(&self) -> Option<Move>;
    /// Applies a change to the state. Fails if it is a change of another protocol.
    fn apply(&mut self, change: &Value) -> Result<(), serde_json::Error>;
    fn can_apply(&self, change: &Value) -> bool;
    fn progress(&self) -> Progress;
    /// Returns the state as JSON.
    fn state(&self) -> Box<RawValue>;
    fn set_state(&mut self, state: &RawValue) -> Result<(), serde_json::Error>;
    /// Returns whether both have the same protocol and state.
    fn has_state_of(&self, other: &dyn Machine) -> bool;

    // Steps.
    fn steps(&self) -> Vec<StepId>;
    fn has_step(&self, step: &StepId) -> bool;
    fn items(&self, step: &StepId) -> Vec<StepId>;
    fn step_kind(&self, step: &StepId) -> StepKind;
    fn step_status(&self, step: &StepId) -> StepStatus;
    fn failed_steps(&self) -> Vec<StepId>;
    fn max_attempts(&self, step: &StepId) -> NonZeroU32;
    fn start_order(&self, step: &StepId) -> usize;
    fn agent(&self, step: &StepId) -> String;
    fn needs(&self, step: &StepId) -> Vec<StepId>;
    fn loop_back(&self, step: &StepId) -> Option<LoopBack>;
    fn details(&self, step: &StepId) -> StepDetails;
    fn unblocks_dependents(&self, step: &StepId) -> bool;

    // Steps and the outside world.
    fn report_from_stdout(&self, step: &StepId, stdout: &str) -> Option<Map<String, Value>>;
    fn remove_unauthorized(&self, step: &StepId, report: &mut Report) -> Vec<String>;
    fn parse_report(&self, step: &StepId, report: &Report) -> ParsedReport;
    fn brief(&self, step: &StepId, counted_attempt: u32) -> Brief;
    fn question(&self, step: &StepId) -> Option<Question>;
    fn conditions(&self, step: &StepId) -> Vec<String>;
    fn parse_answer(&self, step: &StepId, answer: &Answer) -> Result<Value, String>;
    fn answer_file(&self, step: &StepId) -> Option<AnswerFile>;
    fn parse_answer_file(&self, step: &StepId, text: &str) -> Result<Option<Answer>, String>;
    fn effect(&self, step: &StepId) -> Option<Effect>;
    fn import(&self, document: &Value) -> Result<Move, ImportRefusal>;

    // The document.
    /// Returns the document. It stays as it is when the machine records more entries.
    fn document(&self) -> Document;
    fn set_document(&mut self, document: Document);
    /// Assembles a document of this run, at any revision; `None` if a part is missing or malformed.
    fn assemble(&self, parts: &[(String, String)]) -> Option<Document>;
    fn record(&mut self, entry: &Entry) -> Result<Vec<String>, RecordError>;
    fn part(&self, path: &str) -> String;
    /// Checks the document as a write after `old`.
    fn check_write(&self, old: Option<&Document>) -> Result<(), RecordError>;
    fn edit(
        &self,
        based_on: &Document,
        author: &EditAuthor,
        patch: &Patch,
    ) -> Result<Option<Value>, EditRefusal>;
    fn external_edit(&self, shown: &Value, found: &Value) -> Result<Value, EditRefusal>;
    fn partial_output_patch(&self, step: &StepId, content: Value) -> Option<Patch>;
    fn report_view_path(&self, step: &StepId) -> Option<String>;
    fn shows_report(&self, step: &StepId, report: &Report) -> bool;
    fn reported_steps(&self) -> Vec<StepId>;

    // Presenting.
    fn about(&self) -> Vec<String>;
    fn created_at(&self) -> Timestamp;
    fn step_summary(&self, step: &StepId) -> StepSummary;
    fn result(&self) -> Vec<Line>;
    fn result_fields(&self) -> Map<String, Value>;
    fn failure_hint(&self, run: &RunId) -> String;
    fn retry_command(&self, run: &RunId) -> String;
    fn open_items(&self) -> Vec<OpenItem>;
    fn stalled(&self, now: Timestamp) -> Vec<(StepId, String)>;
    fn step_table(&self) -> Option<StepTable>;
}

impl Clone for Box<dyn Machine> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

/// The machine of a typed protocol. Clones share definition and document.
#[derive(Debug)]
pub struct TypedMachine<P: Protocol> {
    pub definition: Arc<P::Definition>,
    pub state: P::State,
    pub document: Arc<P::Document>,
}

impl<P: Protocol> Clone for TypedMachine<P> {
    fn clone(&self) -> Self {
        Self {
            definition: Arc::clone(&self.definition),
            state: self.state.clone(),
            document: Arc::clone(&self.document),
        }
    }
}

impl<P: Protocol> TypedMachine<P> {
    /// Returns the machine of a run before its first entry.
    pub fn new(definition: P::Definition, document: P::Document) -> Self {
        let state = P::begin(&definition);
        Self { definition: Arc::new(definition), state, document: Arc::new(document) }
    }

    /// Returns the typed machine of a run; `None` if the run has another protocol.
    pub fn of(machine: &dyn Machine) -> Option<&Self> {
        machine.as_any().downcast_ref()
    }

    fn step(&self, id: &StepId) -> P::Step {
        P::step(&self.definition, &self.state, id)
            .unwrap_or_else(|| panic!("BUG: the run has no step `{id}`"))
    }
}

impl<P: Present> Machine for TypedMachine<P> {
    fn kind(&self) -> &'static dyn ProtocolKind {
        protocol_kind::<P>()
    }

    fn boxed_clone(&self) -> Box<dyn Machine> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn definition(&self) -> Box<RawValue> {
        raw(&*self.definition)
    }

    fn decide(&self, event: Event) -> Move {
        let event = match event {
            Event::Opened => Event::Opened,
            Event::Reported { step, verdict } => Event::Reported {
                step: self.step(&step),
                verdict: P::Verdict::deserialize(verdict).expect("BUG: a verdict of ours cannot be read"),
            },
            Event::Exhausted { step } => Event::Exhausted { step: self.step(&step) },
            Event::Retried { steps } => {
                Event::Retried { steps: steps.iter().map(|step| self.step(step)).collect() }
            }
            Event::Skipped { step } => Event::Skipped { step: self.step(&step) },
        };
        erase::<P>(P::decide(&self.definition, &self.state, event))
    }

    fn consider(&self, request: &Value, outcome: Option<Outcome>) -> Result<Move, Refusal> {
        let request = P::Request::deserialize(request).map_err(|_| Refusal::NoSuchRequest(P::NAME))?;
        Ok(erase::<P>(P::consider(&self.definition, &self.state, &request, outcome)?))
    }

    fn deferred(&self) -> Option<Deferred> {
        let Deferred { must_be_idle, transition } = P::deferred(&self.definition, &self.state)?;
        Some(Deferred {
            must_be_idle: must_be_idle.iter().map(P::step_id).collect(),
            transition: erase::<P>(transition),
        })
    }

    fn on_stop(&self) -> Option<Move> {
        P::on_stop(&self.definition, &self.state).map(erase::<P>)
    }

    fn apply(&mut self, change: &Value) -> Result<(), serde_json::Error> {
        P::apply(&mut self.state, &P::Change::deserialize(change)?);
        Ok(())
    }

    fn can_apply(&self, change: &Value) -> bool {
        P::Change::deserialize(change)
            .is_ok_and(|change| P::can_apply(&self.definition, &self.state, &change))
    }

    fn progress(&self) -> Progress {
        P::progress(&self.definition, &self.state)
    }

    fn state(&self) -> Box<RawValue> {
        raw(&self.state)
    }

    fn set_state(&mut self, state: &RawValue) -> Result<(), serde_json::Error> {
        self.state = serde_json::from_str(state.get())?;
        Ok(())
    }

    fn has_state_of(&self, other: &dyn Machine) -> bool {
        Self::of(other).is_some_and(|other| self.state == other.state)
    }

    fn steps(&self) -> Vec<StepId> {
        P::steps(&self.definition, &self.state).iter().map(P::step_id).collect()
    }

    fn has_step(&self, step: &StepId) -> bool {
        P::step(&self.definition, &self.state, step).is_some()
    }

    fn items(&self, step: &StepId) -> Vec<StepId> {
        P::items(&self.definition, &self.state, &self.step(step)).iter().map(P::step_id).collect()
    }

    fn step_kind(&self, step: &StepId) -> StepKind {
        P::step_kind(&self.definition, &self.state, &self.step(step))
    }

    fn step_status(&self, step: &StepId) -> StepStatus {
        P::step_status(&self.definition, &self.state, &self.step(step))
    }

    fn failed_steps(&self) -> Vec<StepId> {
        P::failed_steps(&self.definition, &self.state).iter().map(P::step_id).collect()
    }

    fn max_attempts(&self, step: &StepId) -> NonZeroU32 {
        P::max_attempts(&self.definition, &self.state, &self.step(step))
    }

    fn start_order(&self, step: &StepId) -> usize {
        P::start_order(&self.definition, &self.state, &self.step(step))
    }

    fn agent(&self, step: &StepId) -> String {
        P::agent(&self.definition, &self.state, &self.step(step))
    }

    fn needs(&self, step: &StepId) -> Vec<StepId> {
        P::needs(&self.definition, &self.state, &self.step(step)).iter().map(P::step_id).collect()
    }

    fn loop_back(&self, step: &StepId) -> Option<LoopBack> {
        let LoopBack { to, max_iterations } = P::loop_back(&self.definition, &self.state, &self.step(step))?;
        Some(LoopBack { to: P::step_id(&to), max_iterations })
    }

    fn details(&self, step: &StepId) -> StepDetails {
        P::details(&self.definition, &self.step(step))
    }

    fn unblocks_dependents(&self, step: &StepId) -> bool {
        P::unblocks_dependents(&self.definition, &self.state, &self.step(step))
    }

    fn report_from_stdout(&self, step: &StepId, stdout: &str) -> Option<Map<String, Value>> {
        P::report_from_stdout(&self.step(step), stdout)
    }

    fn remove_unauthorized(&self, step: &StepId, report: &mut Report) -> Vec<String> {
        P::remove_unauthorized(&self.definition, &self.document, &self.step(step), report)
    }

    fn parse_report(&self, step: &StepId, report: &Report) -> ParsedReport {
        match P::parse_report(&self.definition, &self.document, &self.step(step), report) {
            ParsedReport::Verdict(verdict) => ParsedReport::Verdict(json(&verdict)),
            ParsedReport::Failed(why) => ParsedReport::Failed(why),
            ParsedReport::Invalid(why) => ParsedReport::Invalid(why),
        }
    }

    fn brief(&self, step: &StepId, counted_attempt: u32) -> Brief {
        P::brief(&self.definition, &self.document, &self.step(step), counted_attempt)
    }

    fn question(&self, step: &StepId) -> Option<Question> {
        P::question(&self.definition, &self.document, &self.step(step))
    }

    fn conditions(&self, step: &StepId) -> Vec<String> {
        P::conditions(&self.definition, &self.state, &self.step(step))
    }

    fn answer_file(&self, step: &StepId) -> Option<AnswerFile> {
        P::answer_file(&self.definition, &self.document, &self.step(step))
    }

    fn parse_answer_file(&self, step: &StepId, text: &str) -> Result<Option<Answer>, String> {
        P::parse_answer_file(&self.definition, &self.document, &self.step(step), text)
    }

    fn parse_answer(&self, step: &StepId, answer: &Answer) -> Result<Value, String> {
        let verdict = P::parse_answer(&self.definition, &self.document, &self.step(step), answer)?;
        Ok(json(&verdict))
    }

    fn effect(&self, step: &StepId) -> Option<Effect> {
        P::effect(&self.definition, &self.document, &self.step(step))
    }

    fn import(&self, document: &Value) -> Result<Move, ImportRefusal> {
        P::import(&self.definition, document).map(erase::<P>)
    }

    fn document(&self) -> Document {
        Document::new::<P>(Arc::clone(&self.document))
    }

    fn set_document(&mut self, document: Document) {
        self.document = document.typed::<P>();
    }

    fn assemble(&self, parts: &[(String, String)]) -> Option<Document> {
        P::assemble(&self.definition, parts).map(|document| Document::new::<P>(Arc::new(document)))
    }

    fn record(&mut self, entry: &Entry) -> Result<Vec<String>, RecordError> {
        let entry = entry.typed::<P>().map_err(|error| RecordError(error.to_string()))?;
        P::record(&self.definition, Arc::make_mut(&mut self.document), &entry)
    }

    fn part(&self, path: &str) -> String {
        P::part(&self.document, path)
    }

    fn check_write(&self, old: Option<&Document>) -> Result<(), RecordError> {
        let old = old.map(Document::typed::<P>);
        P::check_write(old.as_deref(), &self.document)
    }

    fn edit(
        &self,
        based_on: &Document,
        author: &EditAuthor,
        patch: &Patch,
    ) -> Result<Option<Value>, EditRefusal> {
        let author = match author {
            EditAuthor::Step(step) => EditAuthor::Step(self.step(step)),
            EditAuthor::Outside => EditAuthor::Outside,
        };
        let edit = P::edit(&self.definition, &based_on.typed::<P>(), &self.document, &author, patch)?;
        Ok(edit.as_ref().map(json))
    }

    fn external_edit(&self, shown: &Value, found: &Value) -> Result<Value, EditRefusal> {
        let edit = P::external_edit(&self.definition, &self.document, shown, found)?;
        Ok(json(&edit))
    }

    fn partial_output_patch(&self, step: &StepId, content: Value) -> Option<Patch> {
        P::partial_output_patch(&self.step(step), content)
    }

    fn report_view_path(&self, step: &StepId) -> Option<String> {
        P::report_view_path(&self.document, &self.step(step))
    }

    fn shows_report(&self, step: &StepId, report: &Report) -> bool {
        P::shows_report(&self.definition, &self.step(step), report)
    }

    fn reported_steps(&self) -> Vec<StepId> {
        P::reported_steps(&self.document).iter().map(P::step_id).collect()
    }

    fn about(&self) -> Vec<String> {
        P::about(&self.definition, &self.document)
    }

    fn created_at(&self) -> Timestamp {
        P::created_at(&self.document)
    }

    fn step_summary(&self, step: &StepId) -> StepSummary {
        P::step_summary(&self.document, &self.step(step))
    }

    fn result(&self) -> Vec<Line> {
        P::result(&self.document)
    }

    fn result_fields(&self) -> Map<String, Value> {
        P::result_fields(&self.document)
    }

    fn failure_hint(&self, run: &RunId) -> String {
        P::failure_hint(&self.definition, run, &self.document)
    }

    fn retry_command(&self, run: &RunId) -> String {
        P::retry_command(&self.definition, run, &self.document)
    }

    fn stalled(&self, now: Timestamp) -> Vec<(StepId, String)> {
        let stalled = P::stalled(&self.definition, &self.document, now).into_iter();
        stalled.map(|(step, why)| (P::step_id(&step), why)).collect()
    }

    fn step_table(&self) -> Option<StepTable> {
        let StepTable { columns, rows } = P::step_table(&self.definition, &self.state, &self.document)?;
        let cell_ids =
            |cells: Vec<Option<P::Step>>| cells.iter().map(|cell| cell.as_ref().map(P::step_id)).collect();
        let rows = rows.into_iter().map(|StepTableRow { name, cells, note }| StepTableRow {
            name,
            cells: cell_ids(cells),
            note,
        });
        Some(StepTable { columns, rows: rows.collect() })
    }

    fn open_items(&self) -> Vec<OpenItem> {
        let items = P::open_items(&self.document).into_iter();
        items
            .map(|OpenItem { step, item, question, hint }| OpenItem {
                step: P::step_id(&step),
                item,
                question,
                hint,
            })
            .collect()
    }
}

/// Converts a move: its changes to JSON, its steps to their ids.
fn erase<P: Protocol>(Move { changes, next }: Move<P::Change, P::Step>) -> Move {
    let ids = |steps: Vec<P::Step>| steps.iter().map(P::step_id).collect();
    let next = match next {
        Next::Queue(steps) => Next::Queue(ids(steps)),
        Next::QueueUnlessInTurn(steps) => Next::QueueUnlessInTurn(ids(steps)),
        Next::Drain(outcome) => Next::Drain(outcome),
        Next::Finish(outcome) => Next::Finish(outcome),
    };
    Move { changes: changes.iter().map(json).collect(), next }
}

pub(crate) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("BUG: the types of a protocol are plain data")
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    value::to_raw_value(value).expect("BUG: the types of a protocol are plain data")
}
