//! A definition to explore: applies inputs as the engine does, and checks each transition.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use protocol::entry::{Entry, Input as EntryInput, RecoverySource};
use protocol::run::{
    Absorbed, Decision, Run, RunState, absorb, consider, import, open, proceed, start_queued,
};
use protocol::{RunId, RunLocation, Stamp, Typed};
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

/// When queued steps are started in free slots. An engine does so in the entries of its own decisions. After a
/// request of another client or a deferred transition it needs an entry of its own, and may be killed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    Together,
    Separate,
}

/// Returns what is wrong with a document.
pub(super) type Check<P> = Box<dyn Fn(&<P as protocol::Protocol>::Document) -> Vec<String> + Send + Sync>;

/// One definition with its environment.
pub struct Model<P: Explored> {
    pub name: String,
    pub definition: Arc<P::Definition>,
    pub slots: Slots,
    pub scheduling: Scheduling,
    /// A document to import the run from.
    pub(super) import: Option<Value>,
    pub(super) check: Check<P>,
    /// The contents of entries whose encoding was checked.
    pub(super) encoded: Mutex<HashSet<String>>,
}

impl<P: Explored> fmt::Debug for Model<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.name).field("slots", &self.slots).finish_non_exhaustive()
    }
}

/// Violations, and the state they lead to, if there is one.
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
pub(super) enum Accepted<P: Explored> {
    Moved(Box<Node>, Box<Entry<P>>),
    /// With the reason.
    Refused(String),
    /// There was nothing to write.
    Nothing,
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

    /// Returns the run after its first entry, or after the two of an imported one.
    pub(super) fn open(&self) -> Result<Node, Failure> {
        guarded(|| {
            let location =
                RunLocation::new(RunId::new("explored").expect("BUG: the name is safe"), "/repo".to_owned());
            let at = Stamp::from_micros(1_750_000_000_000_000);
            let machine = Typed::<P> {
                definition: Arc::clone(&self.definition),
                state: P::begin(&self.definition),
                document: Arc::new(P::open_document(&self.definition, &location, at)),
            };
            let before = Node {
                state: RunState::blank(Box::new(machine), at),
                parts: BTreeMap::new(),
                touched: Vec::new(),
                started: BTreeMap::new(),
                written: Vec::new(),
            };
            let mut run = before.state.run.clone();
            let input = EntryInput::Opened { definition: "none".to_owned() };
            match &self.import {
                None => {
                    let decision = open(&mut run);
                    Ok(self.enter(&before, None, run, input, decision)?.0)
                }
                Some(document) => {
                    let (opened, _) = self.enter(&before, None, run, input, Decision::nothing())?;
                    self.import(opened, document)
                }
            }
        })
    }

    fn import(&self, mut opened: Node, document: &Value) -> Result<Node, Failure> {
        checks::document::keep_parts(&mut opened);
        let mut run = opened.state.run.clone();
        let position = run
            .machine
            .import(document)
            .map_err(|why| vec![Violation::new("a valid document can be imported", why.to_string())])?;
        let decision = import(&mut run, position, BTreeMap::new());
        let source = RecoverySource::View { path: "/repo/view.json".to_owned(), document: document.clone() };
        Ok(self.enter(&opened, None, run, EntryInput::Recovered { source }, decision)?.0)
    }

    /// Applies an input as the engine does: decide, start queued steps, write the entry.
    pub(super) fn take(&self, before: &Node, input: &Input) -> Result<Accepted<P>, Failure> {
        guarded(|| {
            let mut run = before.state.run.clone();
            let (entry_input, decision) = match input {
                Input::Fact(fact) => match absorb(&mut run, fact.clone()) {
                    Absorbed::Decided(decision) => {
                        let fact = entry::fact::<P>(before, fact).map_err(|violations| vec![violations])?;
                        (fact, decision)
                    }
                    Absorbed::Ignored(stale) => {
                        return Err(not_absorbed(format!("it was ignored: {stale}")));
                    }
                },
                Input::Deferred => match proceed(&mut run) {
                    Some(decision) => (EntryInput::Deferred, decision),
                    None => return Err(not_absorbed("no transition is deferred any more".to_owned())),
                },
                Input::Slots => (EntryInput::Deferred, start_queued(&mut run, self.slots.count())),
                Input::Request(request) => match consider(&mut run, request) {
                    Ok(decision) => {
                        let reason = Some("because".to_owned());
                        (EntryInput::Request { request: request.clone(), reason }, decision)
                    }
                    Err(refusal) => {
                        let violations = checks::refusal(before, &run, &refusal);
                        return if violations.is_empty() {
                            Ok(Accepted::Refused(refusal.to_string()))
                        } else {
                            Err(violations.into())
                        };
                    }
                },
                Input::Write(writing) => {
                    match write_input::consider(before, writing).map_err(|violations| vec![violations])? {
                        Ok(Some(edit)) => (edit, Decision::nothing()),
                        Ok(None) => return Ok(Accepted::Nothing),
                        Err(refused) => return Ok(Accepted::Refused(refused)),
                    }
                }
            };
            let (node, entry) = self.enter(before, Some(input), run, entry_input, decision)?;
            Ok(Accepted::Moved(Box::new(node), Box::new(entry)))
        })
    }

    /// Starts queued steps, makes the entry, and folds it into state and document.
    fn enter(
        &self,
        before: &Node,
        input: Option<&Input>,
        mut run: Run,
        entry_input: EntryInput,
        mut decision: Decision,
    ) -> Result<(Node, Entry<P>), Failure> {
        let starts = self.scheduling == Scheduling::Together && !matches!(input, Some(Input::Write(_)));
        if starts {
            decision.append(start_queued(&mut run, self.slots.count()));
        }
        let (stored, entry) = checks::entry::stored(self, entry::of(before, entry_input, decision))?;
        let mut after = before.clone();
        after.state.fold(&stored).map_err(|error| vec![checks::entry::lost(&error)])?;
        let mut violations = Vec::new();
        if after.state.run != run {
            violations.push(Violation::new(
                "changes describe the decision",
                "the changes of the decision, replayed, give another state",
            ));
        }
        violations.extend(checks::document::record::<P>(&mut after, &stored));
        let transition =
            Transition { before: &before.state.run, input, entry: &entry, after: &after.state.run };
        violations.extend(checks::transition(self, before, &transition));
        violations.extend(P::inspect(&self.definition, &transition));
        let started = transition.started().map(|begun| (begun.step.clone(), (begun.turn, begun.attempt_no)));
        after.started.extend(started);
        if let Some(Input::Write(writing)) = input {
            after.written.push(writing.name);
        }
        if violations.is_empty() { Ok((after, entry)) } else { Err(Failure { violations, after: Some(run) }) }
    }
}

fn not_absorbed(what: String) -> Failure {
    vec![Violation::new("facts about live attempts are absorbed", what)].into()
}

/// Reports a panic of the explored code as a violation, so that its path is shown.
fn guarded<T>(explored: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(explored)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Err(vec![Violation::new("nothing panics", text)].into())
    })
}
