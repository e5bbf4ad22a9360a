//! Outputs of old → outputs that will do. Nothing is thrown away, and what has to be made up says so.

use serde_json::{Map, Value, json};

use super::words::is_blank;
use crate::peer::document::Phase;
use crate::peer::output::verify;

/// An output as version 2 takes it, and what was done to it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fitted {
    pub(super) output: Value,
    pub(super) changed: Vec<String>,
}

/// What a plan of old has in the place of criteria that it does not state.
const NO_CRITERIA: &str = "none are stated in the old document";

/// Brings an output into a shape that will do; none if there is nothing in it.
pub(super) fn fit(phase: Phase, found: &Value) -> Option<Fitted> {
    if is_empty(found) {
        return None;
    }
    if verify(phase, found).is_ok() {
        return Some(Fitted { output: found.clone(), changed: Vec::new() });
    }
    let mut changed = Vec::new();
    let mut fields = match found {
        Value::Object(fields) => fields.clone(),
        Value::String(_) => wrapped(text_field(phase), found, &mut changed),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            wrapped("value", found, &mut changed)
        }
    };
    if phase == Phase::Plan {
        plan_phases(&mut fields, &mut changed);
        plan_criteria(&mut fields, &mut changed);
    }
    for name in unfit(phase, &fields) {
        if let Some(value) = fields.shift_remove(&name) {
            changed.push(format!("`{name}` is not as it should be, and is called `{name}_as_found`"));
            fields.insert(format!("{name}_as_found"), value);
        }
    }
    let output = Value::Object(fields);
    debug_assert_eq!(verify(phase, &output), Ok(()));
    Some(Fitted { output, changed })
}

pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => is_blank(text),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Where a phase's output has room for a text.
fn text_field(phase: Phase) -> &'static str {
    match phase {
        Phase::Plan | Phase::Review => "text",
        Phase::Execute => "notes",
        Phase::Express => "formatted_output",
    }
}

fn wrapped(name: &str, value: &Value, changed: &mut Vec<String>) -> Map<String, Value> {
    changed.push(format!("it is no object; it became the field `{name}` of one"));
    Map::from_iter([(name.to_owned(), value.clone())])
}

