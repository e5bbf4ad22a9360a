//! A definition to explore: applies inputs as the engine does, and checks each transition.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use protocol::entry::{Entry, Input as EntryInput, RecoverySource};
use protocol::run::{
    Absorbed, Decision, Run, RunState, absorb, consider, import, make_deferred_transition, open, start_queued,
};
use protocol::{RunId, RunLocation, Timestamp, TypedMachine};
use serde_json::Value;

use super::transition::{Node, Transition};
use super::{Explored, Input, Violation, checks, entry, write_input};

/// How many attempts may be alive at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    One,
    All,
}

impl Slots {
    pub(super) fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::All => usize::MAX,
        }
    }
}

impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::One => "1 slot",
            Self::All => "all slots",
        })
    }
}

/// When queued steps are started in free slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// In the entry that queued them, as an engine does with its own decisions.
    Together,
    /// In an entry of its own, as after a deferred transition, or a request that a command has committed. The engine
    /// may be killed before it.
    Separate,
}

/// Returns what is wrong with a document.
pub(super) type DocumentCheck<P> =
    Box<dyn Fn(&<P as protocol::Protocol>::Document) -> Vec<String> + Send + Sync>;

/// One definition, and how it is explored: slots, scheduling, the source of an import, and the check of its documents.
pub struct Model<P: Explored> {
    pub name: String,
    pub definition: Arc<P::Definition>,
    pub slots: Slots,
    pub scheduling: Scheduling,
    /// A document to import the run from.
    pub(super) import: Option<Value>,
    pub(super) check: DocumentCheck<P>,
    /// The contents of entries whose encoding was checked.
    pub(super) encoded: Mutex<HashSet<String>>,
}

impl<P: Explored> fmt::Debug for Model<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.name).field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// The violations that an input causes, and the run after it. `None` if the input could not be applied.
pub(super) struct Failure {
    pub(super) violations: Vec<Violation>,
    pub(super) after: Option<Run>,
}

impl From<Vec<Violation>> for Failure {
    fn from(violations: Vec<Violation>) -> Self {
        Self { violations, after: None }
    }
}

/// The result of an input.
pub(super) enum InputResult<P: Explored> {
    /// The state after the input, and its entry.
    Moved(Box<Node>, Box<Entry<P>>),
    /// The reason of the refusal.
    Refused(String),
    /// There was nothing to write.
    Unchanged,
}

