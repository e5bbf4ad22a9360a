//! The changes of a document, as a diagram: which position each input leads to, independent of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::notation::describe_input;
use crate::transition::Node;
use crate::{Exploration, Explored, Input, typed};

/// Every change of the document that was seen: the position before, the input, the position after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentWrites(BTreeSet<(String, String, String)>);

impl DocumentWrites {
    /// Records the positions before and after an input that changed the document.
    pub(crate) fn record<P: Explored>(&mut self, before: &Node, input: &Input, after: &Node) {
        let (before, after) = (typed::<P>(&before.state.run), typed::<P>(&after.state.run));
        let positions = (P::describe_document(&before.document), P::describe_document(&after.document));
        if let (Some(from), Some(to)) = positions
            && before.document != after.document
        {
            self.0.insert((from, describe_input::<P>(input), to));
        }
    }

    /// Adds the changes that an exploration has seen.
    pub fn add(&mut self, seen: &Exploration) {
        self.0.extend(seen.writes.0.iter().cloned());
    }

    /// Returns a state diagram in Mermaid's language; `order` lists the positions from top to bottom.
    pub fn diagram(&self, order: &[String]) -> String {
        let name = |position: &str| position.replace(' ', "_");
        let rank = |position: &str| order.iter().position(|known| known == position).unwrap_or(order.len());
        let mut arrows: BTreeMap<(usize, usize, &str, &str), Vec<&str>> = BTreeMap::new();
        for (from, input, to) in &self.0 {
            arrows.entry((rank(from), rank(to), from, to)).or_default().push(input);
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
        let has_successor =
            |position: &String| arrows.keys().any(|(.., from, to)| from == position && to != position);
        for end in order.iter().filter(|position| !has_successor(position)) {
            let _ = writeln!(diagram, "    {} --> [*]", name(end));
        }
        diagram
    }
}
