//! One input, with everything before and after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::entry::Entry;
use protocol::run::{Action, Run, RunState};
use protocol::{AttemptId, AttemptNo, StepId, Turn};

use super::{Explored, Input, typed};

/// The state at the end of one path of inputs.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) state: RunState,
    /// The parts of the document as a store would have them.
    pub(super) parts: BTreeMap<Arc<str>, Arc<str>>,
    /// The paths of parts that `record` reported as changed and that are not in `parts` yet.
    pub(super) changed_parts: Vec<String>,
    /// The newest attempt of each step that was ever started, recorded independently of the run.
    pub(super) started: BTreeMap<StepId, (Turn, AttemptNo)>,
    /// The names of the document writes on the path. The state does not show them, so they tell two nodes apart.
    pub(super) written: Vec<&'static str>,
}

/// One input, the decision, and the result.
#[derive(Debug)]
pub struct Transition<'a, P: Explored> {
    pub before: &'a Run,
    /// `None` for the start of the run.
    pub input: Option<&'a Input>,
    pub entry: &'a Entry<P>,
    pub after: &'a Run,
}

impl<'a, P: Explored> Transition<'a, P> {
    pub fn state_before(&self) -> &'a P::State {
        &typed::<P>(self.before).state
    }

    pub fn state_after(&self) -> &'a P::State {
        &typed::<P>(self.after).state
    }

    /// Returns the document before the input. At the start of the run there is none: do not use it there.
    pub fn document_before(&self) -> &'a P::Document {
        &typed::<P>(self.before).document
    }

    pub fn document_after(&self) -> &'a P::Document {
        &typed::<P>(self.after).document
    }

    /// Returns a step of the run after the input.
    pub fn step(&self, id: &StepId) -> P::Step {
        let machine = typed::<P>(self.after);
        P::step(&machine.definition, &machine.state, id).expect("BUG: the run has no such step")
    }

    /// Returns the attempts that this transition starts.
    pub fn started(&self) -> impl Iterator<Item = &'a AttemptId> {
        self.entry.actions.iter().filter_map(|action| match action {
            Action::Start { attempt } => Some(attempt),
            Action::Stop { .. } => None,
        })
    }
}
