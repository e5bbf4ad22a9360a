//! Random keys of earlier formats, missing, mixed and malformed: the migrated documents keep the rules, the order of keys
//! does not matter, and no value is lost. A dump has all keys of a bucket. `migrate` checks the rules.

use std::collections::BTreeSet;

use fastrand::Rng;
use serde_json::json;

use super::*;

/// All that the fixtures say about one cycle, with dots and with colons between the words of a key. `G0` to `G3` are the
/// generations of the format, from the oldest.
fn everything() -> Dump {
    let g3 = dump(G3, ".").into_iter().filter(|(key, _)| key == "peer.spec.user-auth.cycle.1");
    let g3 = g3.map(|(key, value)| (key.replace("user-auth", "login"), value));
    let all = dump(G1, ".").into_iter().chain(dump(G1, ":")).chain(g3);
    all.chain(dump(NEVER_EXECUTED, ".")).chain(dump(G0, ":")).chain(dump(KEYS_OF_NO_CYCLE, ".")).collect()
}

/// Adds the scalars of a value.
fn scalars(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| scalars(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| scalars(field, found)),
        Value::Null => {}
        scalar => drop(found.insert(scalar.to_string())),
    }
}

/// Checks that every value of the dump is in a document, or in a key that is listed as not used: superseded by a newer
/// document of its cycle, or skipped because it belongs to no cycle.
fn check_nothing_is_lost(dump: &Dump, (cycles, skipped): &(Vec<MigratedCycle>, Vec<SkippedKey>)) {
    let mut preserved = BTreeSet::new();
    for migrated in cycles {
        scalars(&migrated.document.to_value(), &mut preserved);
        migrated.superseded.iter().for_each(|key| scalars(&key.value, &mut preserved));
    }
    skipped.iter().for_each(|key| scalars(&key.value, &mut preserved));
    for (key, value) in dump {
        let mut found = BTreeSet::new();
        scalars(value, &mut found);
        let lost: Vec<_> = found.difference(&preserved).collect();
        assert!(lost.is_empty(), "{lost:?} of {key}");
    }
}

#[test]
fn the_order_of_keys_does_not_matter_and_the_same_time_gives_the_same_document() {
    let mut random = Rng::with_seed(1);
    let mut dump = everything();
    let (cycles, skipped) = migrate(&dump);
    for _ in 0..5 {
        for last in (1..dump.len()).rev() {
            dump.swap(last, random.usize(..last + 1));
        }
        assert_eq!(migrate(&dump), (cycles.clone(), skipped.clone()));
    }
    let old = OldCycles::read(dump);
    for migrated in cycles {
        let at = migrated.document.history.last().unwrap().timestamp;
        assert_eq!(old.cycle(&migrated.cycle, at).unwrap().document.render(), migrated.document.render());
    }
}

#[test]
fn any_subset_of_keys_keeps_the_rules_and_loses_nothing() {
    let mut random = Rng::with_seed(2);
    let all = everything();
    for _ in 0..30 {
        let subset: Dump = all.iter().filter(|_| random.usize(..3) > 0).cloned().collect();
        check_nothing_is_lost(&subset, &migrate(&subset));
    }
}

/// Values with a meaning in some format.
const WORDS: &str = "completed running PLANNING planning_complete EXECUTION_FAILED error cancelled pending plan complete \
    2025-08-05T10:00:00Z 2999-12-31T23:00:00Z null continue 日本";
/// Names of fields in some format.
const NAMES: &str = "metadata context phases plan execute express review status output started_at completed_at created_at \
    error errors output_ref current_phase instruction error_info message version";
/// Ends of keys that begin with `peer.spec.a.cycle.`
const KEYS: &str = "1 1.metadata 1.plan 1.execution 1.review 1.status 1.error 1.completed_at 1.phases.planning 1.context \
    1.phases_completed 1.strange.part";

fn pick(random: &mut Rng, words: &'static str) -> &'static str {
    let words: Vec<_> = words.split_whitespace().collect();
    words[random.usize(..words.len())]
}

/// Any value, often with names and words that have a meaning.
fn value(random: &mut Rng, depth: usize) -> Value {
    match random.usize(..if depth > 4 { 4 } else { 9 }) {
        0 => json!(random.usize(..1_000_000)),
        1 => json!(random.usize(..2) == 0),
        2 => Value::Null,
        3 => json!(pick(random, WORDS)),
        4 => (0..random.usize(..4)).map(|_| value(random, depth + 1)).collect(),
        _ => {
            let field = |random: &mut Rng| (pick(random, NAMES).to_owned(), value(random, depth + 1));
            Value::Object((0..=random.usize(..8)).map(|_| field(random)).collect())
        }
    }
}

#[test]
fn any_values_keep_the_rules_and_nothing_is_lost() {
    let mut random = Rng::with_seed(3);
    for _ in 0..400 {
        let mut dump: Dump = (0..=random.usize(..7))
            .map(|_| (format!("peer.spec.a.cycle.{}", pick(&mut random, KEYS)), value(&mut random, 0)))
            .collect();
        dump.push(("peer:spec:a:meta".to_owned(), value(&mut random, 0)));
        dump.sort_by(|(one, _), (other, _)| one.cmp(other));
        dump.dedup_by(|(one, _), (other, _)| one == other);
        check_nothing_is_lost(&dump, &migrate(&dump));
    }
}
