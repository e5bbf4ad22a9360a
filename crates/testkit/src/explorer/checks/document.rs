//! The document must be valid in every state.

use std::sync::Arc;

use protocol::entry::Entry;

use super::Violation;
use crate::explorer::transition::Node;
use crate::explorer::{Explored, Scene};

/// Applies the entry to the document, and compares it with the run.
pub(in crate::explorer) fn record<P: Explored>(
    scene: &Scene<P>,
    node: &mut Node<P>,
    entry: &Entry<P>,
) -> Vec<Violation> {
    node.touched = match P::record(&scene.definition, &mut node.document, entry) {
        Ok(touched) => touched,
        Err(error) => return vec![Violation::new("the document keeps the seed's rules", error.to_string())],
    };
    let differs = P::compare(&scene.definition, &node.state.run, &node.document);
    differs.into_iter().map(|what| Violation::new("the document agrees with the run", what)).collect()
}

/// Writes the parts that were reported as changed, as a store would.
pub(in crate::explorer) fn keep_parts<P: Explored>(node: &mut Node<P>) {
    for path in std::mem::take(&mut node.touched) {
        let body = P::part(&node.document, &path);
        node.parts.insert(path.into(), body.into());
    }
}

/// The expensive checks, once per state: the document keeps the rules of its seed, its stored parts give the same
/// document, and the entry survives encoding.
pub(in crate::explorer) fn survives<P: Explored>(
    scene: &Scene<P>,
    node: &mut Node<P>,
    entry: &Entry<P>,
) -> Vec<Violation> {
    keep_parts(node);
    let wrong = (scene.check)(&node.document).into_iter();
    let mut violations: Vec<_> =
        wrong.map(|what| Violation::new("the document keeps the seed's rules", what)).collect();
    let parts: Vec<_> = node.parts.iter().map(|(path, body)| (owned(path), owned(body))).collect();
    if P::assemble(&scene.definition, &parts).as_ref() != Some(&node.document) {
        let what = "the parts that were reported as changed give another document";
        violations.push(Violation::new("the parts give the document", what));
    }
    if Entry::<P>::decode(&entry.encode()).ok().as_ref() != Some(entry) {
        violations.push(Violation::new("entries survive encoding", "the decoded entry differs"));
    }
    violations
}

fn owned(text: &Arc<str>) -> String {
    text.as_ref().to_owned()
}
