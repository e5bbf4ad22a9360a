//! A definition on location: takes inputs in as the engine does, and holds each step against the rules.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use protocol::entry::{Entry, Input as EntryInput, RecoverySource, RunState};
use protocol::run::{Absorbed, Decision, Run, absorb, consider, import, open, proceed, start_queued};
use protocol::{RunId, RunLocation, Stamp};
use serde_json::Value;

use super::transition::{RunAt, Transition};
use super::{Broken, Explored, Input, document, entry, invariants, writing};

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
            Self::One => "1 place",
            Self::All => "all places",
        })
    }
}

/// When free places are given. An engine gives them with what it decides; what others decide, and what is due, has an entry
/// of its own, and it may be killed before the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    Together,
    Apart,
}

/// Says what is wrong with a document; nothing if it is sound.
pub(super) type Check<P> = Box<dyn Fn(&<P as protocol::Protocol>::Document) -> Vec<String> + Send + Sync>;

/// One definition with its surroundings.
pub struct Scene<P: Explored> {
    pub name: String,
    pub definition: P::Definition,
    pub slots: Slots,
    pub scheduling: Scheduling,
    /// A document that was begun elsewhere and is taken over.
    pub(super) adopted: Option<Value>,
    pub(super) check: Check<P>,
}

impl<P: Explored> fmt::Debug for Scene<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene").field("name", &self.name).field("places", &self.slots).finish_non_exhaustive()
    }
}

/// What is wrong, and the state it leads to, where there is one.
pub(super) struct Fault<P: Explored> {
    pub(super) broken: Vec<Broken>,
    pub(super) after: Option<Run<P>>,
}

impl<P: Explored> From<Vec<Broken>> for Fault<P> {
    fn from(broken: Vec<Broken>) -> Self {
        Self { broken, after: None }
    }
}

/// What came of an input.
pub(super) enum Taken<P: Explored> {
    Moved(Box<RunAt<P>>, Box<Entry<P>>),
    /// With the reason.
    Refused(String),
    /// There was nothing to write.
    Nothing,
}

