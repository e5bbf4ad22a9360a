//! The `cycle` protocol: iterations of requirements, exploration, code and validation.
//!
//! An iteration has four phases, one for each role: `ra` writes the requirements, `ep` explores and plans, `cd` codes,
//! `vas` validates. What fails feeds the next iteration, until nothing is open or the limit is reached. A user may extend a
//! cycle, which opens another iteration, also after its end.
//!
//! Not to be confused with the cycles of `peer`, which are runs of four other phases.

mod brief;
mod check;
mod decide;
mod definition;
pub mod document;
mod import;
mod layout;
mod present;
mod rebuild;
mod record;
mod report;
mod state;
mod step;

use std::num::NonZeroU32;

use serde_json::{Map, Value, json};

pub use check::check;
pub use decide::{AnsweredBy, Change, Request};
pub use definition::{
    DEFAULT_MAX_ITERATIONS, DEFAULT_UTC_OFFSET, DecisionMode, Definition, MAX_PARALLEL, MergeMode, Overlap,
};
pub use document::{AgentStatus, Document, MasterFile, Phase, Status, merge_partial, times};
pub use import::PROGRESS_FILES_KEY;
pub use layout::DIRECTORY;
pub use rebuild::{Rebuilt, rebuild};
pub use report::{PhaseResult, phase_result};
pub use state::{FailureCause, Finding, ItemState, ItemStatus, Stage, State, Task, TaskProgress};
pub use step::{Completeness, PlannedTask, Problems, Raised, RaisedItem, RaisedKind, Role, Step, Verdict};

use crate::brief::Brief;
use crate::check::Violation;
use crate::entry::Entry;
use crate::people::{Answer, AnswerOption, InboxItemKind, Question};
use crate::protocol_trait::{
    Deferred, Effect, Event, ImportRefusal, Move, Never, Outcome, ParsedReport, Protocol, RecordError,
    RequestRefusal, RunLocation, StepKind, StepStatus, View,
};
use crate::report::Report;
use crate::{StepId, Timestamp};

/// The protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cycle {}

impl Protocol for Cycle {
    const NAME: &'static str = "cycle";
    const REVERTS_VIEW_EDITS: bool = true;
    const REFUSES_NOOP_REQUESTS: bool = true;

    type Definition = Definition;
    type State = State;
    type Change = Change;
    type Step = Step;
    type Verdict = Verdict;
    type Document = Document;
    type Edit = Never;
    type Request = Request;

    fn begin(definition: &Definition) -> State {
        State::new(definition)
    }

    fn decide(definition: &Definition, state: &State, event: Event<Step, Verdict>) -> Move<Change, Step> {
        decide::decide(definition, state, event)
    }

    fn consider(
        definition: &Definition,
        state: &State,
        request: &Request,
        outcome: Option<Outcome>,
    ) -> Result<Move<Change, Step>, RequestRefusal> {
        decide::consider(definition, state, request, outcome)
    }

    fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, Step>> {
        decide::deferred(definition, state)
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

    fn steps(definition: &Definition, state: &State) -> Vec<Step> {
        state.steps(definition)
    }

    fn step(definition: &Definition, state: &State, id: &StepId) -> Option<Step> {
        let step = Step::parse(id)?;
        let is_known = match &step {
            // Tasks of earlier iterations had turns, too.
            Step::Phase(_) | Step::Task(_) | Step::Merge(_) => true,
            Step::Explore | Step::Baseline | Step::Test | Step::FastForward | Step::Answer(_) => {
                state.steps(definition).contains(&step)
            }
        };
        is_known.then_some(step)
    }

    fn step_id(step: &Step) -> StepId {
        step.id()
    }

    fn step_kind(definition: &Definition, _: &State, step: &Step) -> StepKind {
        step.kind(definition)
    }

    fn step_status(definition: &Definition, state: &State, step: &Step) -> StepStatus {
        state.status(definition, step)
    }

    fn failed_steps(definition: &Definition, state: &State) -> Vec<Step> {
        state.failed_step(definition).into_iter().collect()
    }

    fn max_attempts(definition: &Definition, _: &State, _: &Step) -> NonZeroU32 {
        definition.max_attempts
    }

    fn report_from_stdout(step: &Step, stdout: &str) -> Option<Map<String, Value>> {
        let PhaseResult { phase, is_failed, mut fields } = phase_result(stdout)?;
        if phase.is_some() && phase != step.role() {
            return None;
        }
        fields.insert("status".to_owned(), if is_failed { "FAILED" } else { "COMPLETED" }.into());
        Some(fields)
    }

    fn parse_report(
        _: &Definition,
        document: &Document,
        step: &Step,
        report: &Report,
    ) -> ParsedReport<Verdict> {
        report::parse(document, step, report)
    }

    fn brief(definition: &Definition, document: &Document, step: &Step, counted_attempt: u32) -> Brief {
        brief::brief(definition, document, step, counted_attempt)
    }

    fn question(_: &Definition, document: &Document, step: &Step) -> Option<Question> {
        let Step::Answer(item) = step else { return None };
        let coordination = &document.master_file.coordination;
        match item {
            RaisedItem::Decision(_) => {
                let decision = coordination.pending_decisions.iter().find(|known| known.id == item.id())?;
                let recommended = decision.unknown.get("recommended").and_then(Value::as_str);
                let hint = recommended.map(|option| format!(" (recommended: {option})")).unwrap_or_default();
                Some(Question {
                    kind: InboxItemKind::Decision,
                    text: format!("{}{hint}", decision.description),
                    options: decision.options.iter().cloned().map(AnswerOption::Plain).collect(),
                })
            }
            RaisedItem::Blocker(_) => {
                let blocker = coordination.blockers.iter().find(|known| known.id == item.id())?;
                Some(Question {
                    kind: InboxItemKind::Blocker,
                    text: blocker.description.clone(),
                    options: Vec::new(),
                })
            }
        }
    }

    fn parse_answer(
        _: &Definition,
        document: &Document,
        step: &Step,
        answer: &Answer,
    ) -> Result<Verdict, String> {
        let Step::Answer(item) = step else { return Err(format!("`{step}` asks no person")) };
        match (item, answer) {
            (RaisedItem::Decision(_), Answer::Choose { option, .. }) => {
                let decisions = &document.master_file.coordination.pending_decisions;
                let decision = decisions.iter().find(|known| known.id == item.id());
                let options = decision.map(|decision| decision.options.as_slice()).unwrap_or_default();
                if options.contains(option) {
                    return Ok(Verdict::Answered);
                }
                Err(format!("`{option}` is not an option; choose one of {}", options.join(", ")))
            }
            (RaisedItem::Decision(_), _) => Err("answer `choose OPTION`".to_owned()),
            (RaisedItem::Blocker(_), Answer::Resolve { .. } | Answer::Workaround { .. }) => {
                Ok(Verdict::Answered)
            }
            (RaisedItem::Blocker(_), _) => Err("answer `resolve` or `workaround --text HOW`".to_owned()),
        }
    }

    fn effect(_: &Definition, _: &Document, step: &Step) -> Option<Effect> {
        match step {
            Step::Merge(task) => Some(Effect {
                name: "merge",
                arguments: json!({ "worktree": brief::worktree_name(task.as_str()) }),
            }),
            Step::FastForward => Some(Effect { name: "fast-forward", arguments: json!({}) }),
            Step::Phase(_)
            | Step::Explore
            | Step::Baseline
            | Step::Test
            | Step::Task(_)
            | Step::Answer(_) => None,
        }
    }

    fn import(definition: &Definition, document: &Value) -> Result<Move<Change, Step>, ImportRefusal> {
        import::import(definition, document)
    }

    fn open_document(definition: &Definition, location: &RunLocation, at: Timestamp) -> Document {
        Document::open(definition, location, at)
    }

    fn record(
        _: &Definition,
        document: &mut Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, RecordError> {
        Ok(record::record(document, entry))
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
        check(&crate::machine::json(document))
    }

    fn views(document: &Document) -> Vec<View> {
        layout::views(document)
    }
}
