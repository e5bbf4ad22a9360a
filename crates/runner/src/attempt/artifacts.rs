//! The effect that looks for the files that the key `when` of a step names.

use protocol::steps::{EXISTING, PATHS};
use serde_json::{Map, Value};

use super::effect::{PendingEffect, PerformEffect};

/// Reports which of the files exist. Changes nothing, so there is no earlier result to [find](PerformEffect::find): it is
/// performed again.
#[derive(Debug, Clone, Copy)]
pub struct FindArtifacts;

impl PerformEffect for FindArtifacts {
    fn find(&self, _: &PendingEffect) -> Result<Option<Map<String, Value>>, String> {
        Ok(None)
    }

    fn perform(&self, pending_effect: &PendingEffect) -> Result<Map<String, Value>, String> {
        let mut existing = Vec::new();
        for path in pending_effect.arguments[PATHS].as_array().into_iter().flatten().filter_map(Value::as_str)
        {
            let file = pending_effect.artifact_path(path)?;
            match file.try_exists() {
                Ok(true) => existing.push(Value::from(path)),
                Ok(false) => {}
                Err(error) => return Err(format!("cannot look for `{}`: {error}", file.display())),
            }
        }
        Ok(Map::from_iter([(EXISTING.to_owned(), Value::Array(existing))]))
    }
}
