//! What a protocol is to the rest of the program: a table that decides, and a document that shows.
//!
//! A protocol knows only steps and verdicts. Which attempts are alive, how often a step was tried, which news is stale, what
//! pausing and stopping mean: that is the [run](crate::run)'s, once for all protocols.

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::num::NonZeroU32;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::brief::Brief;
use crate::check::Violation;
use crate::edit::{EditAuthor, Patch, Uneditable};
use crate::entry::Entry;
use crate::report::Report;
use crate::{RunId, Stamp, StepId};

/// Tries per step unless something says otherwise.
pub const DEFAULT_MAX_ATTEMPTS: NonZeroU32 = NonZeroU32::new(2).expect("BUG: two is not zero");

/// What the run tells a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<S, V> {
    /// The run opens, or opens again: whom to ask?
    Opened,
    /// The step's turn ended with a valid report.
    Reported { step: S, verdict: V },
    /// The step's tries are used up.
    Exhausted { step: S },
    /// Somebody wants these failed steps to be asked again.
    Retried { steps: Vec<S> },
    /// Somebody wants the run to go on as if the step had been there.
    Skipped { step: S },
}

/// What a protocol answers: how its own state changes, and what is next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move<C, S> {
    pub changes: Vec<C>,
    pub next: Next<S>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<S> {
    /// Ask these steps, in this order; none means that others are still to report.
    Queue(Vec<S>),
    /// Ask these steps, except those that are in a turn.
    Requeue(Vec<S>),
    /// The run is over when all who play have ended by themselves; nothing more starts.
    Drain(Outcome),
    /// The run is over as soon as nobody is alive.
    Finish(Outcome),
}

/// What a protocol does of its own accord, once some steps are quiet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred<C, S> {
    /// Until then none of these starts; then those that wait lose their turn.
    pub quiet: BTreeSet<S>,
    pub then: Move<C, S>,
}

/// Where a step stands, as far as people may do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StepStatus {
    /// Not done yet; it may be in a turn.
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
    /// Ended by its own rules with something left open, such as a review that was not content.
    Incomplete,
    Failed,
}

/// What a valid report says in the step's own vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading<V> {
    Verdict(V),
    /// The step itself says that this attempt failed, and why.
    Failed(String),
    /// The report lacks what this protocol asks of the step.
    Unfit(String),
}

/// Where a run takes place: all that a document needs to know of the outside world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct RunLocation {
    pub run: RunId,
    /// Absolute path of the repository, without a trailing slash.
    pub repo_dir: String,
}

impl RunLocation {
    /// What git is told to ignore, relative to the repository: the directories of all runs.
    pub const EXCLUDED: &str = "/.agents/runs/";

    /// `<repo>/.agents/runs/<run>`.
    pub fn run_dir(&self) -> String {
        format!("{}{}{}", self.repo_dir, Self::EXCLUDED, self.run)
    }

    /// Where agents may put what they make.
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

/// Bounds on everything that goes into an entry.
pub trait Datum:
    Clone + Debug + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static
{
}
impl<T: Clone + Debug + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static> Datum for T {}

/// One protocol.
pub trait Protocol: Sized + Debug + Clone + PartialEq + Eq + 'static {
    /// The word for it on the command line and in the store.
    const NAME: &'static str;
    /// Whether a run can go on as if a step had been there.
    const SKIPS: bool;
    /// Whether every write of the document is [checked](Self::check_write) before it is committed. That takes a copy of
    /// the document.
    const CHECKS_WRITES: bool;
    /// Whether the whole document is kept for others to read, in stores that have a place for that.
    const SHOWS_DOCUMENT: bool;

    /// What a run is opened with, frozen.
    type Definition: Debug + Serialize + DeserializeOwned + Send + Sync;
    /// Small and for deciding only: no time, no text, no free number.
    type State: Datum + Hash;
    /// One transition of the state.
    type Change: Datum;
    type Step: Datum + Ord + Hash + Display;
    type Verdict: Datum;
    /// The seed's own JSON, typed.
    type Document: Debug + Clone + PartialEq + Serialize + Send;
    /// One change of the document that nobody decides; [`Never`](crate::edit::Never) where only the engine writes it.
    type Edit: Datum;

