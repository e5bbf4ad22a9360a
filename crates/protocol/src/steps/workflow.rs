//! The workflow of a `steps` run, as stored with the run.
//!
//! [`load`](super::load) reads a workflow from text and checks it; nothing here checks it again.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::phases::when::When;
use crate::checks::CheckSpec;
use crate::ids::StepId;
use crate::present::StepDetails;
use crate::protocol_trait::StepKind;

/// A workflow: steps and which of them wait for which.
///
/// Unknown fields are refused when a stored workflow is read: an older engine that ignored them would run a newer workflow
/// without its gates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflow {
    pub name: String,
    pub description: String,
    pub metadata: Map<String, Value>,
    /// In the order of the file, which is also the order in which ready steps are started.
    pub steps: Vec<StepSpec>,
}

/// The agent of a step that the engine performs.
pub(super) use crate::brief::ENGINE;

/// The agent of a step that a person works on.
pub const PERSON: &str = "person";

impl Workflow {
    /// Removes the approvals of `human_in_the_loop`. Returns the steps that had one.
    pub fn remove_approvals(&mut self) -> Vec<StepId> {
        let with_approval = self.steps.iter_mut().filter(|step| step.human_in_the_loop);
        with_approval
            .map(|step| {
                step.human_in_the_loop = false;
                step.id.clone()
            })
            .collect()
    }

    /// Removes the conditions of all steps. Returns their names, each once.
    pub fn remove_conditions(&mut self) -> BTreeSet<String> {
        self.steps.iter_mut().flat_map(|step| std::mem::take(&mut step.gates)).collect()
    }

    /// Replaces the names of checks by their commands.
    pub fn resolve_checks(&mut self, known: &[CheckSpec]) -> Result<(), UnknownCheck> {
        for step in &mut self.steps {
            for check in &mut step.checks {
                let StepCheck::Named(name) = check else { continue };
                let found = known.iter().find(|known| known.name == *name).cloned();
                let unknown = || UnknownCheck { step: step.id.clone(), name: name.clone() };
                *check = StepCheck::Command(found.ok_or_else(unknown)?);
            }
        }
        Ok(())
    }

    /// Returns whether a run of it has worktrees.
    pub fn has_worktrees(&self) -> bool {
        self.steps.iter().any(|step| step.worktree)
    }

    /// Returns the steps of the file, without those that the loader has added.
    pub fn steps_in_file(&self) -> impl Iterator<Item = &StepSpec> {
        self.steps.iter().filter(|step| step.effect.is_none())
    }

    /// Returns the steps that agents work on.
    pub fn agent_steps(&self) -> impl Iterator<Item = &StepSpec> {
        self.steps_in_file().filter(|step| !step.is_for_person())
    }
}

/// One step: an agent, its prompt, and what it waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub id: StepId,
    /// The adapter that runs it: a name of `[adapters]` in the configuration.
    pub agent: String,
    /// The path of the prompt file, as written, or the prompt itself. It is resolved when the run is opened. Empty if a person
    /// is asked without one.
    pub prompt: String,
    /// The steps that must be done before this one. No other field orders the steps.
    pub needs: Vec<StepId>,
    /// The steps that the author expects to come next. Checked and shown; it makes no step wait.
    pub next_on_success: Vec<StepId>,
    /// The ancestor to which the run loops back when the report of this step says that the gate failed.
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
    /// A person approves the agent's work before the step is done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub human_in_the_loop: bool,
    /// The conditions that must hold before the step starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<String>,
    /// What must be true for the step to run. If it is not, the step is skipped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
    /// What the engine runs in the step's working directory after the agent's report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<StepCheck>,
    /// The step is repeated for each item of a list.
    #[serde(rename = "loop", default, skip_serializing_if = "Option::is_none")]
    pub data_loop: Option<DataLoop>,
    /// It works in a git worktree of its own, which is merged afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
    /// What the engine does instead of an agent. The file has no such steps: the loader adds them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<StepEffect>,
}

/// Repeats a step for each item of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataLoop {
    pub source: ItemsSource,
    /// Items beyond this number are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<NonZeroU32>,
    /// The variable with the item is `LOOP_` and this name in capitals: `LOOP_ITEM`.
    pub item_var: String,
    /// The variable with the number of the item, from 0, is `LOOP_` and this name in capitals: `LOOP_INDEX`.
    pub index_var: String,
    /// How many items are worked on at once.
    pub parallel: NonZeroU32,
}

impl DataLoop {
    pub const ITEM_VAR: &str = "item";
    pub const INDEX_VAR: &str = "index";

