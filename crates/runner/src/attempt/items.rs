//! Reads the items of a data loop, which runs a step once for each item of a list.

use std::fs;

use protocol::steps::ITEMS;
use serde_json::{Map, Value, json};

use super::effect::{PendingEffect, PerformEffect};

/// Reads the list that the arguments give: `items` themselves, or the file `artifact`, which has a JSON list or an object with
/// a list `items`. It changes nothing, so it may be repeated.
#[derive(Debug, Clone, Copy)]
pub struct ReadItems;

impl PerformEffect for ReadItems {
    fn find(&self, _: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        Ok(None)
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let arguments = &pending_effect.arguments;
        let items = match (&arguments["items"], &arguments["artifact"]) {
            (Value::Array(items), _) => items.clone(),
            (_, Value::String(artifact)) => read_artifact(pending_effect, artifact)?,
            (_, _) => {
                let step = arguments["step"].as_str().unwrap_or("?");
                return Err(format!("the items come from `{step}`, which reported no artifact"));
            }
        };
        let line = match items.len() {
            1 => "1 item".to_owned(),
            count => format!("{count} items"),
        };
        match json!({ ITEMS: items, "logs": [line] }) {
            Value::Object(fields) => Ok(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err("BUG: an object is not one".to_owned())
            }
        }
    }
}

fn read_artifact(pending_effect: &PendingEffect, artifact: &str) -> Result<Vec<Value>, String> {
    let path = pending_effect.artifact_path(artifact)?;
    let unusable = |why: String| format!("the items in `{}` are unusable: {why}", path.display());
    let text = fs::read_to_string(&path).map_err(|error| unusable(error.to_string()))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| unusable(format!("it is not JSON: {error}")))?;
    match value {
        Value::Array(items) => Ok(items),
        Value::Object(mut fields) => match fields.remove(ITEMS) {
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(unusable("its field `items` is not a list".to_owned())),
            None => Err(unusable("it is an object without `items`".to_owned())),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(unusable("it is neither a list nor an object with `items`".to_owned()))
        }
    }
}
