//! The seed's rules for a cycle's document: any JSON → every rule it breaks, under the names the seed's tables give them.
//!
//! Works on plain JSON and not on [`Document`], which could not hold most of what is wrong. `F` are the fields, `P` the
//! order of phases, `S` the sequences. F8 (fields that the seed does not know are kept) and most of S4 cannot be broken by a
//! document alone: they hold between two, and [`transition`](super::transition) sees to them.

mod fields;
mod order;
mod parsed;
mod phases;
mod sequences;

use serde_json::Value;

use super::document::{Document, VERSION};
use crate::check::{At, Findings, Violation};
use parsed::Facts;

/// What checking a document has shown, in the order of the seed's tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    pub violations: Vec<Violation>,
    /// What is accepted, but would not be by a stricter reader.
    pub warnings: Vec<Violation>,
}

/// Checks our own document as a reader of its text would.
pub fn check_document(document: &Document) -> Checked {
    check(&document.to_value())
}

/// Checks a document from anywhere.
pub fn check(document: &Value) -> Checked {
    let (mut broken, mut doubtful) = (Findings::default(), Findings::default());
    let at = At::document();
    match document.as_object() {
        None => broken.mistyped("F5", &at, document, "an object", "begin it with `{\"version\": 2, …`"),
        // The other rules are those of version 2.
        Some(head) if !is_current(&at, head.get("version"), &mut broken) => {}
        Some(head) => {
            fields::check(&at, head, &mut broken);
            phases::check(&at, head, &mut broken);
            let facts = Facts::read(document);
            fields::check_identity(&at, &facts, &mut broken);
            order::check(&at, &facts, &mut broken);
            sequences::check(&at, &facts, &mut broken);
            sequences::doubt(&at, &facts, &mut doubtful);
        }
    }
    Checked { violations: broken.0, warnings: doubtful.0 }
}

/// F1. Another version breaks no rule: it has to be migrated first.
fn is_current(at: &At, version: Option<&Value>, findings: &mut Findings) -> bool {
    const MIGRATE: &str = "leave it as it is; `callboard import --peer` turns it into version 2";
    let Some(version) = version else {
        let message =
            "the document has no `version`: it is of an older format and needs migration".to_owned();
        findings.add("F1", at, message, format!("if it is version 2, add `\"version\": 2`; else {MIGRATE}"));
        return false;
    };
    if version.as_u64() == Some(VERSION) {
        return true;
    }
    let at = at.field("version");
    if version.as_f64().is_some_and(|number| number > 2.0) {
        let message = format!("{} is {version}: it was written by a later Callboard", at.owner);
        findings.add("F1", &at, message, "update `callboard` and check it again");
    } else {
        let message = format!("{} is {version}: it is of an older format and needs migration", at.owner);
        findings.add("F1", &at, message, MIGRATE);
    }
    false
}
