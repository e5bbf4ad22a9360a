//! The document must be valid, and its stored parts complete, in every state. A node is a state that the explorer has reached.

use std::sync::Arc;

use protocol::entry::Entry;

use super::Violation;
use crate::transition::Node;
use crate::{Explored, Model, typed};

/// Applies the entry to the document. Then compares the document with the state of the run.
pub(crate) fn record_and_compare<P: Explored>(node: &mut Node, entry: &Entry) -> Vec<Violation> {
    node.changed_parts = match node.state.run.machine.record(entry) {
        Ok(changed_parts) => changed_parts,
        Err(error) => {
            return vec![Violation::new("the document keeps its format's rules", error.to_string())];
        }
    };
    let differences = P::document_differences(&node.state.run, typed(&node.state.run));
    differences.into_iter().map(|what| Violation::new("the document agrees with the run", what)).collect()
}

/// Writes the parts that were reported as changed, as a store would.
pub(crate) fn store_changed_parts(node: &mut Node) {
    for path in std::mem::take(&mut node.changed_parts) {
        let body = node.state.run.machine.part(&path);
        node.parts.insert(path.into(), body.into());
    }
}

/// Stores the changed parts. Checks that the document keeps the rules of its format, and that the stored parts assemble
/// to the same document. Expensive, so it is called once per state.
pub(crate) fn check_stored_parts<P: Explored>(model: &Model<P>, node: &mut Node) -> Vec<Violation> {
    store_changed_parts(node);
    let problems = (model.check)(&typed::<P>(&node.state.run).document).into_iter();
    let mut violations: Vec<_> =
        problems.map(|what| Violation::new("the document keeps its format's rules", what)).collect();
    let parts: Vec<_> = node.parts.iter().map(|(path, body)| (owned(path), owned(body))).collect();
    let machine = &node.state.run.machine;
    if machine.assemble(&parts) != Some(machine.document()) {
        let what = "the parts that were reported as changed give another document";
        violations.push(Violation::new("the parts give the document", what));
    }
    violations
}

fn owned(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}