    // Deciding.
    fn begin(definition: &Self::Definition) -> Self::State;
    fn decide(
        definition: &Self::Definition,
        state: &Self::State,
        event: Event<Self::Step, Self::Verdict>,
    ) -> Move<Self::Change, Self::Step>;
    /// What is to be done without any news, as soon as the steps it names are quiet.
    fn deferred(
        definition: &Self::Definition,
        state: &Self::State,
    ) -> Option<Deferred<Self::Change, Self::Step>>;
    /// What stopping a run does to it; `None` if it only halts and can be resumed.
    fn stopped(definition: &Self::Definition, state: &Self::State) -> Option<Move<Self::Change, Self::Step>>;
    fn apply(state: &mut Self::State, change: &Self::Change);
    fn step_status(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> StepStatus;
    /// Steps whose tries are used up, in the protocol's order.
    fn failed(definition: &Self::Definition, state: &Self::State) -> Vec<Self::Step>;
    /// Whether the definition has this step.
    fn knows(definition: &Self::Definition, step: &Self::Step) -> bool;
    /// Whether a change can come next, as far as that cannot be put right afterwards: asked of what comes from damaged or
    /// foreign files.
    fn fits(definition: &Self::Definition, state: &Self::State, change: &Self::Change) -> bool;
    /// How many failed attempts end a turn.
    fn max_attempts(definition: &Self::Definition, step: &Self::Step) -> NonZeroU32;
    /// Steps that wait for a place are started in this order.
    fn rank(definition: &Self::Definition, step: &Self::Step) -> usize;

    // Steps and the outside world.
    fn step_id(step: &Self::Step) -> StepId;
    fn read_report(
        definition: &Self::Definition,
        document: &Self::Document,
        step: &Self::Step,
        report: &Report,
    ) -> Reading<Self::Verdict>;
    /// All that an attempt is told. `counted` is its number among the attempts that count.
    fn brief(
        definition: &Self::Definition,
        document: &Self::Document,
        step: &Self::Step,
        counted: u32,
    ) -> Brief;

    /// Reads a foreign document as a state of this protocol: the changes that lead to it, and what is next.
    fn import(
        definition: &Self::Definition,
        document: &serde_json::Value,
    ) -> Result<Move<Self::Change, Self::Step>, NotImportable>;

    // Editing.
    /// The document's own count of its changes, where it has one.
    fn sequence(document: &Self::Document) -> Option<u64>;
    /// What the document itself says of its last change, where it keeps a history.
    fn last_change(document: &Self::Document) -> Option<serde_json::Value>;
    /// Turns a patch into an edit of the document as it is now: `based_on` is the document that its author had read.
    /// `None` if all is already as the patch wants it.
    fn edit(
        definition: &Self::Definition,
        based_on: &Self::Document,
        current: &Self::Document,
        hand: &EditAuthor<Self::Step>,
        patch: &Patch,
    ) -> Result<Option<Self::Edit>, Uneditable>;

    /// Turns what another client of a store has made of the document into an edit: `shown` is the document as it could be
    /// read there, `found` is what that client wrote on top of it.
    fn external_edit(
        _definition: &Self::Definition,
        _current: &Self::Document,
        _shown: &serde_json::Value,
        _found: &serde_json::Value,
    ) -> Result<Self::Edit, Uneditable> {
        Err(Uneditable::EngineOnly)
    }

    /// The patch that enters what a step has so far, where the document has room for it.
    fn partial(step: &Self::Step, content: serde_json::Value) -> Option<Patch>;

    // Showing.
    fn open_document(definition: &Self::Definition, location: &RunLocation, at: Stamp) -> Self::Document;
    /// Writes an entry into the document; answers the paths of the parts that changed. Refuses what the document does not
    /// admit: then it stays as it is.
    fn record(
        definition: &Self::Definition,
        document: &mut Self::Document,
        entry: &Entry<Self>,
    ) -> Result<Vec<String>, Unrecordable>;
    /// The JSON text of one part.
    fn part(document: &Self::Document, path: &str) -> String;
    /// Puts a document together again; `None` if a part is missing or malformed.
    fn assemble(definition: &Self::Definition, parts: &[(String, String)]) -> Option<Self::Document>;
    /// Holds a write against the rules of the seed, as if it came from a stranger.
    fn check_write(old: Option<&Self::Document>, new: &Self::Document) -> Result<(), Unrecordable>;
    /// The same without the definition, where the parts tell everything; `None` where they do not, or do not fit.
    fn assemble_alone(_parts: &[(String, String)]) -> Option<Self::Document> {
        None
    }
    /// The rules of its seed that a document breaks which was read from a store, as far as they can be held against it
    /// at every reading.
    fn broken(document: &Self::Document) -> Vec<Violation>;
    /// The file that shows the whole document, in layouts that have one.
    fn view(document: &Self::Document) -> Option<View>;
    /// The file that shows the report of a step's latest attempt, in layouts that have one.
    fn report_path(document: &Self::Document, step: &Self::Step) -> Option<String>;
    /// Steps of which there is a report to show.
    fn reported(document: &Self::Document) -> Vec<Self::Step>;
    /// How far the run is, in steps.
    fn progress(definition: &Self::Definition, state: &Self::State) -> Progress;
}

/// An entry would make a document that breaks the rules of its seed. No decision of ours does: this is of a damaged
/// journal, or a bug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the document would not keep its rules: {0}")]
pub struct Unrecordable(pub String);

/// Why a foreign document cannot become a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotImportable {
    #[error("it breaks {} of its rules", .0.len())]
    Broken(Vec<Violation>),
    #[error("it is about other steps than the workflow: {0}")]
    OtherSteps(String),
    #[error("its sequence {0} leaves no room to count on")]
    NoRoom(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
}
