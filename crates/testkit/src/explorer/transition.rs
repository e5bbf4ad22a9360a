//! One input taken in, with everything before and after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::entry::{Entry, RunState};
use protocol::run::{Action, Attempt, Run};
use protocol::{AttemptNo, Turn};

use super::{Explored, Input};

/// A run as one path has made it.
#[derive(Debug, Clone)]
pub(super) struct RunAt<P: Explored> {
    pub(super) state: RunState<P>,
    pub(super) document: P::Document,
    /// What a store would hold of the document.
    pub(super) parts: BTreeMap<Arc<str>, Arc<str>>,
    /// Parts that were said to have changed, and are still to be written there.
    pub(super) touched: Vec<String>,
    /// The newest attempt of each step that was ever started, as the outside world knows it.
    pub(super) started: BTreeMap<P::Step, (Turn, AttemptNo)>,
    /// What people and agents wrote into the document themselves, by its name: the run does not remember it.
    pub(super) written: Vec<&'static str>,
}

/// One input, what was decided, and where it led.
#[derive(Debug)]
pub struct Transition<'a, P: Explored> {
    pub before: &'a Run<P>,
    /// `None` for the opening.
    pub input: Option<&'a Input<P>>,
    pub entry: &'a Entry<P>,
    pub after: &'a Run<P>,
    /// The document before; of the opening, one that nobody has seen.
    pub was: &'a P::Document,
    pub shown: &'a P::Document,
}

impl<P: Explored> Transition<'_, P> {
    /// Attempts that this transition starts.
    pub fn started(&self) -> impl Iterator<Item = &Attempt<P::Step>> {
        self.entry.actions.iter().filter_map(|action| match action {
            Action::Start { attempt } => Some(attempt),
            Action::End { .. } => None,
        })
    }
}
