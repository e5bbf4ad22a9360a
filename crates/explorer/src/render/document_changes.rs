//! The changes of a document, as a diagram: which status each input leads to, independent of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::notation::describe_input;
use crate::transition::Node;
use crate::{Exploration, Explored, Input, typed};

/// Every change of the document that was seen: the status before, the input, the status after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentChanges(BTreeSet<(String, String, String)>);

impl DocumentChanges {
    /// Records the statuses before and after an input that changed the document.
    pub(crate) fn record<P: Explored>(&mut self, before: &Node, input: &Input, after: &Node) {
        let (before, after) = (typed::<P>(&before.state.run), typed::<P>(&after.state.run));
        let statuses = (P::describe_document(&before.document), P::describe_document(&after.document));
        if let (Some(from), Some(to)) = statuses
            && before.document != after.document
        {
            self.0.insert((from, describe_input::<P>(input), to));
        }
    }

    /// Adds the changes that an exploration has seen.
    pub fn add(&mut self, seen: &Exploration) {
        self.0.extend(seen.document_changes.0.iter().cloned());
    }

    /// Returns a state diagram in Mermaid's language; `order` lists the statuses from top to bottom.
    pub fn diagram(&self, order: &[String]) -> String {
        let name = |status: &str| status.replace(' ', "_");
        let rank = |status: &str| order.iter().position(|known| known == status).unwrap_or(order.len());
        let mut arrows: BTreeMap<(usize, usize, &str, &str), Vec<&str>> = BTreeMap::new();
        for (from, input, to) in &self.0 {
            arrows.entry((rank(from), rank(to), from, to)).or_default().push(input);
        }
        let mut diagram = "stateDiagram-v2\n".to_owned();
        for status in order.iter().filter(|status| status.contains(' ')) {
            let _ = writeln!(diagram, "    state \"{status}\" as {}", name(status));
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
            |status: &String| arrows.keys().any(|(.., from, to)| from == status && to != status);
        for end in order.iter().filter(|status| !has_successor(status)) {
            let _ = writeln!(diagram, "    {} --> [*]", name(end));
        }
        diagram
    }
}
