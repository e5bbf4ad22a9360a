//! A definition on stage: takes inputs in as the engine does, and holds each step against the rules.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Evidence, Folded, Input as EntryInput, Timer};
use protocol::run::{
    Absorbed, Change, Decision, Ending, Exit, Fact, Refusal, Request, Run, absorb, consider, open, proceed,
    seat_waiting,
};
use protocol::{RunId, Stage, Stamp};

use super::transition::{Moment, Transition};
use super::{Broken, Explored, Input, document, invariants};

/// How many attempts may be alive at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Places {
    One,
    All,
}

impl Places {
    pub(super) fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::All => usize::MAX,
        }
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::One => "1 place",
            Self::All => "all places",
        })
    }
}

/// Says what is wrong with a document; nothing if it is sound.
pub(super) type Check<P> = Box<dyn Fn(&<P as protocol::Protocol>::Document) -> Vec<String> + Send + Sync>;

/// Says whether somebody asks for this in this state.
pub(super) type Asks<P> =
    fn(&<P as protocol::Protocol>::Definition, &Run<P>, &Request<<P as protocol::Protocol>::Seat>) -> bool;

/// One definition with its surroundings.
pub struct Scene<P: Explored> {
    pub name: String,
    pub definition: P::Definition,
    pub places: Places,
    pub(super) check: Check<P>,
    pub(super) asks: Asks<P>,
}

impl<P: Explored> fmt::Debug for Scene<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene")
            .field("name", &self.name)
            .field("places", &self.places)
            .finish_non_exhaustive()
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
    Moved(Box<Moment<P>>, Box<Entry<P>>),
    Refused(Refusal),
}