    /// Returns a loop with the default settings.
    pub fn new(source: ItemsSource) -> Self {
        Self {
            source,
            max_iterations: None,
            item_var: Self::ITEM_VAR.to_owned(),
            index_var: Self::INDEX_VAR.to_owned(),
            parallel: NonZeroU32::MIN,
        }
    }
}

/// What the loop goes through: `the items of plan, 3 at once`.
impl fmt::Display for DataLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ItemsSource::Items(items) if items.len() == 1 => f.write_str("1 item")?,
            ItemsSource::Items(items) => write!(f, "{} items", items.len())?,
            ItemsSource::Step(step) | ItemsSource::With(step) => write!(f, "the items of {step}")?,
            ItemsSource::Artifact(path) => write!(f, "the items in {path}")?,
        }
        match self.parallel.get() {
            1 => Ok(()),
            parallel => write!(f, ", {parallel} at once"),
        }
    }
}

/// Where the items of a data loop come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemsSource {
    Items(Vec<Value>),
    /// The first artifact of this step.
    Step(StepId),
    /// A file, relative to the repository.
    Artifact(String),
    /// The items of that step. An item is worked on as soon as that step has worked on it, before the next one begins.
    With(StepId),
}

/// A check of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum StepCheck {
    /// A name of `[checks]` in the configuration, until the run is opened.
    Named(String),
    Command(CheckSpec),
}

/// A check that the configuration does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("step `{step}` names the check `{name}`, which is not configured")]
pub struct UnknownCheck {
    pub step: StepId,
    pub name: String,
}

/// A step that the engine performs itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepEffect {
    /// Merges the branch of this step into the integration branch of the run.
    Merge(StepId),
    /// Fast-forwards the base branch to the integration branch.
    FastForward,
}

impl StepSpec {
    /// Creates a step with the required fields only.
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
            human_in_the_loop: false,
            gates: Vec::new(),
            when: Vec::new(),
            checks: Vec::new(),
            data_loop: None,
            worktree: false,
            effect: None,
        }
    }

    /// Returns what works on the step.
    pub fn kind(&self) -> StepKind {
        match &self.effect {
            Some(_) => StepKind::Effect,
            None if self.is_for_person() => StepKind::Person,
            None => StepKind::Agent,
        }
    }

    /// Returns the commands of its checks. The names were replaced when the run was opened.
    pub fn check_specs(&self) -> Vec<CheckSpec> {
        let commands = self.checks.iter().filter_map(|check| match check {
            StepCheck::Command(spec) => Some(spec.clone()),
            StepCheck::Named(_) => None,
        });
        commands.collect()
    }

    /// Returns what belongs to the step besides the work of its agent.
    pub fn details(&self) -> StepDetails {
        let name = |check: &StepCheck| match check {
            StepCheck::Named(name) => name.clone(),
            StepCheck::Command(spec) => spec.name.clone(),
        };
        StepDetails {
            conditions: self.gates.clone(),
            repeats_for: self.data_loop.as_ref().map(ToString::to_string),
            checks: self.checks.iter().map(name).collect(),
            person: self.human_in_the_loop || self.is_for_person(),
        }
    }

    /// Whether a person works on the step.
    pub fn is_for_person(&self) -> bool {
        self.agent == PERSON
    }
}

/// Serializes a duration as a number of seconds, as an integer if it is whole.
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
    use super::super::phases::when::{Comparison, EndStatus, Operand};
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
            human_in_the_loop: true,
            gates: vec!["ci".to_owned()],
            when: vec![
                When::Artifact("PLAN.md".to_owned()),
                When::Status { step: StepId::new("plan").unwrap(), status: EndStatus::Skipped },
                When::Metric {
                    step: StepId::new("plan").unwrap(),
                    metric: "risk".to_owned(),
                    comparison: Comparison::Is(Operand::Word("high".to_owned())),
                },
            ],
            checks: vec![
                StepCheck::Named("test".to_owned()),
                StepCheck::Command(CheckSpec {
                    name: "fast".to_owned(),
                    command: vec!["true".to_owned()],
                    timeout: Duration::from_secs(5),
                }),
            ],
            data_loop: Some(DataLoop::new(ItemsSource::Items(vec![Value::from(1)]))),
            worktree: true,
            effect: None,
        }
    }

    #[test]
    fn a_stored_workflow_is_read_unchanged() {
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
    fn a_stored_workflow_with_keys_of_a_newer_engine_is_refused() {
        let mut json = serde_json::to_value(step()).unwrap();
        json["quorum"] = Value::from(2);
        assert!(
            serde_json::from_value::<StepSpec>(json)
                .unwrap_err()
                .to_string()
                .contains("unknown field `quorum`")
        );
    }
}
