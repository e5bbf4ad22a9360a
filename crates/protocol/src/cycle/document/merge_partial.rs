//! Merges partial documents into one: the examples of the original, which leave out what has not changed, and what is rebuilt from
//! the files of a cycle.

use serde_json::{Map, Value};

/// Merges a later document into an earlier one. Objects are merged, iterations by number, tasks, decisions and blockers
/// by id; the feedback log and the errors grow without duplicates, other lists are replaced. The text `...`, a
/// placeholder in examples, replaces no value.
pub fn merge_partial(base: &mut Value, later: &Value) {
    let iteration = |document: &Value| document["current_iteration"].as_u64().unwrap_or(0);
    if iteration(later) > iteration(base)
        && let Some(base) = base.as_object_mut()
    {
        // A new iteration begins with its first phase, `ra`, and with no completed one.
        base.insert("completed_phases".to_owned(), Value::Array(Vec::new()));
        base.insert("current_phase".to_owned(), "ra".into());
    }
    merge(base, later, "");
}

fn merge(base: &mut Value, later: &Value, field: &str) {
    match (base, later) {
        (Value::Object(base), Value::Object(later)) => {
            for (key, value) in later {
                merge(base.entry(key).or_insert(Value::Null), value, key);
            }
        }
        (base @ Value::Null, Value::Object(later)) => {
            *base = Value::Object(Map::new());
            merge(base, &Value::Object(later.clone()), field);
        }
        (Value::Array(base), Value::Array(later)) => merge_lists(base, later, field),
        (base, later) if later == "..." && !base.is_null() => {}
        (base, later) => *base = later.clone(),
    }
}

fn merge_lists(base: &mut Vec<Value>, later: &[Value], field: &str) {
    let key = match field {
        "iterations" => "number",
        "tasks" | "pending_decisions" | "blockers" => "id",
        "feedback_log" | "phase_errors" => {
            for entry in later {
                if !base.contains(entry) {
                    base.push(entry.clone());
                }
            }
            return;
        }
        _ => {
            *base = later.to_vec();
            return;
        }
    };
    for entry in later {
        match base.iter_mut().find(|known| known.get(key) == entry.get(key)) {
            Some(known) => merge(known, entry, ""),
            None => base.push(entry.clone()),
        }
    }
}