impl<P: Explored> Scene<P> {
    /// `check` says what is wrong with a document, by the rules of the protocol's seed.
    pub fn new(
        name: impl Into<String>,
        definition: P::Definition,
        places: Places,
        check: impl Fn(&P::Document) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), definition, places, check: Box::new(check), asks: |_, _, _| true }
    }

    /// Leaves out requests, where a known fault would hide all others.
    #[must_use]
    pub fn asked_only(mut self, asks: Asks<P>) -> Self {
        self.asks = asks;
        self
    }

    /// The run's first entry.
    pub(super) fn open(&self) -> Result<(Moment<P>, Entry<P>), Fault<P>> {
        guarded(|| {
            let stage = Stage {
                run: RunId::new("explored").expect("BUG: the name is safe"),
                repo_dir: "/repo".to_owned(),
            };
            let at = Stamp::from_micros(1_750_000_000_000_000);
            let before = Moment {
                folded: Folded::blank(&self.definition, at),
                document: P::open_document(&self.definition, &stage, at),
                parts: BTreeMap::new(),
                touched: Vec::new(),
                started: BTreeMap::new(),
            };
            let mut run = before.folded.run.clone();
            let decision = open(&self.definition, &mut run);
            let input = EntryInput::Opened { definition: "none".to_owned() };
            self.enter(&before, None, run, input, decision)
        })
    }

    /// Takes an input in, as the engine does: decide, give free places, write the entry.
    pub(super) fn take(&self, before: &Moment<P>, input: &Input<P>) -> Result<Taken<P>, Fault<P>> {
        guarded(|| {
            let mut run = before.folded.run.clone();
            let (entry_input, decision) = match input {
                Input::Fact(fact) => match absorb(&self.definition, &mut run, fact.clone()) {
                    Absorbed::Decided(decision) => (self.fact(fact), decision),
                    Absorbed::Ignored(stale) => {
                        return Err(not_taken(format!("it was ignored: {stale}")));
                    }
                },
                Input::Due => match proceed(&self.definition, &mut run) {
                    Some(decision) => (EntryInput::Due, decision),
                    None => return Err(not_taken("nothing is due any more".to_owned())),
                },
                Input::Ask(request) => match consider(&self.definition, &mut run, request) {
                    Ok(decision) => {
                        let reason = Some("because".to_owned());
                        (EntryInput::Request { request: request.clone(), reason }, decision)
                    }
                    Err(refusal) => {
                        let broken = invariants::refusal(before, &run, &refusal);
                        return if broken.is_empty() {
                            Ok(Taken::Refused(refusal))
                        } else {
                            Err(broken.into())
                        };
                    }
                },
            };
            let (moment, entry) = self.enter(before, Some(input), run, entry_input, decision)?;
            Ok(Taken::Moved(Box::new(moment), Box::new(entry)))
        })
    }

    /// Gives free places, makes the entry, and lets everything grow from it that grows from entries.
    fn enter(
        &self,
        before: &Moment<P>,
        input: Option<&Input<P>>,
        mut run: Run<P>,
        entry_input: EntryInput<P>,
        mut decision: Decision<P>,
    ) -> Result<(Moment<P>, Entry<P>), Fault<P>> {
        decision.append(seat_waiting(&self.definition, &mut run, self.places.count()));
        let at = before.folded.at.plus(Duration::from_secs(1));
        let by = match &entry_input {
            EntryInput::Request { .. } => Author::Person { name: "ada".to_owned(), host: "here".to_owned() },
            EntryInput::Opened { .. }
            | EntryInput::Fact { .. }
            | EntryInput::Refused { .. }
            | EntryInput::Edited { .. }
            | EntryInput::Due
            | EntryInput::Recovered { .. } => {
                Author::Engine { host: "here".to_owned(), boot_id: "boot".to_owned(), pid: 1 }
            }
        };
        let entry = Entry {
            v: ENTRY_VERSION,
            at,
            by,
            input: entry_input,
            timers: timers::<P>(&decision, at),
            changes: decision.changes,
            actions: decision.actions,
        };
        let mut after = before.clone();
        after.folded.fold(&entry);
        let mut broken = Vec::new();
        if after.folded.run != run {
            broken.push(Broken::new(
                "changes say what was done",
                "the changes of the decision, replayed, give another state",
            ));
        }
        let transition = Transition { before: &before.folded.run, input, entry: &entry, after: &run };
        broken.extend(invariants::transition(self, before, &transition));
        broken.extend(P::inspect(&self.definition, &transition));
        for attempt in transition.started() {
            after.started.insert(attempt.seat.clone(), (attempt.turn, attempt.try_no));
        }
        broken.extend(document::record(self, &mut after, &entry));
        if broken.is_empty() { Ok((after, entry)) } else { Err(Fault { broken, after: Some(run) }) }
    }

    fn fact(&self, fact: &Fact<P::Seat, P::Verdict>) -> EntryInput<P> {
        let evidence = match fact {
            Fact::Rested { .. } => None,
            Fact::Over { attempt, ending } => Some(Box::new(match ending {
                Ending::Reported(verdict) => Evidence {
                    kind: None,
                    error: None,
                    report: Some(P::report(&self.definition, &attempt.seat, verdict)),
                    duration_ms: Some(1),
                },
                Ending::Failed => evidence("Agent process exited with code 1 without a report"),
                Ending::Interrupted => evidence("Agent process was interrupted: its shim was killed"),
                Ending::Stopped => evidence("Agent process was stopped"),
            })),
        };
        EntryInput::Fact { fact: fact.clone(), evidence }
    }
}

fn evidence(error: &str) -> Evidence {
    Evidence { error: Some(error.to_owned()), duration_ms: Some(1), ..Evidence::default() }
}

/// The timers an engine sets: one for each attempt that is to be repeated.
fn timers<P: Explored>(decision: &Decision<P>, at: Stamp) -> Vec<Timer> {
    let repeated = decision.changes.iter().filter_map(|change| match change {
        Change::Over { attempt, exit: Exit::Repeats { .. } } => Some(attempt),
        _ => None,
    });
    let timer = |attempt| Timer { attempt: Run::<P>::id(attempt), due: at, length_ms: 1 };
    repeated.map(timer).collect()
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
