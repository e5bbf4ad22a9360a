//! The definition of a run: the workflow, the texts of its prompts and its limits.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::phases::when::When;
use super::workflow::{ItemsSource, StepSpec, Workflow};
use crate::StepId;
use crate::brief::MemoryPolicy;
use crate::report::ReportForm;

/// The definition of a run, with an index of its graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "StoredDefinition")]
pub struct Definition {
    source: StoredDefinition,
    index_in_file: BTreeMap<StepId, usize>,
    /// Per step, the steps that need it.
    dependents: Vec<Vec<usize>>,
    has_data_loops: bool,
}

/// The part of a definition that is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredDefinition {
    pub workflow: Workflow,
    /// The workflow file, verbatim.
    pub source: String,
    /// The text of each prompt, verbatim.
    pub prompts: BTreeMap<StepId, String>,
    /// Attempts of a step that does not set its own limit.
    pub max_attempts: NonZeroU32,
    /// How often a gate runs at most.
    pub max_iterations: NonZeroU32,
    pub on_failure: OnFailure,
    /// The absolute path of the file with the conditions of `gates`. Without it the steps have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate_state_file: Option<String>,
    /// What happens to the memory updates of reports.
    pub memory: MemoryPolicy,
    /// The JSON Schema that every report of an agent must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_schema: Option<Arc<Value>>,
}

/// How often a gate runs at most if no limit is configured.
pub const DEFAULT_MAX_ITERATIONS: NonZeroU32 = NonZeroU32::new(4).expect("BUG: four is not zero");

/// What happens to the rest of the run when a step has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Running steps are stopped, and the run finishes.
    #[default]
    Stop,
    /// Running steps may finish, nothing more starts, and the run finishes.
    Drain,
    /// Steps that do not depend on the failed step continue.
    Continue,
}

impl From<Definition> for StoredDefinition {
    fn from(definition: Definition) -> Self {
        definition.source
    }
}

/// A definition that was deserialized and not checked: it may come from an archive of another host.
#[derive(Deserialize)]
#[serde(transparent)]
struct Unchecked(StoredDefinition);

impl TryFrom<Unchecked> for Definition {
    type Error = String;

    fn try_from(Unchecked(source): Unchecked) -> Result<Self, String> {
        let steps = &source.workflow.steps;
        let known = |id: &StepId| steps.iter().any(|step| step.id == *id);
        let mut named = steps.iter().flat_map(|step| {
            let items_from = step.data_loop.as_ref().and_then(|data_loop| match &data_loop.source {
                ItemsSource::Step(from) | ItemsSource::With(from) => Some(from),
                ItemsSource::Items(_) | ItemsSource::Artifact(_) => None,
            });
            let in_when = step.when.iter().filter_map(When::step);
            step.needs.iter().chain(&step.loop_back_to).chain(items_from).chain(in_when)
        });
        match named.find(|id| !known(id)) {
            Some(unknown) => Err(format!("the workflow names a step `{unknown}` that it does not have")),
            None => Ok(source.into()),
        }
    }
}

impl From<StoredDefinition> for Definition {
    fn from(source: StoredDefinition) -> Self {
        let steps = &source.workflow.steps;
        let index_in_file: BTreeMap<_, _> =
            steps.iter().enumerate().map(|(index, step)| (step.id.clone(), index)).collect();
        let mut dependents = vec![Vec::new(); steps.len()];
        for (index, step) in steps.iter().enumerate() {
            for need in &step.needs {
                let needed = index_in_file.get(need).expect("BUG: the loader refuses unknown references");
                if !dependents[*needed].contains(&index) {
                    dependents[*needed].push(index);
                }
            }
        }
        let has_data_loops = steps.iter().any(|step| step.data_loop.is_some());
        Self { source, index_in_file, dependents, has_data_loops }
    }
}

impl Definition {
    pub fn workflow(&self) -> &Workflow {
        &self.source.workflow
    }

    pub fn source(&self) -> &str {
        &self.source.source
    }

    pub fn step_ids(&self) -> impl Iterator<Item = &StepId> {
        self.workflow().steps.iter().map(|step| &step.id)
    }

