//! Older formats of a cycle: every shape there ever was becomes a document that keeps the rules, whatever is missing, in
//! whatever order its keys come, and nothing is lost.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod random;
mod shapes;

use protocol::Stamp;
use protocol::peer::migrate::{Ignored, Migrated, Note, Old, Origin, value_of};
use protocol::peer::transition::{Transition, check_write};
use protocol::peer::{Second, check_document};
use serde_json::Value;

const G0: &str = include_str!("../fixtures/peer/old/g0.jsonl");
const G1: &str = include_str!("../fixtures/peer/old/g1.jsonl");
const G2: &str = include_str!("../fixtures/peer/old/g2.jsonl");
const G3: &str = include_str!("../fixtures/peer/old/g3.jsonl");
const NEVER_EXECUTED: &str = include_str!("../fixtures/peer/old/never-executed.jsonl");
const TRANSIENT: &str = include_str!("../fixtures/peer/old/transient.jsonl");
const CURRENT: &str = include_str!("../fixtures/peer/cycle.json");

type Dump = Vec<(String, Value)>;

fn now() -> Second {
    Second::from(Stamp::from_micros(1_760_000_000_000_000))
}

/// The keys of a fixture, with this separator.
fn dump(fixture: &str, separator: &str) -> Dump {
    let lines = fixture.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let item = |line: Value| {
        let value = match &line["value"] {
            Value::String(text) => value_of(text),
            value => value.clone(),
        };
        (line["key"].as_str().unwrap().replace('.', separator), value)
    };
    lines.map(item).collect()
}

fn migrate(dump: &Dump) -> (Vec<Migrated>, Vec<Ignored>) {
    let old = Old::read(dump.clone());
    let cycles = old.cycles(now());
    cycles.iter().for_each(keeps_the_rules);
    (cycles, old.ignored)
}

/// That the document passes the rules, and its first write is a migration.
fn keeps_the_rules(migrated: &Migrated) {
    let checked = check_document(&migrated.document);
    assert_eq!(checked.violations, [], "{}", migrated.document.render());
    assert_eq!(migrated.document.cycle_id, migrated.cycle);
    if migrated.origin == Origin::RunState {
        assert_eq!(checked.warnings, []);
        let (transition, _) = check_write(None, &migrated.document.to_value()).unwrap();
        assert_eq!(transition, Transition::Migrated);
        // The time by which it is known again; so nothing in it may be later.
        assert_eq!(migrated.document.metadata.updated_at, now());
    }
}

/// A cycle in a few lines: where it stands, what happened, what was decided.
fn told(migrated: &Migrated) -> String {
    let document = &migrated.document;
    let mut lines = vec![format!("{}: {}", migrated.cycle, document.position())];
    let events = document.history.iter().map(|entry| {
        let phase = entry.phase.map(|phase| format!("{phase} ")).unwrap_or_default();
        format!("{phase}{} {}", entry.event.as_str(), &entry.timestamp.to_string()[11..16])
    });
    lines.push(format!("  {}", events.collect::<Vec<_>>().join(", ")));
    for (phase, shown) in document.phases.iter() {
        let errors = shown.errors().iter();
        lines.extend(errors.map(|error| format!("  error of {phase}: {}: {}", error.kind, error.message)));
    }
    lines.extend(migrated.notes.iter().map(|Note { kind, message, key, .. }| {
        let key = key.as_ref().map(|key| format!(" [{key}]")).unwrap_or_default();
        format!("  {}: {message}{key}", kind.as_str())
    }));
    lines.join("\n")
}

fn shown(dump: &Dump) -> String {
    let (cycles, ignored) = migrate(dump);
    let ignored = ignored.iter().map(|Ignored { key, why, .. }| format!("{key}: {why}"));
    cycles.iter().map(told).chain(ignored).collect::<Vec<_>>().join("\n")
}
