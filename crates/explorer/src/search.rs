//! Breadth-first search through every state, in the order of the number of requests on the path.

use std::collections::{HashMap, VecDeque};

use protocol::StepId;
use protocol::run::{RunStatus, TurnStatus};

use super::input::{Interruptions, facts, requests};
use super::model::{InputResult, Model};
use super::render::{
    DocumentChanges, Row, describe_changes, describe_document_change, describe_input, describe_run,
};
use super::transition::Node;
use super::{CounterExample, Explored, Input, Violation, checks, typed};

/// The limits of an exploration.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Requests on one path.
    pub requests: usize,
    /// Writes to the document on one path.
    pub writes: usize,
    /// The exploration fails with more states than this: the definition is too large, or the protocol is wrong.
    pub states: usize,
    pub interruptions: Interruptions,
    pub rows: KeepRows,
}

/// Whether each transition is kept as a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepRows {
    Counted,
    /// Kept for printing.
    Kept,
}

impl Limits {
    /// Returns limits with this many requests on a path.
    pub fn with_requests(requests: usize) -> Self {
        Self {
            requests,
            writes: 0,
            states: MAX_STATES,
            interruptions: Interruptions::Once,
            rows: KeepRows::Counted,
        }
    }

    /// Returns limits with every request in every state.
    pub fn with_any_requests() -> Self {
        Self::with_requests(ANY_REQUESTS)
    }

    /// Returns the number of requests on a path as text: `any` if it is not limited.
    pub fn describe_requests(&self) -> String {
        if self.requests == ANY_REQUESTS { "any".to_owned() } else { self.requests.to_string() }
    }

    /// Allows this many writes on a path.
    #[must_use]
    pub fn and_writes(self, writes: usize) -> Self {
        Self { writes, ..self }
    }

    /// Leaves out interruptions of attempts.
    #[must_use]
    pub fn uninterrupted(self) -> Self {
        Self { interruptions: Interruptions::Never, ..self }
    }

    /// Returns limits for a table or a diagram. Interruptions are left out: they would add a row for every attempt.
    pub fn to_print(requests: usize) -> Self {
        Self { rows: KeepRows::Kept, ..Self::with_requests(requests).uninterrupted() }
    }
}

/// Stands for any number of requests: no small definition needs as many to reach a state.
const ANY_REQUESTS: usize = 64;

/// An exploration with more states takes too long for a test.
const MAX_STATES: usize = 30_000;

/// The result of an exploration.
#[derive(Debug, Clone)]
pub struct Exploration {
    pub model: String,
    pub states: usize,
    pub transitions: usize,
    /// Refused requests, one for each state and request.
    pub refusals: usize,
    /// The number of inputs on the longest path without requests and answers, from any state.
    pub longest_path: usize,
    pub(super) rows: Vec<Row>,
    pub(super) document_changes: DocumentChanges,
}

/// What identifies a state: the run without the numbers of its turns and attempts, the status of its document, and
/// the names of the writes on the path.
type Key<P> = (
    RunStatus,
    <P as protocol::Protocol>::State,
    Vec<(StepId, u32, u32, TurnStatus)>,
    Option<String>,
    Vec<&'static str>,
);

fn key<P: Explored>(node: &Node) -> Key<P> {
    let run = &node.state.run;
    let machine = typed::<P>(run);
    let active_turns = run.active_turns.iter();
    let active_turns = active_turns
        .map(|(step, active)| (step.clone(), active.failures, active.interruptions, active.status));
    let document_status = P::describe_document(&machine.document);
    (run.status, machine.state.clone(), active_turns.collect(), document_status, node.written.clone())
}

/// A search in progress. States are numbered by their index in `visits`.
struct Search<'s, P: Explored> {
    model: &'s Model<P>,
    limits: Limits,
    index: HashMap<Key<P>, usize>,
    visits: Vec<Visit>,
    /// The states to expand, by the number of requests on the path.
    queues: Vec<VecDeque<(usize, Node)>>,
    transitions: usize,
    refusals: usize,
    rows: Vec<Row>,
    document_changes: DocumentChanges,
}

/// A state that was reached.
struct Visit {
    /// The previous state, and the input.
    reached_by: Option<(usize, Input)>,
    requests: usize,
    is_expanded: bool,
    /// The states that facts, but not answers, and deferred transitions lead to.
    next: Vec<usize>,
}

