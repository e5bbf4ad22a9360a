//! What a run is opened with: the workflow, the prompts' texts and the limits, source.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::workflow::{StepSpec, Workflow};
use crate::StepId;

/// The source definition of a run, with an index over its graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Read", into = "DefinitionSource")]
pub struct Definition {
    source: DefinitionSource,
    position: BTreeMap<StepId, usize>,
    /// Per step, the steps that need it.
    dependents: Vec<Vec<usize>>,
}

/// The part that is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DefinitionSource {
    pub workflow: Workflow,
    /// The workflow file, verbatim.
    pub source: String,
    /// Each step's prompt, verbatim.
    pub prompts: BTreeMap<StepId, String>,
    /// Tries of a step that does not set its own.
    pub max_attempts: NonZeroU32,
    /// How often a step with a gate is executed at most.
    pub max_iterations: NonZeroU32,
    pub on_failure: OnFailure,
}

/// Executions of a gate unless something says otherwise.
pub const DEFAULT_ITERATIONS: NonZeroU32 = NonZeroU32::new(4).expect("BUG: four is not zero");

/// What becomes of the rest when a step has failed for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Running steps are stopped, and the run ends.
    #[default]
    Stop,
    /// Running steps may finish, nothing more starts, and the run ends.
    Drain,
    /// Whatever does not depend on the failed step goes on.
    Continue,
}

impl From<Definition> for DefinitionSource {
    fn from(definition: Definition) -> Self {
        definition.source
    }
}

/// What was read back: it may come from an archive of somebody else's.
#[derive(Deserialize)]
#[serde(transparent)]
struct Read(DefinitionSource);

impl TryFrom<Read> for Definition {
    type Error = String;

    fn try_from(Read(source): Read) -> Result<Self, String> {
        let steps = &source.workflow.steps;
        let known = |id: &StepId| steps.iter().any(|step| step.id == *id);
        let mut named = steps.iter().flat_map(|step| step.needs.iter().chain(&step.loop_back_to));
        match named.find(|id| !known(id)) {
            Some(unknown) => Err(format!("the workflow names a step `{unknown}` that it does not have")),
            None => Ok(source.into()),
        }
    }
}

impl From<DefinitionSource> for Definition {
    fn from(source: DefinitionSource) -> Self {
        let steps = &source.workflow.steps;
        let position: BTreeMap<_, _> =
            steps.iter().enumerate().map(|(index, step)| (step.id.clone(), index)).collect();
        let mut dependents = vec![Vec::new(); steps.len()];
        for (index, step) in steps.iter().enumerate() {
            for need in &step.needs {
                let needed = position.get(need).expect("BUG: the loader refuses unknown references");
                if !dependents[*needed].contains(&index) {
                    dependents[*needed].push(index);
                }
            }
        }
        Self { source, position, dependents }
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

    pub fn step(&self, id: &StepId) -> &StepSpec {
        &self.workflow().steps[self.position(id)]
    }

    pub fn prompt(&self, id: &StepId) -> &str {
        self.source.prompts.get(id).map_or("", String::as_str)
    }

    /// The place of a step in the workflow file.
    pub fn position(&self, id: &StepId) -> usize {
        *self.position.get(id).unwrap_or_else(|| panic!("BUG: `{id}` is not a step of this workflow"))
    }

    /// Steps that need this one, in workflow order.
    pub fn dependents(&self, id: &StepId) -> impl Iterator<Item = &StepSpec> {
        self.dependents[self.position(id)].iter().map(|index| &self.workflow().steps[*index])
    }

    /// A step and everything that needs it, directly or not, in workflow order.
    pub fn downstream(&self, of: impl IntoIterator<Item = StepId>) -> Vec<StepId> {
        let mut seen = vec![false; self.workflow().steps.len()];
        let mut open: Vec<usize> = of.into_iter().map(|id| self.position(&id)).collect();
        while let Some(index) = open.pop() {
            if !std::mem::replace(&mut seen[index], true) {
                open.extend(&self.dependents[index]);
            }
        }
        let steps = self.step_ids().zip(seen);
        steps.filter(|(_, seen)| *seen).map(|(id, _)| id.clone()).collect()
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
