//! The explorer visits every state that a run can be in and checks the rules that must hold in each.
//!
//! It is generic over protocols; [`Explored`] is what a protocol adds. A [`Model`] is one definition with a number of
//! slots: how many attempts may run at once. [`Model::explore`] searches breadth first through every possible input.
//! [`Model::walk`] walks at random where the states are too many. Both return counts, or a [`CounterExample`]: the
//! violated rule and the path to it.
//! [`Exploration`] prints tables and diagrams for people: the rules find a broken state machine, but only a reader
//! finds one that implements the wrong thing.
//!
//! Not explored:
//! * turn and attempt numbers: they only name attempts, and with them the states would be infinite;
//! * more than two requests on a path, in larger models;
//! * more than one interruption of a turn: the limit has a test of its own;
//! * time.

mod checks;
pub mod cycle;
mod entry;
mod input;
pub mod issue;
mod model;
pub mod peer;
mod render;
mod search;
pub mod steps;
pub mod team;
mod team_files;
mod transition;
mod walk;
mod write_input;

pub use checks::{CounterExample, Violation};
pub use input::{Input, Interruptions};
pub use model::{Model, Scheduling, Slots};
pub use render::DocumentChanges;
pub use search::{Exploration, KeepRows, Limits};
pub use team_files::TeamSchemas;
pub use transition::Transition;
pub use walk::{WalkParams, WalkStats};
pub use write_input::{WriteInput, WritePermission};

use protocol::present::Present;
use protocol::report::Report;
use protocol::run::Run;
use protocol::{Answer, TypedMachine};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What the explorer needs of a protocol besides the engine's own trait.
pub trait Explored: Present {
    /// Every verdict that a valid report of this step, or an answer to its question, can have.
    fn verdicts(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> Vec<Self::Verdict>;

    /// A report with this verdict.
    fn report(definition: &Self::Definition, step: &Self::Step, verdict: &Self::Verdict) -> Report;

    /// An answer with this verdict, if a person works on the step.
    fn answer(_: &Self::Definition, _: &Self::Step, verdict: &Self::Verdict) -> Answer {
        Answer::Text { text: Self::describe_verdict(verdict) }
    }

    /// A report with this verdict. Overridden by protocols whose reports depend on the state.
    fn report_in_state(
        definition: &Self::Definition,
        _: &Self::State,
        step: &Self::Step,
        verdict: &Self::Verdict,
    ) -> Report {
        Self::report(definition, step, verdict)
    }

    /// An answer with this verdict. Overridden by protocols whose questions depend on the state.
    fn answer_in_state(
        definition: &Self::Definition,
        _: &Self::State,
        step: &Self::Step,
        verdict: &Self::Verdict,
    ) -> Answer {
        Self::answer(definition, step, verdict)
    }

    /// The requests that only this protocol has, also those that it must refuse in this state.
    fn requests(_: &Self::Definition, _: &Self::State) -> Vec<Self::Request> {
        Vec::new()
    }

    /// The verdict in a word or two.
    fn describe_verdict(verdict: &Self::Verdict) -> String;

    /// The notation of a step that has no turn: its status, and counters that later decisions depend on.
    fn describe_step(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> StepNotation;

    /// The change in a word or two.
    fn describe_change(change: &Self::Change) -> String;

    /// The status of the document in a word or two, such as `plan in_progress`. `None` if the run alone determines the
    /// document.
    fn describe_document(_: &Self::Document) -> Option<String> {
        None
    }

    /// The possible writes to the document, permitted or not. Empty if only the engine writes.
    fn writes(_: &Run, _: &Self::Document) -> Vec<WriteInput> {
        Vec::new()
    }

    /// Differences between the run and the document that the machine has written about it.
    fn document_differences(run: &Run, machine: &TypedMachine<Self>) -> Vec<String>;

    /// Checks the rules of this protocol for one transition. Returns those that do not hold.
    fn check_rules(definition: &Self::Definition, transition: &Transition<'_, Self>) -> Vec<Violation>;
}

/// Returns the definition, the state and the document of a run.
pub(crate) fn typed<P: Explored>(run: &Run) -> &TypedMachine<P> {
    TypedMachine::of(&*run.machine).expect("BUG: the run is of another protocol")
}

/// Returns a verdict or a request as the journal has it.
fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("BUG: the types of a protocol are plain data")
}

/// Reads a verdict or a request that [`to_json`] returned.
fn from_json<T: DeserializeOwned>(value: &Value) -> T {
    T::deserialize(value).expect("BUG: it was written by ourselves")
}

/// A step in the notation of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepNotation {
    /// One character: done, failed, …
    pub symbol: &'static str,
    /// What follows the step's name, such as the number of loop-backs. Usually empty.
    pub note: String,
}
