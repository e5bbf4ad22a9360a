//! Workflow text → [`Workflow`], or everything that is wrong with it, each with line, column and the way out.
//!
//! Strict on purpose. A key that is silently ignored, a string taken for a list of letters or a cycle that waits for
//! ever are found here, before an agent has been paid. Nothing is read or written: whether a prompt exists is for
//! whoever opens the run to find out.
//!
//! Text becomes a `tree` with places, the tree a `draft` of known keys and right types, the draft a `graph`.

mod draft;
mod duration;
mod field;
pub mod grammar;
mod graph;
mod problem;
mod scalar;
mod schema;
#[cfg(test)]
mod tests;
mod tree;

pub use duration::{BadDuration, parse_duration};
pub use problem::{Problem, Rule};
pub use schema::schema;

use crate::ids::StepId;

use super::workflow::{StepSpec, Workflow};
use draft::{Draft, StepDraft};
use field::Placed;
use graph::Edges;
use problem::Problems;

/// What a workflow is called that does not say.
const UNNAMED: &str = "unnamed";

/// A workflow that may be run, and what its author may want to know all the same.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub workflow: Workflow,
    /// In the order of the file.
    pub warnings: Vec<Problem>,
}

/// Reads a workflow file. On failure every problem that could be found is returned, in the order of the file.
pub fn load(text: &str) -> Result<Loaded, Vec<Problem>> {
    let Examined { workflow, problems, warnings, .. } = examine(text);
    workflow.map(|workflow| Loaded { workflow, warnings }).ok_or(problems)
}

/// All that one reading of a workflow file tells, for whoever can look further than its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Examined {
    /// There is one exactly if there are no problems.
    pub workflow: Option<Workflow>,
    /// In the order of the file.
    pub problems: Vec<Problem>,
    /// In the order of the file.
    pub warnings: Vec<Problem>,
    /// The prompts that steps name, in the order of the steps; all steps have one if there is a workflow.
    pub prompts: Vec<PromptReference>,
}

/// Where a step names its prompt. Whether the file exists is not known here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptReference {
    /// As written.
    pub path: String,
    /// The step's id, if it has one.
    pub step: Option<String>,
    pub line: usize,
    pub column: usize,
}

/// As [`load`], but keeps what could be read of a broken file, too.
pub fn examine(text: &str) -> Examined {
    let mut problems = Problems::default();
    let mut warnings = Problems::default();
    let draft = tree::parse(text, &mut problems).and_then(|root| draft::read(&root, &mut problems));
    let steps = draft.iter().flat_map(|draft| &draft.steps);
    let prompts = steps.filter_map(|step| {
        let Placed { value, position } = step.prompt.as_ref()?;
        let id = step.id.as_ref().map(|id| id.value.clone());
        Some(PromptReference { path: value.clone(), step: id, line: position.line, column: position.column })
    });
    let prompts = prompts.collect();
    let workflow = draft.and_then(|draft| check(draft, &mut problems, &mut warnings));
    let workflow = workflow.filter(|_| problems.count() == 0);
    Examined { workflow, problems: problems.sorted(), warnings: warnings.sorted(), prompts }
}

/// The checks that need all steps at once. `None` where a required part is missing, which has been reported.
fn check(draft: Draft, problems: &mut Problems, warnings: &mut Problems) -> Option<Workflow> {
    let ids = graph::check_ids(&draft.steps, problems);
    let edges = graph::resolve(&draft.steps, problems, warnings);
    graph::check_successors(&draft.steps, &edges, warnings);
    graph::check_cycles(&draft.steps, &edges, problems);
    graph::check_ways_back(&draft.steps, &edges, problems);
    let steps = draft.steps.into_iter().zip(&edges).enumerate();
    Some(Workflow {
        name: draft.name.unwrap_or_else(|| UNNAMED.to_owned()),
        description: draft.description.unwrap_or_default(),
        metadata: draft.metadata,
        steps: steps.map(|(place, (step, edges))| build(place, step, edges, &ids)).collect::<Option<_>>()?,
    })
}

fn build(place: usize, step: StepDraft, edges: &Edges, ids: &[Option<StepId>]) -> Option<StepSpec> {
    let named = |references: &[Placed<usize>]| {
        references.iter().map(|reference| ids[reference.value].clone()).collect::<Option<Vec<_>>>()
    };
    Some(StepSpec {
        id: ids[place].clone()?,
        agent: step.agent?,
        prompt: step.prompt?.value,
        needs: named(&edges.needs)?,
        next_on_success: named(&edges.next_on_success)?,
        loop_back_to: named(edges.loop_back_to.as_slice())?.pop(),
        metadata: step.metadata,
        model: step.model,
        timeout: step.timeout,
        max_attempts: step.max_attempts,
    })
}