impl<P: Explored> Model<P> {
    /// `check` returns what is wrong with a document, by the rules of the protocol's format.
    pub fn new(
        name: impl Into<String>,
        definition: P::Definition,
        slots: Slots,
        check: impl Fn(&P::Document) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            definition: Arc::new(definition),
            slots,
            scheduling: Scheduling::Together,
            import: None,
            check: Box::new(check),
            encoded: Mutex::default(),
        }
    }

    /// Starts queued steps in entries of their own.
    #[must_use]
    pub fn scheduling_separately(mut self) -> Self {
        self.scheduling = Scheduling::Separate;
        self
    }

    /// Imports the run from a document.
    #[must_use]
    pub fn importing(mut self, document: Value) -> Self {
        self.import = Some(document);
        self
    }

    /// Returns the run after its first entry. An imported run has two: it is opened, then recovered from its document.
    pub(super) fn open(&self) -> Result<Node, Failure> {
        catch_panics(|| {
            let location =
                RunLocation::new(RunId::new("explored").expect("BUG: the name is safe"), "/repo".to_owned());
            let at = Timestamp::from_micros(1_750_000_000_000_000);
            let machine = TypedMachine::<P> {
                definition: Arc::clone(&self.definition),
                state: P::begin(&self.definition),
                document: Arc::new(P::open_document(&self.definition, &location, at)),
            };
            let before = Node {
                state: RunState::empty(Box::new(machine), at),
                parts: BTreeMap::new(),
                changed_parts: Vec::new(),
                started: BTreeMap::new(),
                written: Vec::new(),
            };
            let mut run = before.state.run.clone();
            // The digest of the stored definition; the explorer stores none.
            let input = EntryInput::Opened { spec_digest: "none".to_owned() };
            match &self.import {
                None => {
                    let decision = open(&mut run);
                    Ok(self.commit(&before, None, run, input, decision)?.0)
                }
                Some(document) => {
                    let (opened, _) = self.commit(&before, None, run, input, Decision::nothing())?;
                    self.import(opened, document)
                }
            }
        })
    }

    fn import(&self, mut opened: Node, document: &Value) -> Result<Node, Failure> {
        checks::document::store_changed_parts(&mut opened);
        let mut run = opened.state.run.clone();
        let imported = run
            .machine
            .import(document)
            .map_err(|why| vec![Violation::new("a valid document can be imported", why.to_string())])?;
        let decision = import(&mut run, imported, BTreeMap::new());
        let source = RecoverySource::View { path: "/repo/view.json".to_owned(), document: document.clone() };
        Ok(self.commit(&opened, None, run, EntryInput::Recovered { source }, decision)?.0)
    }

    /// Applies an input as the engine does: decide, start queued steps, write the entry.
    pub(super) fn apply(&self, before: &Node, input: &Input) -> Result<InputResult<P>, Failure> {
        catch_panics(|| {
            let mut run = before.state.run.clone();
            let (entry_input, decision) = match input {
                Input::Fact(fact) => match absorb(&mut run, fact.clone()) {
                    Absorbed::Decided(decision) => {
                        let fact =
                            entry::fact_input::<P>(before, fact).map_err(|violation| vec![violation])?;
                        (fact, decision)
                    }
                    Absorbed::Ignored(stale) => {
                        return Err(not_absorbed(format!("it was ignored: {stale}")));
                    }
                },
                Input::Deferred => match make_deferred_transition(&mut run) {
                    Some(decision) => (EntryInput::Deferred, decision),
                    None => return Err(not_absorbed("no transition is deferred any more".to_owned())),
                },
                Input::StartQueued => (EntryInput::Deferred, start_queued(&mut run, self.slots.count())),
                Input::Request(request) => match consider(&mut run, request) {
                    Ok(decision) => {
                        let reason = Some("because".to_owned());
                        (EntryInput::Request { request: request.clone(), reason }, decision)
                    }
                    Err(refusal) => {
                        let violations = checks::check_refusal(before, &run, &refusal);
                        return if violations.is_empty() {
                            Ok(InputResult::Refused(refusal.to_string()))
                        } else {
                            Err(violations.into())
                        };
                    }
                },
                Input::Write(write) => {
                    match write_input::consider(before, write).map_err(|violation| vec![violation])? {
                        Ok(Some(edit)) => (edit, Decision::nothing()),
                        Ok(None) => return Ok(InputResult::Unchanged),
                        Err(refused) => return Ok(InputResult::Refused(refused)),
                    }
                }
            };
            let (node, entry) = self.commit(before, Some(input), run, entry_input, decision)?;
            Ok(InputResult::Moved(Box::new(node), Box::new(entry)))
        })
    }

    /// Starts queued steps, makes the entry, and folds it into state and document.
    fn commit(
        &self,
        before: &Node,
        input: Option<&Input>,
        mut run: Run,
        entry_input: EntryInput,
        mut decision: Decision,
    ) -> Result<(Node, Entry<P>), Failure> {
        let starts_queued =
            self.scheduling == Scheduling::Together && !matches!(input, Some(Input::Write(_)));
        if starts_queued {
            decision.append(start_queued(&mut run, self.slots.count()));
        }
        let (stored, entry) =
            checks::entry::round_trip(self, entry::new_entry(before, entry_input, decision))?;
        let mut after = before.clone();
        after.state.fold(&stored).map_err(|error| vec![checks::entry::unreadable(&error)])?;
        let mut violations = Vec::new();
        if after.state.run != run {
            violations.push(Violation::new(
                "changes describe the decision",
                "the changes of the decision, replayed, give another state",
            ));
        }
        violations.extend(checks::document::record_and_compare::<P>(&mut after, &stored));
        let transition =
            Transition { before: &before.state.run, input, entry: &entry, after: &after.state.run };
        violations.extend(checks::check_transition(self, before, &transition));
        violations.extend(P::check_rules(&self.definition, &transition));
        let started =
            transition.started().map(|attempt| (attempt.step.clone(), (attempt.turn, attempt.attempt_no)));
        after.started.extend(started);
        if let Some(Input::Write(write)) = input {
            after.written.push(write.name);
        }
        if violations.is_empty() { Ok((after, entry)) } else { Err(Failure { violations, after: Some(run) }) }
    }
}

fn not_absorbed(what: String) -> Failure {
    vec![Violation::new("facts about live attempts are absorbed", what)].into()
}

/// Reports a panic of the explored code as a violation, so that the inputs that lead to it are shown.
fn catch_panics<T>(operation: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(operation)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Err(vec![Violation::new("nothing panics", text)].into())
    })
}
