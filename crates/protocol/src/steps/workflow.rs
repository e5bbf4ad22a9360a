//! What a `steps` run is opened with: the workflow as it was read, frozen as JSON with the run.
//!
//! The types say what a workflow *is*; [`load`](super::load) makes one from text and checks it, and nothing here
//! checks again.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::StepId;

/// A workflow: steps and which of them wait for which.
///
/// Unknown fields are refused when a frozen workflow is read back: an older engine that resumed a newer run and
/// skipped what it does not know would run it without its gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    pub name: String,
    pub description: String,
    pub metadata: Map<String, Value>,
    /// In the order of the file, which is also the order in which ready steps are started.
    pub steps: Vec<StepSpec>,
}

/// One step: an agent, its prompt, and what it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub id: StepId,
    /// Which adapter runs it; a name of the configuration's `[adapters]`.
    pub agent: String,
    /// A reference to the prompt's file, as written; it is resolved when the run is opened.
    pub prompt: String,
    /// The steps that must have completed before this one; the only edges there are.
    pub needs: Vec<StepId>,
    /// What the author believes comes next. Checked and shown, but no edge: only `needs` makes a step wait.
    pub next_on_success: Vec<StepId>,
    /// Where the run goes back to when this step's report says that its gate failed: one of its ancestors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loop_back_to: Option<StepId>,
    pub metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "seconds")]
    pub timeout: Option<Duration>,
    /// How many attempts the step has in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<NonZeroU32>,
}

impl StepSpec {
    /// A step that says no more than it must.
    pub fn new(id: StepId, agent: impl Into<String>, prompt: impl Into<String>) -> Self {
        Self {
            id,
            agent: agent.into(),
            prompt: prompt.into(),
            needs: Vec::new(),
            next_on_success: Vec::new(),
            loop_back_to: None,
            metadata: Map::new(),
            model: None,
            timeout: None,
            max_attempts: None,
        }
    }
}

/// A duration as a number of seconds: whole ones as an integer, so that the frozen file reads as the author wrote it.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[expect(clippy::ref_option, reason = "the signature that serde's `with` asks for")]
    pub(super) fn serialize<S: Serializer>(timeout: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match timeout {
            None => to.serialize_none(),
            Some(timeout) if timeout.subsec_nanos() == 0 => to.serialize_u64(timeout.as_secs()),
            Some(timeout) => to.serialize_f64(timeout.as_secs_f64()),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        match Option::<f64>::deserialize(from)? {
            None => Ok(None),
            Some(seconds) => Duration::try_from_secs_f64(seconds).map(Some).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step() -> StepSpec {
        StepSpec {
            id: StepId::new("code").unwrap(),
            agent: "coder".into(),
            prompt: "prompts/code.md".into(),
            needs: vec![StepId::new("plan").unwrap()],
            next_on_success: vec![],
            loop_back_to: None,
            metadata: Map::new(),
            model: None,
            timeout: Some(Duration::from_secs(90)),
            max_attempts: NonZeroU32::new(3),
        }
    }

    #[test]
    fn a_frozen_workflow_reads_back_as_it_was() {
        let fraction = StepSpec { timeout: Some(Duration::from_millis(1500)), ..step() };
        let workflow = Workflow {
            name: "w".into(),
            description: "d".into(),
            metadata: [("owner".to_owned(), Value::from("me"))].into_iter().collect(),
            steps: vec![step(), fraction],
        };
        let json = serde_json::to_string(&workflow).unwrap();
        assert!(json.contains(r#""timeout":90,"#) && json.contains(r#""timeout":1.5,"#), "{json}");
        assert_eq!(serde_json::from_str::<Workflow>(&json).unwrap(), workflow);
    }

    #[test]
    fn a_frozen_workflow_with_keys_of_a_newer_engine_is_refused() {
        let mut json = serde_json::to_value(step()).unwrap();
        json["gates"] = Value::from(vec!["ci"]);
        assert!(
            serde_json::from_value::<StepSpec>(json)
                .unwrap_err()
                .to_string()
                .contains("unknown field `gates`")
        );
    }
}
