//! The writes of a document: which position each leads to, whatever the run does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::notation::say_input;
use crate::transition::Node;
use crate::{Exploration, Explored, Input, typed};

/// Every write that was seen: from which position, on which input, to which position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentWrites(BTreeSet<(String, String, String)>);

impl DocumentWrites {
    pub(crate) fn note<P: Explored>(&mut self, before: &Node, input: &Input, after: &Node) {
        let (before, after) = (typed::<P>(&before.state.run), typed::<P>(&after.state.run));
        let positions = (P::say_document(&before.document), P::say_document(&after.document));
        if let (Some(from), Some(to)) = positions
            && before.document != after.document
        {
            self.0.insert((from, say_input::<P>(input), to));
        }
    }

    /// Adds the writes of another exploration.
    pub fn add(&mut self, seen: &Exploration) {
        self.0.extend(seen.writes.0.iter().cloned());
    }

    /// Returns a state diagram in Mermaid's language; `order` lists the positions from top to bottom.
    pub fn diagram(&self, order: &[String]) -> String {
        let name = |position: &str| position.replace(' ', "_");
        let at = |position: &str| order.iter().position(|known| known == position).unwrap_or(order.len());
        let mut arrows: BTreeMap<(usize, usize, &str, &str), Vec<&str>> = BTreeMap::new();
        for (from, input, to) in &self.0 {
            arrows.entry((at(from), at(to), from, to)).or_default().push(input);
        }
        let mut diagram = "stateDiagram-v2\n".to_owned();
        for position in order.iter().filter(|position| position.contains(' ')) {
            let _ = writeln!(diagram, "    state \"{position}\" as {}", name(position));
        }
        if let Some(first) = order.first() {
            let _ = writeln!(diagram, "    [*] --> {}", name(first));
        }
        for ((.., from, to), inputs) in &arrows {
            // A colon ends a label.
            let label = inputs.join(", ").replace(": ", " ");
            let _ = writeln!(diagram, "    {} --> {} : {label}", name(from), name(to));
        }
        let leaves =
            |position: &String| arrows.keys().any(|(.., from, to)| from == position && to != position);
        for end in order.iter().filter(|position| !leaves(position)) {
            let _ = writeln!(diagram, "    {} --> [*]", name(end));
        }
        diagram
    }
}
