//! The [`Protocol`] trait: a transition table that decides, and a document that shows the run.
//!
//! A protocol deals with steps and verdicts only. Attempts, retries, stale facts, pausing and stopping are implemented once
//! for all protocols, in [`run`](crate::run).

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::num::NonZeroU32;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::brief::Brief;
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::entry::Entry;
use crate::report::Report;
use crate::{RunId, Stamp, StepId};

/// Attempts of a step whose limit is not configured.
pub const DEFAULT_MAX_ATTEMPTS: NonZeroU32 = NonZeroU32::new(2).expect("BUG: two is not zero");

/// What a protocol decides about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<S, V> {
    /// The run was opened.
    Opened,
    /// A turn of the step ended with a valid report.
    Reported { step: S, verdict: V },
    /// The step has no attempts left.
    Exhausted { step: S },
    /// A user retries these failed steps.
    Retried { steps: Vec<S> },
    /// A user skips the step: the run continues as if it had succeeded.
    Skipped { step: S },
}

/// A protocol's decision: how its state changes, and what the run does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move<C, S> {
    pub changes: Vec<C>,
    pub next: Next<S>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<S> {
    /// Start a turn of these steps, in this order. Empty if other steps are still to report.
    Queue(Vec<S>),
    /// Start a turn of these steps, except those that are in one.
    Requeue(Vec<S>),
    /// Start nothing more, and finish the run when all attempts have ended by themselves.
    Drain(Outcome),
    /// Stop all attempts, and finish the run when none is alive.
    Finish(Outcome),
}

/// A transition that a protocol makes without an event, once certain steps have no attempt alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred<C, S> {
    /// Steps that must have no attempt alive. None of them starts until then, and queued ones then lose their turn.
    pub quiet: BTreeSet<S>,
    pub then: Move<C, S>,
}

/// The status of a step, as far as `retry` and `skip` need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepStatus {
    /// Neither succeeded, skipped nor failed; it may be in a turn.
    Unfinished,
    Succeeded,
    Skipped,
    Failed,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    /// Ended by the protocol's own rules with something left open, such as an unsuccessful review.
    Incomplete,
    Failed,
}

/// A report, read by the rules of its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParsedReport<V> {
    Verdict(V),
    /// The report says that the attempt failed, and why.
    Failed(String),
    /// The report lacks what the protocol requires of this step.
    Invalid(String),
}

/// Where a run is located: all that a document contains of the outside world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct RunLocation {
    pub run: RunId,
    /// Absolute path of the repository, without a trailing slash.
    pub repo_dir: String,
}

impl RunLocation {
    /// The directories of all runs, relative to the repository, as a pattern for `info/exclude`.
    pub const EXCLUDED: &str = "/.agents/runs/";

    /// Returns `<repo>/.agents/runs/<run>`.
    pub fn run_dir(&self) -> String {
        format!("{}{}{}", self.repo_dir, Self::EXCLUDED, self.run)
    }

    /// Returns the directory for files that agents produce.
    pub fn artifacts_dir(&self) -> String {
        format!("{}/artifacts", self.run_dir())
    }
}

/// One file that shows a part of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Absolute path.
    pub path: String,
    pub body: String,
}

/// The bounds of everything that goes into an entry.
pub trait EntryData:
    Clone + Debug + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}
impl<T: Clone + Debug + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static> EntryData
    for T
{
}

