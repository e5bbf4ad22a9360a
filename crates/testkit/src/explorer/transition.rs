//! One input, with everything before and after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::entry::{Entry, RunState};
use protocol::run::{Action, Attempt, Run};
use protocol::{AttemptNo, Turn};

use super::{Explored, Input};

/// The state at the end of one path.
#[derive(Debug, Clone)]
pub(super) struct Node<P: Explored> {
    pub(super) state: RunState<P>,
    pub(super) document: P::Document,
    /// The parts of the document that a store would hold.
    pub(super) parts: BTreeMap<Arc<str>, Arc<str>>,
    /// Parts that were reported as changed and are not in `parts` yet.
    pub(super) touched: Vec<String>,
    /// The newest attempt of each step that was ever started, recorded independently of the run.
    pub(super) started: BTreeMap<P::Step, (Turn, AttemptNo)>,
    /// The names of the writes to the document, which the run does not contain.
    pub(super) written: Vec<&'static str>,
}

/// One input, the decision, and the result.
#[derive(Debug)]
pub struct Transition<'a, P: Explored> {
    pub before: &'a Run<P>,
    /// `None` for the start of the run.
    pub input: Option<&'a Input<P>>,
    pub entry: &'a Entry<P>,
    pub after: &'a Run<P>,
    /// The document before. Meaningless at the start of the run.
    pub was: &'a P::Document,
    pub shown: &'a P::Document,
}

impl<P: Explored> Transition<'_, P> {
    /// Returns the attempts that this transition starts.
    pub fn started(&self) -> impl Iterator<Item = &Attempt<P::Step>> {
        self.entry.actions.iter().filter_map(|action| match action {
            Action::Start { attempt } => Some(attempt),
            Action::End { .. } => None,
        })
    }
}
