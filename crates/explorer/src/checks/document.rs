//! The document must be valid in every state.

use std::sync::Arc;

use protocol::entry::Entry;

use super::Violation;
use crate::transition::Node;
use crate::{Explored, Model, typed};

/// Applies the entry to the document, and compares it with the run.
pub(crate) fn record<P: Explored>(node: &mut Node, entry: &Entry) -> Vec<Violation> {
    node.touched = match node.state.run.machine.record(entry) {
        Ok(touched) => touched,
        Err(error) => {
            return vec![Violation::new("the document keeps its format's rules", error.to_string())];
        }
    };
    let differs = P::compare(&node.state.run, typed(&node.state.run));
    differs.into_iter().map(|what| Violation::new("the document agrees with the run", what)).collect()
}

/// Writes the parts that were reported as changed, as a store would.
pub(crate) fn keep_parts(node: &mut Node) {
    for path in std::mem::take(&mut node.touched) {
        let body = node.state.run.machine.part(&path);
        node.parts.insert(path.into(), body.into());
    }
}

/// The expensive checks, once per state: the document keeps the rules of its format, and its stored parts give the same
/// document.
pub(crate) fn survives<P: Explored>(model: &Model<P>, node: &mut Node) -> Vec<Violation> {
    keep_parts(node);
    let wrong = (model.check)(&typed::<P>(&node.state.run).document).into_iter();
    let mut violations: Vec<_> =
        wrong.map(|what| Violation::new("the document keeps its format's rules", what)).collect();
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
