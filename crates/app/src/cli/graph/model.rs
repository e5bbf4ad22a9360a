//! The graph that every format prints: the steps, their edges, and how far each step is.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use protocol::present::{LoopBack, StatusKind, StepDetails};
use protocol::steps::Workflow;
use protocol::{Machine, Timestamp};
use serde::Serialize;

/// The steps of a workflow or of a run.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Graph {
    pub(super) title: String,
    /// `None` for a workflow file.
    #[serde(flatten)]
    pub(super) run: Option<Run>,
    /// In topological order: a step comes after every step it needs.
    pub(super) steps: Vec<Step>,
}

/// The run that a graph shows.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    pub(super) run: String,
    pub(super) revision: u64,
    /// `None` for a past revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<&'static str>,
}

/// A step, with its edges by id for `--json` and as indices into [`Graph::steps`] for drawing.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) agent: String,
    #[serde(skip)]
    pub(super) need_indices: Vec<usize>,
    pub(super) needs: Vec<String>,
    #[serde(skip)]
    pub(super) loop_back_index: Option<usize>,
    pub(super) loop_back_to: Option<String>,
    #[serde(flatten)]
    pub(super) details: StepDetails,
    /// `None` in a workflow file.
    #[serde(flatten)]
    pub(super) progress: Option<Progress>,
}

/// How far a step of a run is.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Progress {
    #[serde(rename = "status", serialize_with = "status_label")]
    pub(super) kind: StatusKind,
    /// The status as the protocol's document spells it.
    pub(super) document_status: &'static str,
    /// How long the step took, or has been running.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub(super) duration: Option<Duration>,
    pub(super) attempts: u32,
    #[serde(flatten)]
    pub(super) iteration: Option<Iteration>,
    pub(super) last_error: Option<String>,
}

/// The current iteration of a gate, and how many it may have.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Iteration {
    #[serde(rename = "iteration")]
    pub(super) current: u32,
    #[serde(rename = "max_iterations")]
    pub(super) max: u32,
}

fn status_label<S: serde::Serializer>(kind: &StatusKind, to: S) -> Result<S::Ok, S::Error> {
    kind.as_str().serialize(to)
}

fn milliseconds<S: serde::Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_millis()).serialize(to)
}

impl Graph {
    pub(super) fn of_workflow(workflow: &Workflow) -> Self {
        let steps = workflow.steps.iter().map(|step| Step {
            id: step.id.to_string(),
            agent: step.agent.clone(),
            needs: step.needs.iter().map(ToString::to_string).collect(),
            loop_back_to: step.loop_back_to.as_ref().map(ToString::to_string),
            details: step.details(),
            ..Step::default()
        });
        Self { title: workflow.name.clone(), run: None, steps: sorted(steps.collect()) }
    }

    /// The steps of a run at the time `now`.
    pub(super) fn of_run(run: Run, title: &str, machine: &dyn Machine, now: Timestamp) -> Self {
        let steps = machine.steps().into_iter().map(|step| {
            let summary = machine.step_summary(&step);
            let loop_back = machine.loop_back(&step);
            Step {
                id: step.to_string(),
                agent: machine.agent(&step),
                needs: machine.needs(&step).iter().map(ToString::to_string).collect(),
                loop_back_to: loop_back.as_ref().map(|LoopBack { to, .. }| to.to_string()),
                details: machine.details(&step),
                progress: Some(Progress {
                    kind: summary.kind,
                    document_status: summary.status,
                    duration: summary.elapsed(now),
                    attempts: summary.attempts,
                    iteration: loop_back.map(|LoopBack { max_iterations, .. }| Iteration {
                        current: summary.loop_backs + 1,
                        max: max_iterations,
                    }),
                    last_error: summary.error,
                }),
                ..Step::default()
            }
        });
        Self { title: title.to_owned(), run: Some(run), steps: sorted(steps.collect()) }
    }
}

/// Sorts the steps topologically, keeping the given order where the edges leave a choice, and resolves the edges.
fn sorted(steps: Vec<Step>) -> Vec<Step> {
    let index_by_id: HashMap<_, _> =
        steps.iter().enumerate().map(|(index, step)| (step.id.clone(), index)).collect();
    let mut dependents = vec![Vec::new(); steps.len()];
    let mut open_needs = vec![0; steps.len()];
    for (index, step) in steps.iter().enumerate() {
        for need in step.needs.iter().filter_map(|id| index_by_id.get(id)) {
            dependents[*need].push(index);
            open_needs[index] += 1;
        }
    }
    let mut ready: BTreeSet<_> = (0..steps.len()).filter(|index| open_needs[*index] == 0).collect();
    let mut order = Vec::with_capacity(steps.len());
    while let Some(next) = ready.pop_first() {
        order.push(next);
        for dependent in &dependents[next] {
            open_needs[*dependent] -= 1;
            if open_needs[*dependent] == 0 {
                ready.insert(*dependent);
            }
        }
    }
    assert_eq!(order.len(), steps.len(), "BUG: a checked definition has a cycle of needs");
    let mut position = vec![0; steps.len()];
    for (new_index, index) in order.iter().enumerate() {
        position[*index] = new_index;
    }
    let new_index = |id: &String| index_by_id.get(id).map(|index| position[*index]);
    let mut steps: Vec<_> = steps.into_iter().enumerate().collect();
    steps.sort_by_key(|(index, _)| position[*index]);
    let resolved = steps.into_iter().map(|(_, step)| Step {
        need_indices: step.needs.iter().filter_map(new_index).collect(),
        loop_back_index: step.loop_back_to.as_ref().and_then(new_index),
        ..step
    });
    resolved.collect()
}
