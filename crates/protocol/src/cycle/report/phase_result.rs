//! The text block `PHASE_RESULT` that agents of the original system print, read as the fields of a report.
//!
//! ```text
//! PHASE_RESULT:
//! - phase: vas
//! - status: success
//! - test_pass_rate: 92%
//! - failed_tests: [login times out]
//! ```

use serde_json::{Map, Value};

use super::fields::parse_rate;
use crate::cycle::step::Role;

const HEADER: &str = "PHASE_RESULT";

/// A PHASE_RESULT block: the phase that it is about, and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseResult {
    /// The role whose phase it is.
    pub phase: Option<Role>,
    pub is_failed: bool,
    /// All else that it says, as fields of a report.
    pub fields: Map<String, Value>,
}

/// Returns the last block of the text; `None` if there is none.
pub fn phase_result(text: &str) -> Option<PhaseResult> {
    let lines: Vec<_> = text.lines().collect();
    let start = lines.iter().rposition(|line| {
        let line = line.trim_matches(|c: char| c.is_whitespace() || c == '#' || c == '*');
        line.trim_end_matches(':').trim() == HEADER
    })?;
    let mut fields = Map::new();
    let mut last_key: Option<String> = None;
    let mut field_indent = None;
    for line in &lines[start + 1..] {
        let indent = line.len() - line.trim_start().len();
        let item = line.trim().trim_start_matches(['-', '*']).trim();
        if item.is_empty() || item.starts_with("```") {
            if fields.is_empty() {
                continue;
            }
            break;
        }
        // An item below a list may look like a field: `- test_login: assertion failed`.
        let is_below_list = indent > *field_indent.get_or_insert(indent)
            && last_key.as_ref().and_then(|key| fields.get(key)).is_some_and(Value::is_array);
        match item.split_once(':').filter(|(key, _)| !is_below_list && is_key(key)) {
            Some((key, rest)) => {
                let key = key.trim().to_owned();
                fields.insert(key.clone(), value(&key, rest.trim()));
                last_key = Some(key);
            }
            // A list with one item per line.
            None if indent > 0 && last_key.is_some() => {
                let slot = last_key.as_ref().and_then(|key| fields.get_mut(key));
                match slot {
                    Some(Value::Array(items)) => items.push(item.into()),
                    Some(slot) if slot == "" => *slot = vec![Value::from(item)].into(),
                    Some(_) | None => {}
                }
            }
            None => break,
        }
    }
    let take_text = |fields: &mut Map<String, Value>, key: &str| {
        fields.shift_remove(key).and_then(|value| value.as_str().map(str::to_owned))
    };
    let phase = take_text(&mut fields, "phase").and_then(|phase| Role::parse(&phase));
    let status = take_text(&mut fields, "status");
    if status.as_deref() == Some("partial") {
        fields.insert("phase_status".to_owned(), "partial".into());
    }
    Some(PhaseResult { phase, is_failed: status.as_deref() == Some("failed"), fields })
}

fn is_key(key: &str) -> bool {
    let key = key.trim();
    !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// The fields that have several values, even if only one is written.
const LISTS: [&str; 10] = [
    "files_written",
    "files_modified",
    "issues",
    "new_items",
    "tasks_completed",
    "tasks_blocked",
    "blockers",
    "failed_tests",
    "critical_issues",
    "edge_cases",
];

fn value(key: &str, text: &str) -> Value {
    if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let items = inside.split(',').map(|item| item.trim().trim_matches(['"', '\'']));
        return items.filter(|item| !item.is_empty()).map(Value::from).collect();
    }
    if LISTS.contains(&key) {
        let is_empty_list = ["", "none", "-", "0"].contains(&text.to_lowercase().as_str());
        return if is_empty_list { Value::Array(Vec::new()) } else { vec![Value::from(text)].into() };
    }
    let is_rate =
        text.ends_with('%') || text.split_once('/').is_some_and(|(a, b)| is_number(a) && is_number(b));
    if is_rate && let Some(rate) = parse_rate(text) {
        return rate.into();
    }
    match text {
        "true" | "yes" => true.into(),
        "false" | "no" => false.into(),
        _ => text.parse::<u64>().map_or_else(|_| text.into(), Value::from),
    }
}

fn is_number(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_percents_and_ratios_are_values() {
        let text = "Done.\n\nPHASE_RESULT:\n- phase: vas\n- status: success\n- files_written: [summary.md, \"a b.md\"]\n\
                    - summary: all: fine\n- issues: []\n- test_pass_rate: 92%\n- tests_passing: 11/12\n\
                    - failed_tests:\n  - login times out\n  - logout\n- ready_for_production: true\n\nBye: now\n";
        let result = phase_result(text).unwrap();
        assert_eq!((result.phase, result.is_failed), (Some(Role::Validator), false));
        assert_eq!(
            Value::Object(result.fields),
            json!({
                "files_written": ["summary.md", "a b.md"],
                "summary": "all: fine",
                "issues": [],
                "test_pass_rate": 92,
                "tests_passing": 91.66,
                "failed_tests": ["login times out", "logout"],
                "ready_for_production": true,
            })
        );
    }

    /// Regression: the item became a field of its own, and no test had failed.
    #[test]
    fn an_item_of_a_list_that_looks_like_a_field_is_an_item() {
        for indent in ["", "  "] {
            let lines =
                ["- failed_tests:", "  - test_login: assertion failed", "- coverage: 80", "- issues: none"];
            let text: String = lines.map(|line| format!("{indent}{line}\n")).concat();
            let result = phase_result(&format!("PHASE_RESULT:\n{text}")).unwrap();
            let expected = json!({
                "failed_tests": ["test_login: assertion failed"], "coverage": 80, "issues": [],
            });
            assert_eq!(Value::Object(result.fields), expected);
        }
    }

    #[test]
    fn an_empty_list_is_empty_and_a_partial_phase_says_so() {
        let result =
            phase_result("## PHASE_RESULT\n\nphase: cd\nstatus: partial\nblockers: none\nissues: []")
                .unwrap();
        assert_eq!(
            Value::Object(result.fields),
            json!({ "blockers": [], "issues": [], "phase_status": "partial" })
        );
        assert!(phase_result("PHASE_RESULT:\n- phase: ra\n- status: failed").unwrap().is_failed);
        assert_eq!(phase_result("no result"), None);
    }
}
