//! The explorer: it visits every state a run can be in, and holds each against what must always be so.
//!
//! Generic over protocols. What it needs to know beyond the engine's knowledge, a protocol says in [`Explored`]. A
//! [`Scene`] is one definition with a number of places; [`Scene::explore`] goes breadth first through everything that
//! could come in, [`Scene::walk`] goes far at random where that is too much. Either finds nothing, or a
//! [`CounterExample`]: the rule that broke and the shortest way there. [`Exploration`] prints what was seen as a table
//! and as a diagram, for people: rules catch broken machines, only readers catch a machine that keeps the wrong rules.
//!
//! What is left out on purpose: turn and try numbers (they only name attempts, and would make the states endless), more
//! than two requests on a path, more than one interruption of a turn (the limit has a test of its own), and time.

mod broken;
mod course;
mod document;
mod entry;
mod input;
mod invariants;
mod notation;
pub mod peer;
mod print;
mod scene;
mod search;
pub mod steps;
mod transition;
mod walk;
mod writing;

pub use broken::{Broken, CounterExample};
pub use course::Course;
pub use input::{Input, Interruptions};
pub use scene::{Scene, Scheduling, Slots};
pub use search::{Exploration, Limits, Rows};
pub use transition::Transition;
pub use walk::{Walked, Walks};
pub use writing::{Rights, Writing};

use protocol::Protocol;
use protocol::report::Report;
use protocol::run::Run;

/// What the explorer must know of a protocol, and cannot ask the engine's own trait for.
pub trait Explored: Protocol {
    /// Every step that may ever be asked, in the order in which people want to see them.
    fn steps(definition: &Self::Definition) -> Vec<Self::Step>;

    /// Everything a valid report of this step can say.
    fn verdicts(definition: &Self::Definition, step: &Self::Step) -> Vec<Self::Verdict>;

    /// A report that says so.
    fn report(definition: &Self::Definition, step: &Self::Step, verdict: &Self::Verdict) -> Report;

    /// The verdict in a word or two.
    fn say_verdict(verdict: &Self::Verdict) -> String;

    /// How far the step is, in a mark or two, when it is not in a turn; and what of its past decides about its future.
    fn say_step(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> StepNotation;

    /// The change in a word or two.
    fn say_change(change: &Self::Change) -> String;

    /// Where the document stands, in a word or two, where the run alone does not say it; for the diagram of its writes, too.
    fn say_document(_: &Self::Document) -> Option<String> {
        None
    }

    /// What could be written into the document, whether or not it may; nothing where only the engine writes.
    fn writings(_: &Run<Self>, _: &Self::Document) -> Vec<Writing<Self::Step>> {
        Vec::new()
    }

    /// Where the document shows something else than the run.
    fn compare(definition: &Self::Definition, run: &Run<Self>, document: &Self::Document) -> Vec<String>;

    /// What must hold in this protocol over and above what holds in all.
    fn inspect(definition: &Self::Definition, transition: &Transition<'_, Self>) -> Vec<Broken>;
}

/// A step in the notation of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepNotation {
    /// One character: done, failed, …
    pub mark: &'static str,
    /// What stands behind the step's name, such as how often it was sent back; usually empty.
    pub note: String,
}
