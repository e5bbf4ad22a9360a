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
use serde_json::{Map, Value};

use crate::brief::Brief;
use crate::check::Violation;
use crate::edit::{EditAuthor, EditRefusal, Patch};
use crate::entry::Entry;
use crate::people::{Answer, AnswerFile, Question};
use crate::report::{self, Report};
use crate::{RunId, StepId, Timestamp};

/// Attempts of a step whose limit is not configured.
pub const DEFAULT_MAX_ATTEMPTS: NonZeroU32 = NonZeroU32::new(2).expect("BUG: two is not zero");

/// What a protocol decides about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<S = StepId, V = Value> {
    /// The run was opened.
    Opened,
    /// A turn of the step ended with a valid report, or with the answer of a person.
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
pub struct Move<C = Value, S = StepId> {
    pub changes: Vec<C>,
    pub next: Next<S>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<S = StepId> {
    /// Start a turn of these steps, in this order. Empty if other steps are still to report.
    Queue(Vec<S>),
    /// Start a turn of these steps, except those that are in one.
    QueueUnlessInTurn(Vec<S>),
    /// Start nothing more, and finish the run when all attempts have ended by themselves.
    Drain(Outcome),
    /// Stop all attempts, and finish the run when none is alive.
    Finish(Outcome),
}

/// A transition that a protocol makes without an event, once certain steps have no attempt alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deferred<C = Value, S = StepId> {
    /// Steps that must have no attempt alive. None of them starts until the transition is made. It ends their turns that
    /// are queued or waiting.
    pub must_be_idle: BTreeSet<S>,
    pub transition: Move<C, S>,
}

/// What works on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// An agent: a process that reports.
    #[default]
    Agent,
    /// A command: a process whose exit code is its report.
    Command,
    /// A person, or conditions that must hold. The turn waits for an answer, without a slot, a host or a directory.
    Person,
    /// The engine itself: an effect in the outside world, such as a merge.
    Effect,
}

impl StepKind {
    pub fn is_agent(&self) -> bool {
        *self == Self::Agent
    }
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
pub enum ParsedReport<V = Value> {
    Verdict(V),
    /// The report says that the attempt failed, and why.
    Failed(String),
    /// The report lacks what the protocol requires of this step.
    Invalid(String),
}

impl<V> ParsedReport<V> {
    /// Reads a report with `verdict`, unless it says that the agent has failed.
    pub fn of(report: &Report, verdict: impl FnOnce() -> Result<V, String>) -> Self {
        match report.status {
            report::Status::Completed => match verdict() {
                Ok(verdict) => Self::Verdict(verdict),
                Err(why) => Self::Invalid(why),
            },
            report::Status::Failed => Self::Failed(match report.logs.last() {
                Some(last) => format!("Agent reported failure: {last}"),
                None => "Agent reported failure".to_owned(),
            }),
        }
    }
}

/// Where a run is located: the only facts about the machine that a document contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct RunLocation {
    pub run: RunId,
    /// Absolute path of the repository, without a trailing slash.
    pub repo_dir: String,
    /// Absolute path of the run's worktree, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Absolute path of the directory for the state file, if it is not the repository. A run that is moved to another
    /// repository does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
}

impl RunLocation {
    /// Returns the location of a run that works in the repository itself.
    pub fn new(run: RunId, repo_dir: String) -> Self {
        Self { run, repo_dir, worktree: None, state_dir: None }
    }

    /// The directories of all runs, relative to the repository, as a pattern for `.git/info/exclude`.
    pub const RUNS_DIR: &str = "/.agents/runs/";

    /// Returns `<repo>/.agents/runs/<run>`.
    pub fn run_dir(&self) -> String {
        format!("{}{}{}", self.repo_dir, Self::RUNS_DIR, self.run)
    }

    /// Returns the directory for files that agents produce.
    pub fn artifacts_dir(&self) -> String {
        format!("{}/artifacts", self.run_dir())
    }

    /// Returns the directory that shows the output of agents.
    pub fn logs_dir(&self) -> String {
        format!("{}/logs", self.run_dir())
    }
}

/// One file that shows a part of the document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Absolute path.
    pub path: String,
    pub body: String,
}

