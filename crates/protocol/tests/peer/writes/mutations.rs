//! Random legal histories: every write is accepted, and refused if anything else changes with it.

use fastrand::Rng;
use protocol::peer::transition::check_write;
use protocol::peer::{Document, Phase, Transition};
use serde_json::{Value, json};

use super::{DocumentChange, opened};

/// A history of legal writes.
fn history(random: &mut Rng) -> Vec<(DocumentChange, Document, Document)> {
    let mut old = opened();
    let mut writes = Vec::new();
    for number in 1..25 {
        let legal: Vec<_> = DocumentChange::all()
            .into_iter()
            .filter(|change| change.is_legal(old.status_with_phase(), &old))
            .collect();
        let change = loop {
            let change = legal[random.usize(..legal.len())];
            // A failed cycle allows only unknown fields, so a failure is rare.
            if !matches!(change, DocumentChange::Fail(_)) || random.usize(..8) == 0 {
                break change;
            }
        };
        let new = change.apply(&old, number).unwrap();
        writes.push((change, old, new.clone()));
        old = new;
    }
    writes
}

#[test]
fn every_write_of_a_legal_history_is_accepted() {
    let mut random = Rng::with_seed(11);
    for _ in 0..60 {
        for (change, old, new) in history(&mut random) {
            let (transition, read) = check_write(Some(&old), &new.to_value()).unwrap();
            assert_eq!((transition, read), (change.transition(), new), "{change:?}");
        }
    }
}

/// One mutation in this many is tried, because all of them would take minutes.
const SAMPLE: usize = 50;

/// One change of a document.
#[derive(Debug, Clone)]
enum Mutation {
    Replace(String, Value),
    Remove(String),
    Add(String),
}

impl Mutation {
    fn pointer(&self) -> &str {
        match self {
            Self::Replace(pointer, _) | Self::Remove(pointer) | Self::Add(pointer) => pointer,
        }
    }

    fn apply(&self, document: &Value) -> Value {
        let mut document = document.clone();
        match self {
            Self::Replace(pointer, value) => *document.pointer_mut(pointer).unwrap() = value.clone(),
            Self::Add(pointer) => match document.pointer_mut(pointer).unwrap() {
                Value::Object(fields) => {
                    fields.insert("x_added".to_owned(), json!(1));
                }
                Value::Array(items) => items.push(items.last().cloned().unwrap_or(json!("x"))),
                other => panic!("nothing can be added to {other}"),
            },
            Self::Remove(pointer) => {
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                match document.pointer_mut(parent).unwrap() {
                    Value::Object(fields) => drop(fields.shift_remove(key)),
                    Value::Array(items) => drop(items.remove(key.parse().unwrap())),
                    other => panic!("nothing can be removed from {other}"),
                }
            }
        }
        document
    }
}

/// Every single mutation of a document.
fn mutations(value: &Value, pointer: &str, found: &mut Vec<Mutation>) {
    let mut replace = |other: Value| found.push(Mutation::Replace(pointer.to_owned(), other));
    match value {
        Value::Null => replace(json!("plan")),
        Value::Bool(flag) => replace(json!(!flag)),
        Value::Number(number) => {
            let number = number.as_i64().unwrap();
            [number + 1, number - 1].into_iter().for_each(|other| replace(json!(other)));
        }
        Value::String(text) => {
            for other in [
                "plan",
                "review",
                "completed",
                "failed",
                "progress",
                "in_progress",
                "2025-08-05T10:00:00Z",
                "2025-08-05T11:00:00Z",
                "new",
                "continue",
            ] {
                if text != other {
                    replace(json!(other));
                }
            }
            replace(json!(format!("{text}x")));
        }
        Value::Array(items) => {
            found.push(Mutation::Add(pointer.to_owned()));
            for (index, item) in items.iter().enumerate() {
                mutations(item, &format!("{pointer}/{index}"), found);
            }
        }
        Value::Object(fields) => {
            found.push(Mutation::Add(pointer.to_owned()));
            for (key, member) in fields {
                mutations(member, &format!("{pointer}/{key}"), found);
            }
        }
    }
    if !pointer.is_empty() {
        found.push(Mutation::Remove(pointer.to_owned()));
    }
}

/// Returns whether the transition may include the mutation.
fn may_touch(transition: Transition, mutation: &Mutation, new: &Document, old: &Document) -> bool {
    let pointer = mutation.pointer();
    let within = |around: String| pointer == around || pointer.starts_with(&format!("{around}/"));
    let last = new.history.len() - 1;
    // The history entry of the write itself may have unknown fields.
    if matches!(mutation, Mutation::Add(pointer) if *pointer == format!("/history/{last}")) {
        return true;
    }
    let is_unknown = pointer.split('/').any(|key| key.starts_with("x_"))
        || matches!(mutation, Mutation::Add(pointer)
            if ["", "/metadata", "/context"].contains(&pointer.as_str())
                || Phase::ALL.iter().any(|phase| *pointer == format!("/phases/{phase}")));
    // Progress may have no history entry, or one that names the phase or none.
    let changes_own_entry = || {
        matches!(mutation, Mutation::Remove(pointer) if *pointer == format!("/history/{last}"))
            || pointer == format!("/history/{last}/phase")
    };
    match transition {
        Transition::Progress { phase, .. } => {
            let old_errors = old.phases[phase].errors().len();
            let errors = (old_errors..=new.phases[phase].errors().len())
                .map(|index| format!("/phases/{phase}/errors/{index}"));
            is_unknown
                || changes_own_entry()
                || within(format!("/phases/{phase}/output"))
                || errors.clone().any(within)
                // The list itself: errors may be added, and an empty list may be omitted.
                || pointer == format!("/phases/{phase}/errors")
        }
        Transition::Completed(phase) => {
            within(format!("/phases/{phase}/output"))
                || phase == Phase::Review
                    && (within("/cycle_summary".to_owned()) || within("/insights".to_owned()))
        }
        Transition::Failed(phase) => {
            let error = format!("/phases/{phase}/errors/{}", new.phases[phase].errors().len() - 1);
            within(format!("{error}/kind"))
                || within(format!("{error}/message"))
                || matches!(mutation, Mutation::Add(pointer) if *pointer == error)
        }
        Transition::UnknownFields => is_unknown || changes_own_entry(),
        Transition::Started(_) | Transition::CycleCompleted => false,
        Transition::Unchanged | Transition::Initialized | Transition::Migrated | Transition::Recovered => {
            true
        }
    }
}

#[test]
fn a_write_with_any_other_change_is_refused() {
    let mut random = Rng::with_seed(5);
    let mut refused = 0;
    for _ in 0..8 {
        for (change, old, new) in history(&mut random) {
            let value = new.to_value();
            let mut all = Vec::new();
            mutations(&value, "", &mut all);
            for mutation in all {
                if random.usize(..SAMPLE) > 0 {
                    continue;
                }
                let mutated = mutation.apply(&value);
                if mutated == value || may_touch(change.transition(), &mutation, &new, &old) {
                    continue;
                }
                let written = check_write(Some(&old), &mutated);
                assert!(
                    written.is_err(),
                    "{change:?} with {mutation:?} was recognised as {:?}",
                    written.map(|(t, _)| t)
                );
                refused += 1;
            }
        }
    }
    assert!(refused > 2_000, "{refused}");
}
