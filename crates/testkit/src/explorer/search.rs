//! Breadth first through every state, the states with fewer requests on their way first.

use std::collections::{HashMap, VecDeque};

use protocol::run::{Run, RunStatus, TurnStatus};

use super::course::Course;
use super::input::{Interruptions, requests, without_requests};
use super::notation::{say_changes, say_input, say_run, say_written};
use super::print::Row;
use super::scene::{Scene, Taken};
use super::transition::RunAt;
use super::{Broken, CounterExample, Explored, Input, document, invariants};

/// How far an exploration goes.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests on one path.
    pub requests: usize,
    /// Writings into the document on one path.
    pub writings: usize,
    /// More states than this are a mistake in the definition or the protocol, and fail.
    pub states: usize,
    pub interruptions: Interruptions,
    pub rows: Rows,
}

/// What becomes of the transitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    Counted,
    /// Kept as well, to be printed.
    Kept,
}

impl Limits {
    /// Everything that could come in, with so many requests on a path.
    pub fn with_requests(requests: usize) -> Self {
        Self {
            requests,
            writings: 0,
            states: MOST_STATES,
            interruptions: Interruptions::Once,
            rows: Rows::Counted,
        }
    }

    /// And with so many writings.
    #[must_use]
    pub fn and_writings(self, writings: usize) -> Self {
        Self { writings, ..self }
    }

    /// For a table or a diagram: an interruption is an attempt that does not count, on every page.
    pub fn to_print(requests: usize) -> Self {
        Self { interruptions: Interruptions::Never, rows: Rows::Kept, ..Self::with_requests(requests) }
    }
}

/// A definition that has more is no example any more, and takes too long for a test.
const MOST_STATES: usize = 30_000;

/// What was seen.
#[derive(Debug, Clone)]
pub struct Exploration {
    pub scene: String,
    pub states: usize,
    pub transitions: usize,
    /// Requests that were refused, one for each state and request.
    pub refusals: usize,
    /// The longest way to a state in which nothing more happens by itself, from any state, without requests.
    pub longest: usize,
    pub(super) rows: Vec<Row>,
    pub(super) course: Course,
}

/// A run without the names of its attempts: what decides about its future, and nothing else; where its document stands; and
/// what was written into that, which decides nothing and must not be lost.
type Key<P> = (
    RunStatus,
    <P as protocol::Protocol>::State,
    Vec<(<P as protocol::Protocol>::Step, u32, u32, TurnStatus)>,
    Option<String>,
    Vec<&'static str>,
);

fn key<P: Explored>(run_at: &RunAt<P>) -> Key<P> {
    let run: &Run<P> = &run_at.state.run;
    let active_turns = run.active_turns.iter();
    let active_turns = active_turns
        .map(|(step, active)| (step.clone(), active.failures, active.interruptions, active.status));
    let stands = P::say_document(&run_at.document);
    (run.status, run.state.clone(), active_turns.collect(), stands, run_at.written.clone())
}

struct Search<'s, P: Explored> {
    scene: &'s Scene<P>,
    limits: Limits,
    index: HashMap<Key<P>, usize>,
    visits: Vec<Visit<P>>,
    /// By the number of requests on the way.
    queues: Vec<VecDeque<(usize, RunAt<P>)>>,
    transitions: usize,
    refusals: usize,
    rows: Vec<Row>,
    course: Course,
}

struct Visit<P: Explored> {
    /// The state before, and what came in there.
    came: Option<(usize, Input<P>)>,
    requests: usize,
    is_expanded: bool,
    /// Where facts and what is due lead from here.
    next: Vec<usize>,
}

impl<P: Explored> Scene<P> {
    /// Visits every state within the limits; answers what was seen, or the first thing that is wrong.
    pub fn explore(&self, limits: Limits) -> Result<Exploration, CounterExample> {
        let mut search = Search {
            scene: self,
            limits,
            index: HashMap::new(),
            visits: Vec::new(),
            queues: (0..=limits.requests).map(|_| VecDeque::new()).collect(),
            transitions: 0,
            refusals: 0,
            rows: Vec::new(),
            course: Course::default(),
        };
        search.run()
    }

    /// Plays a path again, for telling it. The last input may be one that broke something.
    pub(super) fn tell(&self, broken: Vec<Broken>, inputs: &[Input<P>]) -> CounterExample {
        let mut path = Vec::new();
        let mut run_at = None;
        if let Ok((opened, _)) = self.open() {
            path.push(("(opens)".to_owned(), say_run(self, &opened.state.run)));
            run_at = Some(opened);
        }
        for input in inputs {
            let taken = run_at.as_ref().map(|run_at| self.take(run_at, input));
            let (state, next) = match taken {
                Some(Ok(Taken::Moved(next, _))) => (say_run(self, &next.state.run), Some(*next)),
                Some(Ok(Taken::Refused(refusal))) => (format!("refused: {refusal}"), None),
                Some(Ok(Taken::Nothing)) => ("nothing".to_owned(), None),
                Some(Err(fault)) => {
                    (fault.after.map_or_else(|| "breaks".to_owned(), |after| say_run(self, &after)), None)
                }
                None => ("?".to_owned(), None),
            };
            path.push((say_input(input), state));
            run_at = next;
        }
        CounterExample { scene: format!("{}, {}", self.name, self.slots), broken, path }
    }

    /// What is checked once in each state. It also writes the parts, so nobody goes on from a run_at without it.
    pub(super) fn settle(
        &self,
        run_at: &mut RunAt<P>,
        entry: &protocol::entry::Entry<P>,
    ) -> Result<(), Vec<Broken>> {
        let mut broken = invariants::run_at(self, run_at);
        broken.extend(document::survives(self, run_at, entry));
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }
}