/// The types of a protocol that an entry contains. The journal stores them as JSON.
pub trait Payload: Clone + Debug + PartialEq + Eq + 'static {
    type Verdict: EntryData;
    type Change: EntryData;
    type Edit: EntryData;
    type Request: EntryData;
}

/// The payload of an entry outside its protocol: JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erased {}

impl Payload for Erased {
    type Verdict = Value;
    type Change = Value;
    type Edit = Value;
    type Request = Value;
}

impl<P: Protocol> Payload for P {
    type Verdict = P::Verdict;
    type Change = P::Change;
    type Edit = P::Edit;
    type Request = P::Request;
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

/// One protocol, typed. [`Machine`](crate::Machine) is what the rest of the program sees of it.
///
/// Steps may appear during a run: functions about a step take the state, too. The state contains the ids of
/// steps and their dependencies; names and prose are in the document.
///
/// "The format" is that of the original's files. The default bodies are for protocols without the feature.
pub trait Protocol: Sized + Debug + Clone + PartialEq + Eq + Send + Sync + 'static {
    /// The word for it on the command line and in the store.
    const NAME: &'static str;
    /// Whether a step can be skipped.
    const SKIPS: bool = false;
    /// Whether every write of the document is [checked](Self::check_write) before it is committed, which takes a copy of
    /// the document.
    const CHECKS_WRITES: bool = false;
    /// Whether the store publishes the whole document for other clients, if it can.
    const PUBLISHES_DOCUMENT: bool = false;
    /// Whether a request that would change nothing, such as pausing a paused run, is refused. Otherwise it succeeds.
    const REFUSES_NOOP_REQUESTS: bool = false;
    /// Whether the engine replaces the first of [`views`](Self::views) at once if another program changes it, because agents
    /// read it.
    const REVERTS_VIEW_EDITS: bool = false;

    /// What a run is started with; it never changes.
    type Definition: Debug + Serialize + DeserializeOwned + Send + Sync;
    /// What `decide` needs, and nothing else: no time, no text, no unbounded number.
    type State: EntryData + Hash;
    /// One transition of the state.
    type Change: EntryData;
    type Step: EntryData + Ord + Hash + Display;
    type Verdict: EntryData;
    /// The JSON document of the protocol's format, typed.
    type Document: Debug + Clone + PartialEq + Serialize + Send + Sync;
    /// A change of the document that does not change the run; [`Never`] if only the engine writes it.
    type Edit: EntryData;
    /// A request that only this protocol has; [`Never`] if it has none.
    type Request: EntryData;

    // Deciding.
    fn begin(definition: &Self::Definition) -> Self::State;
    /// Decides about an event, which has happened and cannot be refused.
    fn decide(
        definition: &Self::Definition,
        state: &Self::State,
        event: Event<Self::Step, Self::Verdict>,
    ) -> Move<Self::Change, Self::Step>;
    /// Decides about a request that only this protocol has. `outcome` is `Some` if the run has finished. It is
    /// then reopened if the move queues steps.
    fn consider(
        definition: &Self::Definition,
        state: &Self::State,
        request: &Self::Request,
        outcome: Option<Outcome>,
    ) -> Result<Move<Self::Change, Self::Step>, RequestRefusal>;
    /// Returns the transition that is to be made without an event, as soon as the steps it names have no attempt alive.
    fn deferred(
        _definition: &Self::Definition,
        _state: &Self::State,
    ) -> Option<Deferred<Self::Change, Self::Step>> {
        None
    }
    /// Returns what a stop request does to the run; `None` if the run only stops and can be resumed.
    fn on_stop(
        _definition: &Self::Definition,
        _state: &Self::State,
    ) -> Option<Move<Self::Change, Self::Step>> {
        None
    }
    fn apply(state: &mut Self::State, change: &Self::Change);
    /// Returns whether `change` can be applied. Used for entries of damaged or foreign files, before they are folded.
    fn can_apply(definition: &Self::Definition, state: &Self::State, change: &Self::Change) -> bool;
    /// Returns how many steps are done, and how many there are.
    fn progress(definition: &Self::Definition, state: &Self::State) -> Progress {
        let steps = Self::steps(definition, state);
        let statuses = steps.iter().map(|step| Self::step_status(definition, state, step));
        let done =
            statuses.filter(|status| matches!(status, StepStatus::Succeeded | StepStatus::Skipped)).count();
        Progress { done, total: steps.len() }
    }