impl<P: Explored> Scene<P> {
    /// `check` says what is wrong with a document, by the rules of the protocol's seed.
    pub fn new(
        name: impl Into<String>,
        definition: P::Definition,
        slots: Slots,
        check: impl Fn(&P::Document) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            definition,
            slots,
            scheduling: Scheduling::Together,
            adopted: None,
            check: Box::new(check),
        }
    }

    /// Gives free places in entries of their own.
    #[must_use]
    pub fn scheduling_apart(mut self) -> Self {
        self.scheduling = Scheduling::Apart;
        self
    }

    /// Begins with a document that was begun elsewhere.
    #[must_use]
    pub fn adopting(mut self, document: Value) -> Self {
        self.adopted = Some(document);
        self
    }

    /// The run's first entry, or the two of one that is taken over.
    pub(super) fn open(&self) -> Result<(RunAt<P>, Entry<P>), Fault<P>> {
        guarded(|| {
            let location = RunLocation {
                run: RunId::new("explored").expect("BUG: the name is safe"),
                repo_dir: "/repo".to_owned(),
            };
            let at = Stamp::from_micros(1_750_000_000_000_000);
            let before = RunAt {
                state: RunState::blank(&self.definition, at),
                document: P::open_document(&self.definition, &location, at),
                parts: BTreeMap::new(),
                touched: Vec::new(),
                started: BTreeMap::new(),
                written: Vec::new(),
            };
            let mut run = before.state.run.clone();
            let input = EntryInput::Opened { definition: "none".to_owned() };
            match &self.adopted {
                None => {
                    let decision = open(&self.definition, &mut run);
                    self.enter(&before, None, run, input, decision)
                }
                Some(document) => {
                    let (opened, _) = self.enter(&before, None, run, input, Decision::nothing())?;
                    self.import(opened, document)
                }
            }
        })
    }

    fn import(&self, mut opened: RunAt<P>, document: &Value) -> Result<(RunAt<P>, Entry<P>), Fault<P>> {
        document::keep_parts(&mut opened);
        let mut run = opened.state.run.clone();
        let stands = P::import(&self.definition, document)
            .map_err(|why| vec![Broken::new("a sound document is taken over", why.to_string())])?;
        let decision = import(&mut run, stands, BTreeMap::new());
        let source = RecoverySource::View { path: "/repo/view.json".to_owned(), document: document.clone() };
        self.enter(&opened, None, run, EntryInput::Recovered { source }, decision)
    }

    /// Takes an input in, as the engine does: decide, give free places, write the entry.
    pub(super) fn take(&self, before: &RunAt<P>, input: &Input<P>) -> Result<Taken<P>, Fault<P>> {
        guarded(|| {
            let mut run = before.state.run.clone();
            let (entry_input, decision) = match input {
                Input::Fact(fact) => match absorb(&self.definition, &mut run, fact.clone()) {
                    Absorbed::Decided(decision) => {
                        let fact = entry::fact(self, before, fact).map_err(|broken| vec![broken])?;
                        (fact, decision)
                    }
                    Absorbed::Ignored(stale) => {
                        return Err(not_taken(format!("it was ignored: {stale}")));
                    }
                },
                Input::Deferred => match proceed(&self.definition, &mut run) {
                    Some(decision) => (EntryInput::Deferred, decision),
                    None => return Err(not_taken("nothing is due any more".to_owned())),
                },
                Input::Slots => {
                    (EntryInput::Deferred, start_queued(&self.definition, &mut run, self.slots.count()))
                }
                Input::Ask(request) => match consider(&self.definition, &mut run, request) {
                    Ok(decision) => {
                        let reason = Some("because".to_owned());
                        (EntryInput::Request { request: request.clone(), reason }, decision)
                    }
                    Err(refusal) => {
                        let broken = invariants::refusal(before, &run, &refusal);
                        return if broken.is_empty() {
                            Ok(Taken::Refused(refusal.to_string()))
                        } else {
                            Err(broken.into())
                        };
                    }
                },
                Input::Write(writing) => {
                    match writing::consider(self, before, writing).map_err(|broken| vec![broken])? {
                        Ok(Some(edit)) => (edit, Decision::nothing()),
                        Ok(None) => return Ok(Taken::Nothing),
                        Err(refused) => return Ok(Taken::Refused(refused)),
                    }
                }
            };
            let (run_at, entry) = self.enter(before, Some(input), run, entry_input, decision)?;
            Ok(Taken::Moved(Box::new(run_at), Box::new(entry)))
        })
    }

    /// Gives free places, makes the entry, and lets everything grow from it that grows from entries.
    fn enter(
        &self,
        before: &RunAt<P>,
        input: Option<&Input<P>>,
        mut run: Run<P>,
        entry_input: EntryInput<P>,
        mut decision: Decision<P>,
    ) -> Result<(RunAt<P>, Entry<P>), Fault<P>> {
        let steps = self.scheduling == Scheduling::Together && !matches!(input, Some(Input::Write(_)));
        if steps {
            decision.append(start_queued(&self.definition, &mut run, self.slots.count()));
        }
        let entry = entry::of(before, entry_input, decision);
        let mut after = before.clone();
        after.state.fold(&entry);
        let mut broken = Vec::new();
        if after.state.run != run {
            broken.push(Broken::new(
                "changes say what was done",
                "the changes of the decision, replayed, give another state",
            ));
        }
        broken.extend(document::record(self, &mut after, &entry));
        let transition = Transition {
            before: &before.state.run,
            input,
            entry: &entry,
            after: &run,
            was: &before.document,
            shown: &after.document,
        };
        broken.extend(invariants::transition(self, before, &transition));
        broken.extend(P::inspect(&self.definition, &transition));
        after
            .started
            .extend(transition.started().map(|begun| (begun.step.clone(), (begun.turn, begun.attempt_no))));
        if let Some(Input::Write(writing)) = input {
            after.written.push(writing.name);
        }
        if broken.is_empty() { Ok((after, entry)) } else { Err(Fault { broken, after: Some(run) }) }
    }
}

fn not_taken<P: Explored>(what: String) -> Fault<P> {
    vec![Broken::new("news is taken in", what)].into()
}

/// A panic of the code we explore is a finding like any other, and wants its path.
fn guarded<P: Explored, T>(play: impl FnOnce() -> Result<T, Fault<P>>) -> Result<T, Fault<P>> {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
        Err(vec![Broken::new("nothing panics", text)].into())
    })
}