impl<P: Explored> Model<P> {
    /// Visits every state within the limits. Returns what was seen, or the first violation.
    pub fn explore(&self, limits: Limits) -> Result<Exploration, CounterExample> {
        let mut search = Search {
            model: self,
            limits,
            index: HashMap::new(),
            visits: Vec::new(),
            queues: (0..=limits.requests).map(|_| VecDeque::new()).collect(),
            transitions: 0,
            refusals: 0,
            rows: Vec::new(),
            document_changes: DocumentChanges::default(),
        };
        search.run()
    }

    /// Replays a path to describe it. The last input may be the one that violates a rule.
    pub(super) fn counter_example(&self, violations: Vec<Violation>, inputs: &[Input]) -> CounterExample {
        let mut path = Vec::new();
        let mut node = None;
        if let Ok(opened) = self.open() {
            path.push(("(opens)".to_owned(), describe_run::<P>(&opened.state.run)));
            node = Some(opened);
        }
        for input in inputs {
            let result = node.as_ref().map(|node| self.apply(node, input));
            let (state, next) = match result {
                Some(Ok(InputResult::Moved(next, _))) => (describe_run::<P>(&next.state.run), Some(*next)),
                Some(Ok(InputResult::Refused(refusal))) => (format!("refused: {refusal}"), None),
                Some(Ok(InputResult::Unchanged)) => ("nothing".to_owned(), None),
                Some(Err(failure)) => (
                    failure.after.map_or_else(|| "breaks".to_owned(), |after| describe_run::<P>(&after)),
                    None,
                ),
                None => ("?".to_owned(), None),
            };
            path.push((describe_input::<P>(input), state));
            node = next;
        }
        CounterExample { model: format!("{}, {}", self.name, self.slots), violations, path }
    }

    /// Runs the checks that are made once per state. Also stores the changed parts, so it must be called for every
    /// state.
    pub(super) fn check_state(&self, node: &mut Node) -> Result<(), Vec<Violation>> {
        let mut violations = checks::check_node(self, node);
        violations.extend(checks::document::check_stored_parts(self, node));
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }
}

