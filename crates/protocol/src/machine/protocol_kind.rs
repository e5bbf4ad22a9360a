//! The kinds of runs: one per protocol, and the table of them.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Document, Machine, TypedMachine};
use crate::present::{FileFormat, Line, Present};
use crate::prompt::PromptTemplate;
use crate::protocol_trait::RunLocation;
use crate::report::Report;
use crate::{RunId, StepId, Timestamp};

/// What is the same for all runs of a protocol.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolInfo {
    /// The word for the protocol on the command line and in the store.
    pub name: &'static str,
    /// The word for a step, singular and plural.
    pub step_nouns: (&'static str, &'static str),
    /// The member of the document that maps names to steps.
    pub steps_key: &'static str,
    /// The command that starts a run, and what it takes; for hints.
    pub start_command: &'static str,
    pub start_argument: &'static str,
    /// Whether a step can be skipped.
    pub can_skip: bool,
    /// Whether `retry` can run a failed step again in the same run.
    pub can_retry: bool,
    /// Whether `import` can give a run another name.
    pub can_rename: bool,
    /// Whether the checks of a step run in a turn of their own, after the turn of its agent.
    pub checks_are_turns: bool,
    /// Whether every write of the document is checked before it is committed.
    pub checks_writes: bool,
    /// Whether the store publishes the whole document for other clients, if it can.
    pub publishes_document: bool,
    /// Whether a request that would change nothing, such as pausing a paused run, is refused.
    pub refuses_noop_requests: bool,
    /// Whether the engine replaces the first view at once if another program changes it.
    pub reverts_view_edits: bool,
    /// The names of its agents, for protocols whose steps appear during a run.
    pub roles: &'static [&'static str],
    /// The built-in prompts, which files of the repository may replace.
    pub prompts: &'static [PromptTemplate],
    /// Patterns for git's `info/exclude` that match the views outside the directory of the run.
    pub view_patterns: &'static [&'static str],
    /// The steps in the template of a rehearsal script; empty if each run defines its own steps.
    pub script_steps: &'static [&'static str],
    /// The files that `callboard check` knows.
    pub formats: &'static [FileFormat],
}

/// A kind of runs: how they are opened and loaded, and how the journal's JSON is presented.
pub trait ProtocolKind: Debug + Send + Sync {
    fn info(&self) -> &'static ProtocolInfo;

    /// Returns the machine of a run before its first entry. Fails if the definition is malformed.
    fn open(
        &self,
        definition: &RawValue,
        location: &RunLocation,
        at: Timestamp,
    ) -> Result<Box<dyn Machine>, serde_json::Error>;
    /// Returns a machine with a stored document, in the state before the first entry. Fails if the definition is malformed;
    /// returns `None` if a part of the document is missing or malformed.
    fn load(
        &self,
        definition: &RawValue,
        parts: &[(String, String)],
    ) -> Result<Option<Box<dyn Machine>>, serde_json::Error>;
    /// Assembles a document without its definition. Returns `None` if the protocol needs the definition for it, or if a part
    /// is missing or malformed.
    fn assemble(&self, parts: &[(String, String)]) -> Option<Document>;

    /// Returns the name of the series that the run belongs to: runs that continue one another, such as the cycles of one
    /// spec in `peer`.
    fn series(&self, run: &RunId) -> Option<String>;
    /// Checks that a report has the fields of its step.
    fn check_report(&self, step: &StepId, report: &Report) -> Result<(), String>;

    // The journal. For JSON of another protocol or version, each returns `None` or `false`.

    /// Returns the words that complete "the attempt …", such as `reported that its gate failed`.
    fn verdict_text(&self, verdict: &Value) -> Option<&'static str>;
    /// Describes a change in one line for people, if it is worth one.
    fn change_line(&self, change: &Value) -> Option<Line>;
    /// Returns the name and fields of the JSON event of a change, if it has one.
    fn change_event(&self, change: &Value) -> Option<(&'static str, Value)>;
    /// Describes a request that only this protocol has.
    fn request_text(&self, request: &Value) -> Option<String>;
    /// Lists the changed paths of the document.
    fn edit_summary(&self, edit: &Value) -> Option<String>;
    /// Whether a change is about a step.
    fn concerns(&self, change: &Value, step: &StepId) -> bool;
    /// Returns why the change fails a step whose report was valid.
    fn failure_reason(&self, change: &Value, step: &StepId) -> Option<&'static str>;
}

/// Returns the kind of a typed protocol.
pub const fn protocol_kind<P: Present>() -> &'static dyn ProtocolKind {
    const { &TypedKind::<P>(PhantomData) }
}