    pub fn has_step(&self, id: &StepId) -> bool {
        self.index_in_file.contains_key(id)
    }

    pub fn step(&self, id: &StepId) -> &StepSpec {
        &self.workflow().steps[self.index_in_file(id)]
    }

    pub fn prompt(&self, id: &StepId) -> &str {
        self.source.prompts.get(&self.step(id).id).map_or("", String::as_str)
    }

    /// Returns the index of a step in the workflow file; for an item, the index of its step.
    pub fn index_in_file(&self, id: &StepId) -> usize {
        let known = self.index_in_file.get(id).copied();
        let known = known.or_else(|| self.index_in_file.get(self.item_of(id)?.0).copied());
        known.unwrap_or_else(|| panic!("BUG: `{id}` is not a step of this workflow"))
    }

    /// Returns whether a step has a data loop.
    pub fn has_data_loops(&self) -> bool {
        self.has_data_loops
    }

    /// Returns the step and the number of an item, from 1, if the id is that of one: `code.3`.
    pub fn item_of(&self, id: &StepId) -> Option<(&StepId, u32)> {
        if !self.has_data_loops || self.index_in_file.contains_key(id) {
            return None;
        }
        let (step, number) = id.as_str().rsplit_once('.')?;
        let spec = &self.workflow().steps[*self.index_in_file.get(&StepId::new(step).ok()?)?];
        // `code.01` is no item: each has one id.
        let number =
            number.parse().ok().filter(|parsed: &u32| *parsed > 0 && parsed.to_string() == number)?;
        spec.data_loop.as_ref().map(|_| (&spec.id, number))
    }

    /// Returns the step that has the list of items: the step itself, or the one that it is paired with (`with`). `None`
    /// without a data loop.
    pub fn items_owner<'a>(&'a self, step: &'a StepSpec) -> Option<&'a StepSpec> {
        match &step.data_loop.as_ref()?.source {
            ItemsSource::With(items_owner) => Some(self.step(items_owner)),
            ItemsSource::Items(_) | ItemsSource::Step(_) | ItemsSource::Artifact(_) => Some(step),
        }
    }

    /// Returns the steps that work on the items of `items_owner`, in workflow order.
    pub fn steps_sharing_items<'a>(
        &'a self,
        items_owner: &'a StepSpec,
    ) -> impl Iterator<Item = &'a StepSpec> {
        let steps = self.workflow().steps.iter();
        steps.filter(|step| self.items_owner(step).is_some_and(|other| other.id == items_owner.id))
    }

    /// Returns the steps that need this one, in workflow order.
    pub fn dependents(&self, id: &StepId) -> impl Iterator<Item = &StepSpec> {
        self.dependents[self.index_in_file(id)].iter().map(|index| &self.workflow().steps[*index])
    }

    /// Returns these steps and everything that needs them, directly or not, in workflow order.
    pub fn downstream(&self, of: impl IntoIterator<Item = StepId>) -> Vec<StepId> {
        let mut seen = vec![false; self.workflow().steps.len()];
        let mut to_visit: Vec<usize> = of.into_iter().map(|id| self.index_in_file(&id)).collect();
        while let Some(index) = to_visit.pop() {
            if !std::mem::replace(&mut seen[index], true) {
                to_visit.extend(&self.dependents[index]);
            }
        }
        let steps = self.step_ids().zip(seen);
        steps.filter(|(_, seen)| *seen).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the file with the conditions of `gates`.
    pub fn gate_state_file(&self) -> Option<&str> {
        self.source.gate_state_file.as_deref()
    }

    pub fn memory_policy(&self) -> MemoryPolicy {
        self.source.memory
    }

    /// Returns what the report of an agent must contain.
    pub(super) fn report_form(&self) -> ReportForm {
        self.source.report_schema.clone().map_or(ReportForm::Plain, ReportForm::Matching)
    }

    pub fn max_iterations(&self) -> NonZeroU32 {
        self.source.max_iterations
    }

    pub fn on_failure(&self) -> OnFailure {
        self.source.on_failure
    }

    pub fn max_attempts(&self, id: &StepId) -> NonZeroU32 {
        self.step(id).max_attempts.unwrap_or(self.source.max_attempts)
    }
}