impl<P: Explored> Search<'_, P> {
    fn run(&mut self) -> Result<Exploration, CounterExample> {
        let mut node =
            self.model.open().map_err(|failure| self.model.counter_example(failure.violations, &[]))?;
        self.model
            .check_state(&mut node)
            .map_err(|violations| self.model.counter_example(violations, &[]))?;
        self.index.insert(key::<P>(&node), 0);
        self.visits.push(Visit { reached_by: None, requests: 0, is_expanded: false, next: Vec::new() });
        self.queues[0].push_back((0, node));
        for requests in 0..=self.limits.requests {
            while let Some((state, node)) = self.queues[requests].pop_front() {
                if !std::mem::replace(&mut self.visits[state].is_expanded, true) {
                    self.expand(state, &node)?;
                }
            }
        }
        let longest_path = self.longest_path()?;
        let requests = self.visits.iter().map(|visit| visit.requests).max().unwrap_or(0);
        assert!(requests < ANY_REQUESTS, "BUG: not every request was made in every state");
        Ok(Exploration {
            model: format!("{}, {}", self.model.name, self.model.slots),
            states: self.visits.len(),
            transitions: self.transitions,
            refusals: self.refusals,
            longest_path,
            rows: std::mem::take(&mut self.rows),
            document_changes: std::mem::take(&mut self.document_changes),
        })
    }

    fn expand(&mut self, state: usize, node: &Node) -> Result<(), CounterExample> {
        for input in facts(self.model, &node.state.run, self.limits.interruptions) {
            let is_answer = input.is_answer();
            let next = self.apply_input(state, node, input)?;
            self.visits[state].next.extend(next.filter(|_| !is_answer));
        }
        if self.visits[state].requests < self.limits.requests {
            for request in requests::<P>(&node.state.run) {
                self.apply_input(state, node, Input::Request(request))?;
            }
        }
        if node.written.len() < self.limits.writes {
            for write in P::writes(&node.state.run, &typed::<P>(&node.state.run).document) {
                self.apply_input(state, node, Input::Write(write))?;
            }
        }
        Ok(())
    }

    /// Applies one input. Returns the state it leads to.
    fn apply_input(
        &mut self,
        state: usize,
        node: &Node,
        input: Input,
    ) -> Result<Option<usize>, CounterExample> {
        let counter_example = |search: &Self, violations| {
            search.model.counter_example(violations, &search.path(state, Some(&input)))
        };
        let (mut next, entry) = match self
            .model
            .apply(node, &input)
            .map_err(|failure| counter_example(self, failure.violations))?
        {
            InputResult::Moved(next, entry) => (next, entry),
            InputResult::Refused(refusal) => {
                self.refusals += 1;
                self.keep_row(node, &input, || format!("refused: {refusal}"), None);
                return Ok(None);
            }
            InputResult::Unchanged => return Ok(None),
        };
        self.transitions += 1;
        let changes = || {
            let document_change = describe_document_change::<P>(&node.state.run, &next.state.run);
            describe_changes::<P>(&entry.changes) + &document_change
        };
        self.keep_row(node, &input, changes, Some(&next));
        self.document_changes.record::<P>(node, &input, &next);
        let requests = self.visits[state].requests + usize::from(matches!(input, Input::Request(_)));
        let count = self.visits.len();
        let found = *self.index.entry(key::<P>(&next)).or_insert(count);
        if found == count {
            self.model.check_state(&mut next).map_err(|violations| counter_example(self, violations))?;
            if count >= self.limits.states {
                let what = format!("there are more than {count} states");
                return Err(counter_example(
                    self,
                    vec![Violation::new("the number of states is limited", what)],
                ));
            }
            let reached_by = Some((state, input));
            self.visits.push(Visit { reached_by, requests, is_expanded: false, next: Vec::new() });
        } else if requests < self.visits[found].requests {
            // Reached before on a path with more requests: expand it from this path, which has more of them left.
            checks::document::store_changed_parts(&mut next);
            self.visits[found].reached_by = Some((state, input));
            self.visits[found].requests = requests;
        } else {
            return Ok(Some(found));
        }
        self.queues[requests].push_back((found, *next));
        Ok(Some(found))
    }

    fn keep_row(
        &mut self,
        before: &Node,
        input: &Input,
        changes: impl FnOnce() -> String,
        next: Option<&Node>,
    ) {
        if self.limits.rows == KeepRows::Kept {
            self.rows.push(Row {
                state: describe_run::<P>(&before.state.run),
                input: describe_input::<P>(input),
                changes: changes(),
                next: next.map(|next| describe_run::<P>(&next.state.run)),
            });
        }
    }

    /// Returns the inputs that led to a state, and one more.
    fn path(&self, state: usize, last: Option<&Input>) -> Vec<Input> {
        let mut inputs: Vec<_> = last.into_iter().cloned().collect();
        let mut reached_by = self.visits[state].reached_by.as_ref();
        while let Some((before, input)) = reached_by {
            inputs.push(input.clone());
            reached_by = self.visits[*before].reached_by.as_ref();
        }
        inputs.reverse();
        inputs
    }

    /// Returns the longest path of facts and deferred transitions. Fails if they form a cycle, because then a run
    /// might never end. Answers are left out: a person may reject for ever.
    fn longest_path(&self) -> Result<usize, CounterExample> {
        let mut incoming = vec![0_usize; self.visits.len()];
        self.visits.iter().flat_map(|visit| &visit.next).for_each(|next| incoming[*next] += 1);
        let mut ready: Vec<_> = (0..incoming.len()).filter(|state| incoming[*state] == 0).collect();
        let mut length = vec![0_usize; incoming.len()];
        let mut sorted = 0;
        while let Some(state) = ready.pop() {
            sorted += 1;
            for next in &self.visits[state].next {
                length[*next] = length[*next].max(length[state] + 1);
                incoming[*next] -= 1;
                if incoming[*next] == 0 {
                    ready.push(*next);
                }
            }
        }
        if sorted < incoming.len() {
            let state = self.state_on_cycle(|state| incoming[state] > 0);
            let violation =
                Violation::new("facts never form a cycle", "from here the run can return to this state");
            return Err(self.model.counter_example(vec![violation], &self.path(state, None)));
        }
        Ok(length.into_iter().max().unwrap_or(0))
    }

    /// Returns the first state on a cycle. `is_left` holds for the states on cycles and behind them. Each of them follows
    /// another one, so a walk back ends on a cycle.
    fn state_on_cycle(&self, is_left: impl Fn(usize) -> bool) -> usize {
        let mut previous = vec![None; self.visits.len()];
        for (state, visit) in self.visits.iter().enumerate().filter(|(state, _)| is_left(*state)) {
            visit.next.iter().for_each(|next| previous[*next] = Some(state));
        }
        let first = (0..previous.len()).find(|state| is_left(*state)).unwrap_or(0);
        let walk = std::iter::successors(Some(first), |state| previous[*state]);
        walk.skip(previous.len()).take(previous.len()).min().unwrap_or(first)
    }
}
