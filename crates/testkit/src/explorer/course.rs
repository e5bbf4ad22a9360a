//! The course of a document: where its writes lead, whatever the run around it does.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::notation::say_input;
use super::transition::RunAt;
use super::{Exploration, Explored, Input};

/// Every write that was seen, in words: from where, on which input, to where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Course(BTreeSet<(String, String, String)>);

impl Course {
    pub(super) fn note<P: Explored>(&mut self, before: &RunAt<P>, input: &Input<P>, after: &RunAt<P>) {
        if before.document == after.document {
            return;
        }
        if let (Some(from), Some(to)) = (P::say_document(&before.document), P::say_document(&after.document))
        {
            self.0.insert((from, say_input(input), to));
        }
    }

    /// Adds what another exploration saw.
    pub fn add(&mut self, seen: &Exploration) {
        self.0.extend(seen.course.0.iter().cloned());
    }

    /// A state diagram in Mermaid's language; `order` has the places from top to bottom.
    pub fn diagram(&self, order: &[String]) -> String {
        let name = |place: &str| place.replace(' ', "_");
        let at = |place: &str| order.iter().position(|known| known == place).unwrap_or(order.len());
        let mut arrows: BTreeMap<(usize, usize, &str, &str), Vec<&str>> = BTreeMap::new();
        for (from, input, to) in &self.0 {
            arrows.entry((at(from), at(to), from, to)).or_default().push(input);
        }
        let mut diagram = "stateDiagram-v2\n".to_owned();
        for place in order.iter().filter(|place| place.contains(' ')) {
            let _ = writeln!(diagram, "    state \"{place}\" as {}", name(place));
        }
        if let Some(first) = order.first() {
            let _ = writeln!(diagram, "    [*] --> {}", name(first));
        }
        for ((.., from, to), inputs) in &arrows {
            // A colon ends a label.
            let label = inputs.join(", ").replace(": ", " ");
            let _ = writeln!(diagram, "    {} --> {} : {label}", name(from), name(to));
        }
        let leaves = |place: &String| arrows.keys().any(|(.., from, to)| from == place && to != place);
        for end in order.iter().filter(|place| !leaves(place)) {
            let _ = writeln!(diagram, "    {} --> [*]", name(end));
        }
        diagram
    }
}
