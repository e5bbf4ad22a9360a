//! Whatever is missing, doubled or odd: the rules hold, the order of keys does not matter, and nothing is lost.

use std::collections::BTreeSet;

use protocol::peer::migrate::MIGRATED_FROM;
use serde_json::json;

use super::*;

/// Enough of a random generator for tests: the same numbers every time.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// All that any fixture says about one cycle, with both separators.
fn everything() -> Dump {
    let g3 = dump(G3, ".")
        .into_iter()
        .filter(|(key, _)| key.starts_with("peer.spec.user-auth.cycle.") && !key.ends_with("current"));
    let g3 = g3.map(|(key, value)| (key.replace("user-auth.cycle", "login.cycle"), value));
    let all = dump(G1, ".").into_iter().chain(dump(G1, ":")).chain(g3);
    all.chain(dump(NEVER_EXECUTED, ".")).chain(dump(G0, ":")).chain(dump(TRANSIENT, ".")).collect()
}

/// The values without structure.
fn leaves(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
        Value::Null => {}
        leaf => {
            found.insert(leaf.to_string());
        }
    }
}

/// That every value of the dump is in a document or in the account.
fn nothing_is_lost(dump: &Dump, cycles: &[Migrated], ignored: &[Ignored]) {
    let mut kept = BTreeSet::new();
    for migrated in cycles {
        leaves(&migrated.document.to_value(), &mut kept);
        migrated.left_out.iter().for_each(|left| leaves(&left.value, &mut kept));
    }
    ignored.iter().for_each(|ignored| leaves(&ignored.value, &mut kept));
    for (key, value) in dump {
        let mut said = BTreeSet::new();
        leaves(value, &mut said);
        for leaf in said {
            assert!(kept.contains(&leaf), "{leaf} of {key} is lost");
        }
    }
}

#[test]
fn the_order_of_keys_does_not_matter() {
    let mut random = Lcg(1);
    let mut dump = everything();
    let (cycles, ignored) = migrate(&dump);
    for _ in 0..5 {
        random.shuffle(&mut dump);
        let (again, still_ignored) = migrate(&dump);
        assert_eq!(again, cycles);
        assert_eq!(still_ignored, ignored);
    }
}

#[test]
fn any_subset_of_keys_keeps_the_rules_and_loses_nothing() {
    let mut random = Lcg(2);
    let all = everything();
    for _ in 0..50 {
        let some: Dump = all.iter().filter(|_| random.below(3) > 0).cloned().collect();
        let (cycles, ignored) = migrate(&some);
        nothing_is_lost(&some, &cycles, &ignored);
    }
}

#[test]
fn any_subset_of_a_cycles_own_keys_keeps_the_rules() {
    let own: Dump = dump(G1, ".").into_iter().filter(|(key, _)| key.contains(".cycle.1.")).collect();
    for left_out in 0..own.len() {
        for also in left_out..own.len() {
            let some = own.iter().enumerate().filter(|(index, _)| *index != left_out && *index != also);
            let some: Dump = some.map(|(_, item)| item.clone()).collect();
            let (cycles, ignored) = migrate(&some);
            nothing_is_lost(&some, &cycles, &ignored);
        }
    }
}

/// Any value, of which some have the names and words that mean something.
fn value(random: &mut Lcg, depth: usize) -> Value {
    const WORDS: [&str; 24] = [
        "completed",
        "COMPLETE",
        "running",
        "PLANNING",
        "EXECUTING",
        "planning_complete",
        "EXECUTION_FAILED",
        "error",
        "cancelled",
        "pending",
        "in_progress",
        "plan",
        "execute",
        "review",
        "complete",
        "2025-08-05T10:00:00Z",
        "2025-08-05T09:00:00.5Z",
        "2999-12-31T23:00:00Z",
        "",
        "null",
        "new",
        "continue",
        "日本",
        "login",
    ];
    const NAMES: [&str; 26] = [
        "metadata",
        "context",
        "phases",
        "plan",
        "execute",
        "express",
        "review",
        "planning",
        "status",
        "output",
        "started_at",
        "completed_at",
        "created_at",
        "updated_at",
        "error",
        "errors",
        "output_ref",
        "current_phase",
        "instruction",
        "cycle_number",
        "success_criteria",
        "steps",
        "error_info",
        "phase",
        "message",
        "version",
    ];
    match random.below(if depth > 4 { 4 } else { 9 }) {
        0 => json!(random.below(1_000_000)),
        1 => json!(random.below(2) == 0),
        2 => Value::Null,
        3 => json!(WORDS[random.below(WORDS.len())]),
        4 => (0..random.below(4)).map(|_| value(random, depth + 1)).collect(),
        _ => {
            let fields = 1 + random.below(8);
            let field =
                |random: &mut Lcg| (NAMES[random.below(NAMES.len())].to_owned(), value(random, depth + 1));
            Value::Object((0..fields).map(|_| field(random)).collect())
        }
    }
}

#[test]
fn whatever_is_found_the_rules_hold_and_nothing_is_lost() {
    const PIECES: [&str; 16] = [
        "",
        ".metadata",
        ".plan",
        ".execution",
        ".express",
        ".review",
        ".status",
        ".error",
        ".completed_at",
        ".failed_at",
        ".phases.planning",
        ".phases.review",
        ".context",
        ".state",
        ".phases_completed",
        ".strange.piece",
    ];
    let mut random = Lcg(3);
    for _ in 0..400 {
        let mut dump: Dump = (0..1 + random.below(7))
            .map(|_| {
                (format!("peer.spec.a.cycle.1{}", PIECES[random.below(PIECES.len())]), value(&mut random, 0))
            })
            .collect();
        dump.push(("peer:spec:a:meta".to_owned(), value(&mut random, 0)));
        dump.sort_by(|(one, _), (other, _)| one.cmp(other));
        dump.dedup_by(|(one, _), (other, _)| one == other);
        let (cycles, ignored) = migrate(&dump);
        nothing_is_lost(&dump, &cycles, &ignored);
    }
}

#[test]
fn entered_at_the_same_time_a_cycle_is_the_same_to_the_letter() {
    let old = Old::read(everything());
    for migrated in old.cycles(now()) {
        let entered = migrated.document.history.last().unwrap().timestamp;
        assert_eq!(entered, now());
        assert_eq!(
            old.cycle(&migrated.cycle, entered).unwrap().document.render(),
            migrated.document.render()
        );
    }
}

#[test]
fn what_the_document_has_is_not_kept_twice() {
    for fixture in [G0, G1, G2, G3, NEVER_EXECUTED] {
        for migrated in migrate(&dump(fixture, ".")).0 {
            let document = &migrated.document;
            let aside = document.unknown.get(MIGRATED_FROM).cloned().unwrap_or_default();
            for (phase, shown) in document.phases.iter() {
                let Some(output) = &shown.output else { continue };
                let places = [format!("/phases/{phase}/output"), String::new()];
                for kept in aside.as_object().into_iter().flat_map(|kept| kept.values()) {
                    assert!(places.iter().all(|place| kept.pointer(place) != Some(output)), "{phase} {kept}");
                }
            }
        }
    }
}
