//! Migration of earlier formats: every old shape becomes a document that keeps the rules, and no value is lost.

mod random;
mod shapes;

use protocol::Timestamp;
use protocol::peer::migrate::{MigratedCycle, Note, OldCycles, Origin, SkippedKey, parse_json_or_text};
use protocol::peer::transition::{Transition, check_write};
use protocol::peer::{WholeSecond, check_document};
use serde_json::Value;

// The keys and values of a bucket in each generation of the format, from the oldest (G0) to the last one before
// version 2 (G3).
const G0: &str = include_str!("../../fixtures/peer/old/g0.jsonl");
const G1: &str = include_str!("../../fixtures/peer/old/g1.jsonl");
const G2: &str = include_str!("../../fixtures/peer/old/g2.jsonl");
const G3: &str = include_str!("../../fixtures/peer/old/g3.jsonl");
/// A cycle that is marked as completed, although its phase `execute` has no output.
const NEVER_EXECUTED: &str = include_str!("../../fixtures/peer/old/never-executed.jsonl");
/// Keys that belong to no cycle, such as locks and counters.
const KEYS_OF_NO_CYCLE: &str = include_str!("../../fixtures/peer/old/transient.jsonl");
/// A cycle in the present format.
const CURRENT: &str = include_str!("../../fixtures/peer/cycle.json");

/// All keys of a bucket with their values.
type Dump = Vec<(String, Value)>;

fn now() -> WholeSecond {
    WholeSecond::from(Timestamp::from_micros(1_760_000_000_000_000))
}

/// The keys of a fixture, with this separator.
fn dump(fixture: &str, separator: &str) -> Dump {
    let lines = fixture.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let item = |line: Value| {
        let value = match &line["value"] {
            Value::String(text) => parse_json_or_text(text),
            value => value.clone(),
        };
        (line["key"].as_str().unwrap().replace('.', separator), value)
    };
    lines.map(item).collect()
}

/// Migrates a dump, and checks that each document keeps the rules and that its first write is a migration.
fn migrate(dump: &Dump) -> (Vec<MigratedCycle>, Vec<SkippedKey>) {
    let old = OldCycles::read(dump.clone());
    let cycles = old.cycles(now());
    for MigratedCycle { cycle, origin, document, .. } in &cycles {
        let checked = check_document(document);
        assert_eq!(checked.violations, [], "{}", document.render());
        assert_eq!(document.cycle_id, *cycle);
        if *origin == Origin::Migrated {
            assert_eq!(checked.warnings, []);
            let (transition, _) = check_write(None, &document.to_value()).unwrap();
            assert_eq!(transition, Transition::Migrated);
            assert_eq!(document.metadata.updated_at, now(), "no time is later than the migration");
        }
    }
    (cycles, old.skipped)
}

/// A cycle in a few lines: its status with the phase, its history, its errors, and the notes.
fn summary(migrated: &MigratedCycle) -> String {
    let document = &migrated.document;
    let mut lines = vec![format!("{}: {}", migrated.cycle, document.status_with_phase())];
    let events = document.history.iter().map(|entry| {
        let phase = entry.phase.map(|phase| format!("{phase} ")).unwrap_or_default();
        format!("{phase}{} {}", entry.event.as_str(), &entry.timestamp.to_string()[11..16])
    });
    lines.push(format!("  {}", events.collect::<Vec<_>>().join(", ")));
    for (phase, phase_document) in document.phases.iter() {
        let errors = phase_document.errors().iter();
        lines.extend(errors.map(|error| format!("  error of {phase}: {}: {}", error.kind, error.message)));
    }
    lines.extend(migrated.notes.iter().map(|Note { kind, message, key }| {
        let key = key.as_ref().map(|key| format!(" [{key}]")).unwrap_or_default();
        format!("  {}: {message}{key}", kind.as_str())
    }));
    lines.join("\n")
}
