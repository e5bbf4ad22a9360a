//! Workflow text → [`Workflow`], or everything that is wrong with it, each with line, column and a hint.
//!
//! The loader is strict: a key that is silently ignored, a string taken for a list of letters or a cycle that waits
//! for ever are found here, before an agent costs money. It reads no files; the caller checks whether prompts exist.
//!
//! Text becomes a [tree](crate::located), the tree a `draft` with known keys and right types, the draft a `graph`.

mod checks;
mod draft;
mod duration;
mod field;
pub mod grammar;
mod graph;
mod loops;
mod schema;
#[cfg(test)]
mod tests;
mod when;
mod worktrees;

pub use duration::{BadDuration, parse_duration};
pub use schema::schema;
pub use worktrees::add_effect_steps;

use crate::ids::StepId;
use crate::located::{Located, Node, Problems};
pub use crate::located::{Problem, Rule};

use super::workflow::{PERSON, StepCheck, StepSpec, Workflow};
use draft::{Draft, StepDraft};
use graph::Edges;

/// The name of a workflow that has none.
const UNNAMED: &str = "unnamed";

/// A workflow that can be run, with warnings for its author.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub workflow: Workflow,
    /// In the order of the file.
    pub warnings: Vec<Problem>,
}

/// Loads a workflow. Fails with every problem that was found, in the order of the file.
pub fn load(text: &str) -> Result<Loaded, Vec<Problem>> {
    let WorkflowAnalysis { workflow, problems, warnings, .. } = analyze(text);
    workflow.map(|workflow| Loaded { workflow, warnings }).ok_or(problems)
}

/// Everything that one pass over a workflow file yields, for callers that check more than its text.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkflowAnalysis {
    /// `Some` exactly if there are no problems.
    pub workflow: Option<Workflow>,
    /// In the order of the file.
    pub problems: Vec<Problem>,
    /// In the order of the file.
    pub warnings: Vec<Problem>,
    /// The prompts that steps name, in the order of the steps. Every step of a valid workflow has one, unless a person works on it.
    pub prompts: Vec<PromptReference>,
    /// The checks of the configuration that steps name, in the order of the steps.
    pub checks: Vec<CheckReference>,
}

/// Where a step names a check of the configuration, which the loader does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReference {
    pub name: String,
    /// The step's id, if it has one.
    pub step: Option<String>,
    pub line: usize,
    pub column: usize,
}

/// Where a step has its prompt, or names its file, which may not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptReference {
    pub prompt: Prompt,
    /// The step's id, if it has one.
    pub step: Option<String>,
    pub line: usize,
    pub column: usize,
}

/// The value of `prompt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// The path of a file, as written.
    File(String),
    /// The prompt itself: a text of several lines (`prompt: |`).
    Text(String),
}

/// Examines a workflow. Unlike [`load`], it also returns what could be read of an invalid file.
pub fn analyze(text: &str) -> WorkflowAnalysis {
    let mut problems = Problems::default();
    let mut warnings = Problems::default();
    let draft = Node::from_yaml(text, &mut problems).and_then(|root| draft::read(&root, &mut problems));
    let steps = draft.iter().flat_map(|draft| &draft.steps);
    let prompts = steps.filter_map(|step| {
        let Located { value, pos } = step.prompt.as_ref()?;
        let id = step.id.as_ref().map(|id| id.value.clone());
        Some(PromptReference { prompt: value.clone(), step: id, line: pos.line, column: pos.column })
    });
    let prompts = prompts.collect();
    let checks = draft.iter().flat_map(|draft| &draft.steps).flat_map(check_references).collect();
    let workflow = draft.and_then(|draft| check(draft, &mut problems, &mut warnings));
    let workflow = workflow.filter(|_| problems.count() == 0);
    let (problems, warnings) = (problems.into_sorted(), warnings.into_sorted());
    WorkflowAnalysis { workflow, problems, warnings, prompts, checks }
}

fn check_references(step: &StepDraft) -> impl Iterator<Item = CheckReference> {
    step.checks.iter().filter_map(|Located { value, pos }| match value {
        StepCheck::Named(name) => Some(CheckReference {
            name: name.clone(),
            step: step.id.as_ref().map(|id| id.value.clone()),
            line: pos.line,
            column: pos.column,
        }),
        StepCheck::Command(_) => None,
    })
}

/// Runs the checks that need all steps at once. Returns `None` if a required part is missing, which has been reported.
fn check(draft: Draft, problems: &mut Problems, warnings: &mut Problems) -> Option<Workflow> {
    let ids = graph::check_ids(&draft.steps, problems);
    let edges = graph::resolve(&draft.steps, problems, warnings);
    graph::check_successors(&draft.steps, &edges, warnings);
    graph::check_cycles(&draft.steps, &edges, problems);
    graph::check_loop_backs(&draft.steps, &edges, problems);
    worktrees::check_ids(&draft.steps, problems);
    loops::check(&draft.steps, &edges, problems);
    when::check(&draft.steps, &edges, problems);
    let steps = draft.steps.into_iter().zip(&edges).enumerate();
    Some(Workflow {
        name: draft.name.unwrap_or_else(|| UNNAMED.to_owned()),
        description: draft.description.unwrap_or_default(),
        metadata: draft.metadata,
        steps: add_effect_steps(
            steps.map(|(index, (step, edges))| build(index, step, edges, &ids)).collect::<Option<_>>()?,
        ),
    })
}

fn build(index: usize, step: StepDraft, edges: &Edges, ids: &[Option<StepId>]) -> Option<StepSpec> {
    let ids_of = |references: &[Located<usize>]| {
        references.iter().map(|reference| ids[reference.value].clone()).collect::<Option<Vec<_>>>()
    };
    let is_for_person = step.agent.as_deref() == Some(PERSON);
    Some(StepSpec {
        id: ids[index].clone()?,
        agent: step.agent?,
        prompt: match step.prompt {
            Some(Located { value: Prompt::File(text) | Prompt::Text(text), .. }) => text,
            None if is_for_person => String::new(),
            None => return None,
        },
        needs: ids_of(&edges.needs)?,
        next_on_success: ids_of(&edges.next_on_success)?,
        loop_back_to: ids_of(edges.loop_back_to.as_slice())?.pop(),
        metadata: step.metadata,
        model: step.model,
        timeout: step.timeout,
        max_attempts: step.max_attempts,
        // A step of a person asks at once.
        human_in_the_loop: step.human_in_the_loop && !is_for_person,
        gates: step.gates,
        when: step
            .when
            .into_iter()
            .zip(&edges.when)
            .map(|(when, asked)| when.build(asked.as_ref().and_then(|asked| ids[asked.value].clone())))
            .collect::<Option<_>>()?,
        checks: step.checks.into_iter().map(|check| check.value).collect(),
        data_loop: match step.data_loop {
            None => None,
            Some(draft) => {
                let from = ids_of(edges.loop_source.as_slice())?.pop();
                Some(draft.build(from)?)
            }
        },
        worktree: step.worktree,
        effect: None,
    })
}