    // Steps.
    /// Returns all steps in reading order.
    fn steps(definition: &Self::Definition, state: &Self::State) -> Vec<Self::Step>;
    /// Returns the step with this id, if the run has it.
    fn step(definition: &Self::Definition, state: &Self::State, id: &StepId) -> Option<Self::Step>;
    fn step_id(step: &Self::Step) -> StepId;
    /// Returns the steps that are items of this one. They are skipped with it.
    fn items(_definition: &Self::Definition, _state: &Self::State, _step: &Self::Step) -> Vec<Self::Step> {
        Vec::new()
    }
    /// Returns what works on the step.
    fn step_kind(_definition: &Self::Definition, _state: &Self::State, _step: &Self::Step) -> StepKind {
        StepKind::Agent
    }
    fn step_status(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> StepStatus;
    /// Returns the steps that failed and can be retried, in the protocol's order.
    fn failed_steps(definition: &Self::Definition, state: &Self::State) -> Vec<Self::Step>;
    /// Returns how many failed attempts end a turn.
    fn max_attempts(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> NonZeroU32;
    /// Returns the position of a step in the order in which queued steps are started.
    fn start_order(definition: &Self::Definition, state: &Self::State, step: &Self::Step) -> usize {
        let steps = Self::steps(definition, state);
        steps.iter().position(|known| known == step).unwrap_or(usize::MAX)
    }

    // Steps and the outside world.
    /// Reads the fields of a report from the standard output of an attempt that handed in none, if the format has a
    /// text form.
    fn report_from_stdout(_step: &Self::Step, _stdout: &str) -> Option<Map<String, Value>> {
        None
    }
    /// Removes the fields and the edits of private copies that the step has no right to from a report. Returns a
    /// sentence for each that was removed.
    fn remove_unauthorized(
        _definition: &Self::Definition,
        _document: &Self::Document,
        _step: &Self::Step,
        _report: &mut Report,
    ) -> Vec<String> {
        Vec::new()
    }
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
    /// Returns what a person is asked; `None` if no person works on the step.
    fn question(
        _definition: &Self::Definition,
        _document: &Self::Document,
        _step: &Self::Step,
    ) -> Option<Question> {
        None
    }
    /// Returns the names of the conditions that the step waits for in its turn; none if it waits for a person or for nothing.
    fn conditions(_definition: &Self::Definition, _state: &Self::State, _step: &Self::Step) -> Vec<String> {
        Vec::new()
    }
    /// Reads the answer of a person to a step's question. Fails with the reason why the question does not take it.
    fn parse_answer(
        _definition: &Self::Definition,
        _document: &Self::Document,
        step: &Self::Step,
        _answer: &Answer,
    ) -> Result<Self::Verdict, String> {
        Err(format!("`{step}` asks no person"))
    }
    /// Returns the file that can answer the question of a step, if the format has one.
    fn answer_file(
        _definition: &Self::Definition,
        _document: &Self::Document,
        _step: &Self::Step,
    ) -> Option<AnswerFile> {
        None
    }
    /// Reads the text of a step's answer file; `None` if the file is well-formed and does not answer yet. Fails with the
    /// reason why it is no answer.
    fn parse_answer_file(
        _definition: &Self::Definition,
        _document: &Self::Document,
        step: &Self::Step,
        _text: &str,
    ) -> Result<Option<Answer>, String> {
        Err(format!("`{step}` has no answer file"))
    }
    /// Returns the effect of the step; `None` if it has none.
    fn effect(
        _definition: &Self::Definition,
        _document: &Self::Document,
        _step: &Self::Step,
    ) -> Option<Effect> {
        None
    }

    /// Reads a foreign document as a state of this protocol. Returns the changes that lead to it and what is next.
    fn import(
        definition: &Self::Definition,
        document: &Value,
    ) -> Result<Move<Self::Change, Self::Step>, ImportRefusal>;

    // Editing.
    /// Returns the document's own count of its changes, if it has one.
    fn sequence(_document: &Self::Document) -> Option<u64> {
        None
    }
    /// Returns the last entry of the history that the document contains, if it has one.
    fn last_change(_document: &Self::Document) -> Option<Value> {
        None
    }
    /// Turns a patch into an edit of the `current` document. `based_on` is the document that the author had read. Returns
    /// `None` if the patch would change nothing.
    fn edit(
        _definition: &Self::Definition,
        _based_on: &Self::Document,
        _current: &Self::Document,
        _author: &EditAuthor<Self::Step>,
        _patch: &Patch,
    ) -> Result<Option<Self::Edit>, EditRefusal> {
        Err(EditRefusal::DocumentNotEditable)
    }

    /// Turns an external write of another client of the store into an edit. `shown` is the document that the client could
    /// read, `found` is what it wrote.
    fn external_edit(
        _definition: &Self::Definition,
        _current: &Self::Document,
        _shown: &Value,
        _found: &Value,
    ) -> Result<Self::Edit, EditRefusal> {
        Err(EditRefusal::DocumentNotEditable)
    }

    /// Returns the patch that records partial output of a step; `None` if the document has no field for it.
    fn partial_output_patch(_step: &Self::Step, _content: Value) -> Option<Patch> {
        None
    }

    // The document.
    fn open_document(definition: &Self::Definition, location: &RunLocation, at: Timestamp) -> Self::Document;
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
    /// Checks a write against the rules of the format, as if it came from another client.
    fn check_write(_old: Option<&Self::Document>, _new: &Self::Document) -> Result<(), RecordError> {
        Ok(())
    }
    /// Assembles a document from its parts alone; `None` if the protocol needs the definition, or a part is missing or
    /// malformed.
    fn assemble_without_definition(_parts: &[(String, String)]) -> Option<Self::Document> {
        None
    }
    /// Returns the rules of the format that a stored document violates, as far as they are cheap enough to be checked
    /// at every load; `callboard check` and `callboard recover` check all.
    fn violations(_document: &Self::Document) -> Vec<Violation> {
        Vec::new()
    }
    /// Returns the files that show the document, at the paths that the format specifies. They are written together.
    fn views(document: &Self::Document) -> Vec<View>;
    /// Returns the path of the file that shows the report of a step's latest attempt, if the format has one.
    fn report_view_path(_document: &Self::Document, _step: &Self::Step) -> Option<String> {
        None
    }
    /// Returns whether the file at [`report_view_path`](Self::report_view_path) shows this report. A report that is
    /// not by the agent of the step, such as that of a check, is kept in the journal only.
    fn shows_report(_definition: &Self::Definition, _step: &Self::Step, _report: &Report) -> bool {
        true
    }
    /// Returns the steps that have a report to show.
    fn reported_steps(_document: &Self::Document) -> Vec<Self::Step> {
        Vec::new()
    }
}

/// The type of an edit or a request that a protocol does not have. It has no values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
pub enum Never {}

/// Why a protocol refuses a request of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RequestRefusal {
    /// For programs.
    pub code: &'static str,
    pub message: String,
}

/// Begins the log line of a fast-forward that git refuses; the reason follows.
pub const NOT_MERGED_PREFIX: &str = "not merged: ";

/// A change of the outside world that the engine makes. The engine adds a key, which is the same for all attempts of a turn,
/// so that a repetition is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// Which kind of effect, such as `merge`.
    pub name: &'static str,
    pub arguments: Value,
}

/// Why an entry cannot be applied to the document. No decision causes this: the journal is damaged, or there is a bug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the document would violate its rules: {0}")]
pub struct RecordError(pub String);

/// Why a foreign document cannot become a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportRefusal {
    #[error("it violates {} of its rules", .0.len())]
    Invalid(Vec<Violation>),
    #[error("its steps are not those of the workflow: {0}")]
    StepsDiffer(String),
    #[error("{0}")]
    Unusable(String),
    #[error("its sequence {0} cannot be increased any further")]
    SequenceExhausted(u64),
}

/// How many steps of a run are done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, serde::Deserialize)]
pub struct Progress {
    pub done: usize,
    pub total: usize,
}