#[derive(Debug)]
struct TypedKind<P>(PhantomData<fn() -> P>);

impl<P: Present> TypedKind<P> {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: P::NAME,
        step_nouns: P::STEP_NOUNS,
        steps_key: P::STEPS_KEY,
        start_command: P::START_COMMAND,
        start_argument: P::START_ARGUMENT,
        can_skip: P::SKIPS,
        can_retry: P::CAN_RETRY,
        can_rename: P::IMPORT_CAN_RENAME,
        checks_are_turns: P::CHECKS_ARE_TURNS,
        checks_writes: P::CHECKS_WRITES,
        publishes_document: P::PUBLISHES_DOCUMENT,
        refuses_noop_requests: P::REFUSES_NOOP_REQUESTS,
        reverts_view_edits: P::REVERTS_VIEW_EDITS,
        roles: P::ROLES,
        prompts: P::PROMPTS,
        view_patterns: P::VIEW_PATTERNS,
        script_steps: P::REHEARSAL_SCRIPT_STEPS,
        formats: P::FORMATS,
    };
}

impl<P: Present> ProtocolKind for TypedKind<P> {
    fn info(&self) -> &'static ProtocolInfo {
        &Self::INFO
    }

    fn open(
        &self,
        definition: &RawValue,
        location: &RunLocation,
        at: Timestamp,
    ) -> Result<Box<dyn Machine>, serde_json::Error> {
        let definition = serde_json::from_str(definition.get())?;
        let document = P::open_document(&definition, location, at);
        Ok(Box::new(TypedMachine::<P>::new(definition, document)))
    }

    fn load(
        &self,
        definition: &RawValue,
        parts: &[(String, String)],
    ) -> Result<Option<Box<dyn Machine>>, serde_json::Error> {
        let definition = serde_json::from_str(definition.get())?;
        let document = P::assemble(&definition, parts);
        Ok(document
            .map(|document| Box::new(TypedMachine::<P>::new(definition, document)) as Box<dyn Machine>))
    }

    fn assemble(&self, parts: &[(String, String)]) -> Option<Document> {
        P::assemble_without_definition(parts).map(|document| Document::new::<P>(Arc::new(document)))
    }

    fn series(&self, run: &RunId) -> Option<String> {
        P::series(run)
    }

    fn check_report(&self, step: &StepId, report: &Report) -> Result<(), String> {
        P::check_report(step, report)
    }

    fn verdict_text(&self, verdict: &Value) -> Option<&'static str> {
        P::Verdict::deserialize(verdict).ok().map(|verdict| P::verdict_text(&verdict))
    }

    fn change_line(&self, change: &Value) -> Option<Line> {
        P::change_line(&P::Change::deserialize(change).ok()?)
    }

    fn change_event(&self, change: &Value) -> Option<(&'static str, Value)> {
        P::change_event(&P::Change::deserialize(change).ok()?)
    }

    fn request_text(&self, request: &Value) -> Option<String> {
        P::Request::deserialize(request).ok().map(|request| P::request_text(&request))
    }

    fn edit_summary(&self, edit: &Value) -> Option<String> {
        P::Edit::deserialize(edit).ok().map(|edit| P::edit_summary(&edit))
    }

    fn concerns(&self, change: &Value, step: &StepId) -> bool {
        P::Change::deserialize(change).is_ok_and(|change| P::concerns(&change, step))
    }

    fn failure_reason(&self, change: &Value, step: &StepId) -> Option<&'static str> {
        P::failure_reason(&P::Change::deserialize(change).ok()?, step)
    }
}

/// The protocols that a program knows.
#[derive(Debug, Clone, Copy)]
pub struct Protocols(pub &'static [&'static dyn ProtocolKind]);

impl Protocols {
    /// Returns the kind of that name.
    pub fn find(self, name: &str) -> Option<&'static dyn ProtocolKind> {
        self.0.iter().copied().find(|kind| kind.info().name == name)
    }

    /// Returns the names of all kinds.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|kind| kind.info().name)
    }
}

/// The protocols of this program.
pub const PROTOCOLS: Protocols = Protocols(&[
    protocol_kind::<crate::steps::Steps>(),
    protocol_kind::<crate::peer::Peer>(),
    protocol_kind::<crate::issue::Issue>(),
    protocol_kind::<crate::cycle::Cycle>(),
    protocol_kind::<crate::team::Team>(),
]);
