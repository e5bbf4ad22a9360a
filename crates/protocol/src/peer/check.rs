//! Checks a document against the rules of its format. `docs/peer.md` lists them by their ids.
//!
//! Works on JSON, because most invalid documents cannot be parsed into a [`Document`]. The rules F are about fields, P about
//! the order of phases, S about sequence numbers. F8 (unknown fields are preserved) and most of S4 relate two documents;
//! [`transition`](super::transition) checks them.

mod fields;
mod order;
mod parsed;
mod phases;
mod sequences;

use serde_json::Value;

use super::document::{Document, VERSION};
use crate::check::{Location, Violation, ViolationCollector};
use parsed::ParsedDocument;

/// What breaks a rule, in the order of the rules. Empty if the document is valid.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleViolations {
    pub violations: Vec<Violation>,
    /// Accepted here, but not by a stricter reading of the format.
    pub warnings: Vec<Violation>,
}

/// Checks a parsed document.
pub fn check_document(document: &Document) -> RuleViolations {
    check(&document.to_value())
}

/// Checks any JSON value.
pub fn check(document: &Value) -> RuleViolations {
    let (mut violations, mut warnings) = (ViolationCollector::default(), ViolationCollector::default());
    let at = Location::document();
    match document.as_object() {
        None => violations.wrong_type_for_rule(
            "F5",
            &at,
            document,
            "an object",
            "begin it with `{\"version\": 2, …`",
        ),
        // The other rules are those of version 2.
        Some(object) if !is_current(&at, object.get("version"), &mut violations) => {}
        Some(object) => {
            fields::check(&at, object, &mut violations);
            phases::check(&at, object, &mut violations);
            let parsed = ParsedDocument::read(document);
            fields::check_identity(&at, &parsed, &mut violations);
            order::check(&at, &parsed, &mut violations);
            sequences::check(&at, &parsed, &mut violations);
            sequences::warn(&at, &parsed, &mut warnings);
        }
    }
    RuleViolations { violations: violations.0, warnings: warnings.0 }
}

/// F1. A document of another version is not checked further: it must be migrated first.
fn is_current(at: &Location, version: Option<&Value>, findings: &mut ViolationCollector) -> bool {
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
        let message = format!("{} is {version}: it was written by a later Callboard", at.name);
        findings.add("F1", &at, message, "update `callboard` and check it again");
    } else {
        let message = format!("{} is {version}: it is of an older format and needs migration", at.name);
        findings.add("F1", &at, message, MIGRATE);
    }
    false
}