impl<P: Explored> Search<'_, P> {
    fn run(&mut self) -> Result<Exploration, CounterExample> {
        let (mut run_at, entry) = self.scene.open().map_err(|fault| self.scene.tell(fault.broken, &[]))?;
        self.scene.settle(&mut run_at, &entry).map_err(|broken| self.scene.tell(broken, &[]))?;
        self.index.insert(key(&run_at), 0);
        self.visits.push(Visit { came: None, requests: 0, is_expanded: false, next: Vec::new() });
        self.queues[0].push_back((0, run_at));
        for used in 0..=self.limits.requests {
            while let Some((state, run_at)) = self.queues[used].pop_front() {
                if !std::mem::replace(&mut self.visits[state].is_expanded, true) {
                    self.expand(state, &run_at)?;
                }
            }
        }
        let longest = self.longest_way()?;
        Ok(Exploration {
            scene: format!("{}, {}", self.scene.name, self.scene.slots),
            states: self.visits.len(),
            transitions: self.transitions,
            refusals: self.refusals,
            longest,
            rows: std::mem::take(&mut self.rows),
            course: std::mem::take(&mut self.course),
        })
    }

    fn expand(&mut self, state: usize, run_at: &RunAt<P>) -> Result<(), CounterExample> {
        for input in without_requests(self.scene, &run_at.state.run, self.limits.interruptions) {
            let next = self.go(state, run_at, input)?;
            self.visits[state].next.extend(next);
        }
        if self.visits[state].requests < self.limits.requests {
            for request in requests(self.scene) {
                self.go(state, run_at, Input::Ask(request))?;
            }
        }
        if run_at.written.len() < self.limits.writings {
            for writing in P::writings(&run_at.state.run, &run_at.document) {
                self.go(state, run_at, Input::Write(writing))?;
            }
        }
        Ok(())
    }

    /// Takes one input in; answers the state it led to.
    fn go(
        &mut self,
        state: usize,
        run_at: &RunAt<P>,
        input: Input<P>,
    ) -> Result<Option<usize>, CounterExample> {
        let broke = |search: &Self, broken| search.scene.tell(broken, &search.path(state, Some(&input)));
        let (mut next, entry) =
            match self.scene.take(run_at, &input).map_err(|fault| broke(self, fault.broken))? {
                Taken::Moved(next, entry) => (next, entry),
                Taken::Refused(refusal) => {
                    self.refusals += 1;
                    self.keep(run_at, &input, format!("refused: {refusal}"), None);
                    return Ok(None);
                }
                Taken::Nothing => return Ok(None),
            };
        self.transitions += 1;
        let written = say_written::<P>(&run_at.document, &next.document);
        self.keep(run_at, &input, say_changes::<P>(&entry.changes) + &written, Some(&next));
        self.course.note(run_at, &input, &next);
        let requests = self.visits[state].requests + usize::from(matches!(input, Input::Ask(_)));
        let count = self.visits.len();
        let found = *self.index.entry(key(&next)).or_insert(count);
        if found == count {
            self.scene.settle(&mut next, &entry).map_err(|broken| broke(self, broken))?;
            if count >= self.limits.states {
                let what = format!("there are more than {count} states");
                return Err(broke(self, vec![Broken::new("the states are few", what)]));
            }
            let came = Some((state, input));
            self.visits.push(Visit { came, requests, is_expanded: false, next: Vec::new() });
        } else if requests < self.visits[found].requests {
            // Reached before, but with more requests, and so with fewer left.
            self.visits[found].came = Some((state, input));
            self.visits[found].requests = requests;
        } else {
            return Ok(Some(found));
        }
        self.queues[requests].push_back((found, *next));
        Ok(Some(found))
    }

    fn keep(&mut self, before: &RunAt<P>, input: &Input<P>, changes: String, next: Option<&RunAt<P>>) {
        if self.limits.rows == Rows::Kept {
            self.rows.push(Row {
                state: say_run(self.scene, &before.state.run),
                input: say_input(input),
                changes,
                next: next.map(|next| say_run(self.scene, &next.state.run)),
            });
        }
    }

    /// The inputs that led to a state, and one more.
    fn path(&self, state: usize, last: Option<&Input<P>>) -> Vec<Input<P>> {
        let mut inputs: Vec<_> = last.into_iter().cloned().collect();
        let mut came = self.visits[state].came.as_ref();
        while let Some((before, input)) = came {
            inputs.push(input.clone());
            came = self.visits[*before].came.as_ref();
        }
        inputs.reverse();
        inputs
    }

    /// Facts and what is due never lead in a circle, so every run ends; this is how long it can take.
    fn longest_way(&self) -> Result<usize, CounterExample> {
        let mut enter = vec![0_usize; self.visits.len()];
        self.visits.iter().flat_map(|visit| &visit.next).for_each(|next| enter[*next] += 1);
        let mut ready: Vec<_> = (0..enter.len()).filter(|state| enter[*state] == 0).collect();
        let mut length = vec![0_usize; enter.len()];
        let mut seen = 0;
        while let Some(state) = ready.pop() {
            seen += 1;
            for next in &self.visits[state].next {
                length[*next] = length[*next].max(length[state] + 1);
                enter[*next] -= 1;
                if enter[*next] == 0 {
                    ready.push(*next);
                }
            }
        }
        if seen < enter.len() {
            // Whoever can never be entered first is on a circle, or behind one.
            let circle = (0..enter.len()).find(|state| enter[*state] > 0).unwrap_or(0);
            let broken =
                Broken::new("no circle among facts", "from here the run can come back to where it was");
            return Err(self.scene.tell(vec![broken], &self.path(circle, None)));
        }
        Ok(length.into_iter().max().unwrap_or(0))
    }
}