/// The fields of the output that will not do, each named once.
fn unfit(phase: Phase, fields: &Map<String, Value>) -> Vec<String> {
    let violations = verify(phase, &Value::Object(fields.clone())).err().unwrap_or_default();
    let names = violations.iter().filter_map(|found| found.pointer.split('/').nth(1).map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    names.sort();
    names.dedup();
    names
}

/// The stretches of work: older plans name them only, or have nothing but steps.
fn plan_phases(fields: &mut Map<String, Value>, changed: &mut Vec<String>) {
    let found = fields.get("phases").cloned().unwrap_or_default();
    let is_unfit = |fields: &Map<_, _>| unfit(Phase::Plan, fields).iter().any(|name| name == "phases");
    if !is_empty(&found) && !is_unfit(fields) {
        return;
    }
    let phases: Vec<_> = match &found {
        Value::Array(items) => items.iter().zip(1..).map(|(item, number)| stretch(item, number)).collect(),
        Value::Object(named) => named.iter().map(|(name, value)| with_name(name, value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    if !phases.is_empty() {
        fields.insert("phases".to_owned(), phases.into());
        if !is_unfit(fields) {
            changed.push("its `phases` were given the form of version 2".to_owned());
            return;
        }
    }
    if !is_empty(&found) {
        fields.insert("phases_as_found".to_owned(), found);
    }
    fields.insert(
        "phases".to_owned(),
        json!([{"phase": "execution", "description": "as the rest of this plan says"}]),
    );
    let steps =
        fields.get("steps").filter(|steps| steps.as_array().is_some_and(|steps| !steps.is_empty())).cloned();
    changed.push(
        match steps {
            Some(steps) => {
                let made =
                    std::mem::replace(&mut fields["phases"], json!([{"phase": "execution", "steps": steps}]));
                if is_unfit(fields) {
                    fields["phases"] = made;
                }
                "it has no `phases`; its steps became one"
            }
            None => "it has no `phases`; one stands for all of it",
        }
        .to_owned(),
    );
}

fn stretch(item: &Value, number: usize) -> Value {
    match item {
        Value::String(name) if !name.trim().is_empty() => json!({"phase": name}),
        Value::Object(fields) => {
            let name = ["phase", "name", "title", "id"].iter().find_map(|name| fields.get(*name)?.as_str());
            let name =
                name.filter(|name| !name.trim().is_empty()).map_or_else(|| number.to_string(), str::to_owned);
            with_name(&name, item)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            json!({"phase": number.to_string(), "content": item})
        }
    }
}

fn with_name(name: &str, value: &Value) -> Value {
    let mut fields = Map::from_iter([("phase".to_owned(), json!(name))]);
    match value {
        Value::Object(rest) => fields.extend(rest.clone().into_iter().filter(|(key, _)| key != "phase")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            fields.insert("content".to_owned(), value.clone());
        }
    }
    Value::Object(fields)
}

fn plan_criteria(fields: &mut Map<String, Value>, changed: &mut Vec<String>) {
    let found = fields.get("success_criteria").cloned().unwrap_or_default();
    if !is_empty(&found) && !unfit(Phase::Plan, fields).iter().any(|name| name == "success_criteria") {
        return;
    }
    if !is_empty(&found) {
        fields.insert("success_criteria_as_found".to_owned(), found);
    }
    changed.push("it states no success criteria".to_owned());
    fields.insert("success_criteria".to_owned(), NO_CRITERIA.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_will_do_stays_as_it_is_and_nothing_is_no_output() {
        let plan = json!({"phases": [{"phase": "a"}], "success_criteria": "works", "extra": 1});
        assert_eq!(fit(Phase::Plan, &plan), Some(Fitted { output: plan, changed: Vec::new() }));
        for empty in [json!(null), json!({}), json!([]), json!(""), json!(" null\n")] {
            assert_eq!(fit(Phase::Execute, &empty), None, "{empty}");
        }
    }

    #[test]
    fn plans_of_old_get_the_form_of_today() {
        let fitted = |plan: Value| fit(Phase::Plan, &plan).unwrap().output;
        assert_eq!(
            fitted(json!({"phases": ["preparation", "execution"], "success_criteria": "works"})),
            json!({"phases": [{"phase": "preparation"}, {"phase": "execution"}], "success_criteria": "works"})
        );
        assert_eq!(
            fitted(json!({"steps": ["read", "write"], "estimated_duration": "30 minutes"})),
            json!({
                "steps": ["read", "write"], "estimated_duration": "30 minutes",
                "phases": [{"phase": "execution", "steps": ["read", "write"]}], "success_criteria": NO_CRITERIA,
            })
        );
        assert_eq!(fitted(json!("# Plan\n\nDo it."))["text"], json!("# Plan\n\nDo it."));
    }

    #[test]
    fn whatever_an_output_is_it_is_brought_into_shape_and_nothing_of_it_is_lost() {
        let odd = [
            json!(1),
            json!(true),
            json!("x"),
            json!([1, {"a": 2}]),
            json!({"phases": 3}),
            json!({"phases": [1, null]}),
            json!({"phases": {"one": {"steps": 5}, "two": "x"}}),
            json!({"steps": [1, 2]}),
            json!({"phases": [{"steps": 5}]}),
            json!({"success_criteria": 7, "risks": 3}),
            json!({"files_created": "one", "errors": 4}),
            json!({"quality_score": 300, "scores": []}),
            json!({"quality_score": "splendid"}),
            json!({"success": "yes"}),
        ];
        for found in odd {
            for phase in Phase::ALL {
                let fitted = fit(phase, &found).unwrap();
                assert_eq!(verify(phase, &fitted.output), Ok(()), "{phase} {found}");
                for leaf in leaves(&found) {
                    assert!(
                        leaves(&fitted.output).contains(&leaf),
                        "{phase} {found}: {leaf} in {}",
                        fitted.output
                    );
                }
            }
        }
    }

    fn leaves(value: &Value) -> Vec<Value> {
        match value {
            Value::Array(items) => items.iter().flat_map(leaves).collect(),
            Value::Object(fields) => fields.values().flat_map(leaves).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => vec![value.clone()],
        }
    }
}
