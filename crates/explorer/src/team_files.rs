//! The six files of `team`, validated with the original schemas.

use std::collections::BTreeSet;

use jsonschema::Validator;
use protocol::View;
use serde_json::Value;

const SCHEMAS: [(&str, &str); 6] = [
    ("pm_state.json", include_str!("../../../docs/schema/team/pm_state.schema.json")),
    ("group_status.json", include_str!("../../../docs/schema/team/group_status.schema.json")),
    ("orchestrator_state.json", include_str!("../../../docs/schema/team/orchestrator_state.schema.json")),
    ("messages/dev_to_qa.json", include_str!("../../../docs/schema/team/dev_to_qa.schema.json")),
    ("messages/qa_to_techlead.json", include_str!("../../../docs/schema/team/qa_to_techlead.schema.json")),
    ("messages/techlead_to_dev.json", include_str!("../../../docs/schema/team/techlead_to_dev.schema.json")),
];

/// The original schemas, by the file that each describes.
#[derive(Debug)]
pub struct TeamSchemas(Vec<(&'static str, Value, Validator)>);

impl TeamSchemas {
    #[expect(clippy::new_without_default, reason = "it compiles six schemas")]
    pub fn new() -> Self {
        let schema = |(name, text)| {
            let schema: Value = serde_json::from_str(text).expect("BUG: the schema is JSON");
            let validator = jsonschema::options().should_validate_formats(true).build(&schema);
            (name, schema, validator.expect("BUG: the schema is one"))
        };
        Self(SCHEMAS.map(schema).into())
    }

    /// Returns what is wrong with the files, also by the keyword `format` of the schemas, such as `date-time`.
    pub fn violations(&self, views: &[View]) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, _, validator) in &self.0 {
            match file(views, name) {
                None => problems.push(format!("`{name}` is missing")),
                Some(value) => problems.extend(
                    validator
                        .iter_errors(&value)
                        .map(|error| format!("{name}{}: {error}", error.instance_path())),
                ),
            }
        }
        problems
    }

    /// Returns the paths of all properties in the schemas, such as `pm_state.json/task_groups[]/id`.
    pub fn properties(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.0.iter().for_each(|(name, schema, _)| collect_properties(schema, name, &mut names));
        names
    }

    /// Returns the paths of the properties that are not empty in these files.
    pub fn filled(&self, views: &[View]) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for (name, schema, _) in &self.0 {
            file(views, name).iter().for_each(|value| collect_filled(schema, value, name, &mut names));
        }
        names
    }
}

/// Returns the content of the view with this file name.
fn file(views: &[View], name: &str) -> Option<Value> {
    let view = views.iter().find(|view| view.path.ends_with(name))?;
    Some(serde_json::from_str(&view.body).expect("BUG: a view is JSON"))
}

fn collect_properties(schema: &Value, path: &str, names: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        collect_properties(inner, &path, names);
        names.insert(path);
    }
    for (keyword, suffix) in [("additionalProperties", "/*"), ("items", "[]")] {
        if let Some(inner) = schema.get(keyword) {
            collect_properties(inner, &format!("{path}{suffix}"), names);
        }
    }
}

fn collect_filled(schema: &Value, value: &Value, path: &str, names: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let (path, found) = (format!("{path}/{name}"), &value[name]);
        collect_filled(inner, found, &path, names);
        let is_empty = match found {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !is_empty {
            names.insert(path);
        }
    }
    for item in value.as_array().into_iter().flatten() {
        collect_filled(&schema["items"], item, &format!("{path}[]"), names);
    }
    for member in value.as_object().into_iter().flatten().map(|(_, member)| member) {
        collect_filled(&schema["additionalProperties"], member, &format!("{path}/*"), names);
    }
}