/// One protocol.
pub trait Protocol: Sized + Debug + Clone + PartialEq + Eq + 'static {
    /// The word for it on the command line and in the store.
    const NAME: &'static str;
    /// Whether a step can be skipped.
    const SKIPS: bool;
    /// Whether every write of the document is [checked](Self::check_write) before it is committed, which takes a copy of
    /// the document.
    const CHECKS_WRITES: bool;
    /// Whether the store publishes the whole document for other clients, if it can.
    const SHOWS_DOCUMENT: bool;

    /// What a run is started with; it never changes.
    type Definition: Debug + Serialize + DeserializeOwned + Send + Sync;
    /// What `decide` needs, and nothing else: no time, no text, no unbounded number.
    type State: EntryData + Hash;
    /// One transition of the state.
    type Change: EntryData;
    type Step: EntryData + Ord + Hash + Display;
    type Verdict: EntryData;
    /// The seed's JSON document, typed.
    type Document: Debug + Clone + PartialEq + Serialize + Send;
    /// A change of the document that does not change the run; [`NoEdit`](crate::edit::NoEdit) if only the engine writes it.
    type Edit: EntryData;

    // Deciding.
    fn begin(definition: &Self::Definition) -> Self::State;
    fn decide(
        definition: &Self::Definition,
        state: &Self::State,
        event: Event<Self::Step, Self::Verdict>,
    ) -> Move<Self::Change, Self::Step>;
    /// Returns the transition that is to be made without an event, as soon as the steps it names have no attempt alive.
    fn deferred(
        definition: &Self::Definition,
        state: &Self::State,
    ) -> Option<Deferred<Self::Change, Self::Step>>;
    /// Returns what a stop request does to the run; `None` if the run only stops and can be resumed.
    fn on_stop(definition: &Self::Definition, state: &Self::State) -> Option<Move<Self::Change, Self::Step>>;
    fn apply(state: &mut Self::State, change: &Self::Change);
    fn step_status(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> StepStatus;
    /// Returns the steps that failed, in the protocol's order.
    fn failed_steps(definition: &Self::Definition, state: &Self::State) -> Vec<Self::Step>;
    /// Returns whether the definition has this step.
    fn has_step(definition: &Self::Definition, step: &Self::Step) -> bool;
    /// Returns whether `change` can be applied. Used for entries of damaged or foreign files, before they are folded.
    fn admits(definition: &Self::Definition, state: &Self::State, change: &Self::Change) -> bool;
    /// Returns how many failed attempts end a turn.
    fn max_attempts(definition: &Self::Definition, step: &Self::Step) -> NonZeroU32;
    /// Returns the position of a step in the order in which queued steps are started.
    fn rank(definition: &Self::Definition, step: &Self::Step) -> usize;

    // Steps and the outside world.
    fn step_id(step: &Self::Step) -> StepId;
    fn parse_report(
        definition: &Self::Definition,
        document: &Self::Document,
        step: &Self::Step,
        report: &Report,
    ) -> ParsedReport<Self::Verdict>;
    /// Returns all that an attempt is given. `counted_attempt` is its number among those that count towards
    /// [`max_attempts`](Self::max_attempts).
    fn brief(
        definition: &Self::Definition,
        document: &Self::Document,
        step: &Self::Step,
        counted_attempt: u32,
    ) -> Brief;

    /// Reads a foreign document as a state of this protocol. Returns the changes that lead to it and what is next.
    fn import(
        definition: &Self::Definition,
        document: &serde_json::Value,
    ) -> Result<Move<Self::Change, Self::Step>, ImportRefusal>;

    // Editing.
    /// Returns the document's own count of its changes, if it has one.
    fn sequence(document: &Self::Document) -> Option<u64>;
    /// Returns the last entry of the history that the document contains, if it has one.
    fn last_change(document: &Self::Document) -> Option<serde_json::Value>;
    /// Turns a patch into an edit of the `current` document. `based_on` is the document that the author had read. Returns
    /// `None` if the patch would change nothing.
    fn edit(
        definition: &Self::Definition,
        based_on: &Self::Document,
        current: &Self::Document,
        author: &EditAuthor<Self::Step>,
        patch: &Patch,
    ) -> Result<Option<Self::Edit>, EditRefusal>;

    /// Turns an external write of another client of the store into an edit. `shown` is the document that the client could
    /// read, `found` is what it wrote.
    fn external_edit(
        _definition: &Self::Definition,
        _current: &Self::Document,
        _shown: &serde_json::Value,
        _found: &serde_json::Value,
    ) -> Result<Self::Edit, EditRefusal> {
        Err(EditRefusal::EngineOnly)
    }

    /// Returns the patch that records partial output of a step; `None` if the document has no field for it.
    fn partial_patch(step: &Self::Step, content: serde_json::Value) -> Option<Patch>;

    // Showing.
    fn open_document(definition: &Self::Definition, location: &RunLocation, at: Stamp) -> Self::Document;
    /// Applies an entry to the document and returns the paths of the parts that changed. On an error the document stays as
    /// it is.
    fn record(
        definition: &Self::Definition,
        document: &mut Self::Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, RecordError>;
    /// Returns the JSON text of one part.
    fn part(document: &Self::Document, path: &str) -> String;
    /// Assembles a document from its parts; `None` if a part is missing or malformed.
    fn assemble(definition: &Self::Definition, parts: &[(String, String)]) -> Option<Self::Document>;
    /// Checks a write against the rules of the seed, as if it came from another client.
    fn check_write(old: Option<&Self::Document>, new: &Self::Document) -> Result<(), RecordError>;
    /// Assembles a document from its parts alone; `None` if the protocol needs the definition, or a part is missing or
    /// malformed.
    fn assemble_without_definition(_parts: &[(String, String)]) -> Option<Self::Document> {
        None
    }
    /// Returns the rules of the seed that a stored document violates, as far as they are cheap enough to be checked at every
    /// load.
    fn violations(document: &Self::Document) -> Vec<Violation>;
    /// Returns the file that shows the whole document, if the layout has one.
    fn view(document: &Self::Document) -> Option<View>;
    /// Returns the path of the file that shows the report of a step's latest attempt, if the layout has one.
    fn report_path(document: &Self::Document, step: &Self::Step) -> Option<String>;
    /// Returns the steps that have a report to show.
    fn reported_steps(document: &Self::Document) -> Vec<Self::Step>;
    /// Returns how many steps are done, and how many there are.
    fn progress(definition: &Self::Definition, state: &Self::State) -> Progress;
}

/// Why an entry cannot be applied to the document. No decision causes this: the journal is damaged, or there is a bug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the document would violate its rules: {0}")]
pub struct RecordError(pub String);

/// Why a foreign document cannot become a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportRefusal {
    #[error("it violates {} of its rules", .0.len())]
    Broken(Vec<Violation>),
    #[error("its steps are not those of the workflow: {0}")]
    OtherSteps(String),
    #[error("its sequence {0} cannot be increased any further")]
    NoRoom(u64),
}

/// How many steps of a run are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
}
