//! What is to be drawn, whichever way: the steps, what leads to what, and how far each of them is.

use std::time::Duration;

use protocol::steps::{Definition, Document, Status, StepDocument, Workflow};
use protocol::{SeatName, Stamp};
use serde::Serialize;

/// A workflow, or a run of one.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Picture {
    pub(super) title: String,
    /// The run and where it stands; a mere workflow has none.
    #[serde(flatten)]
    pub(super) run: Option<Run>,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Run {
    pub(super) run: String,
    pub(super) revision: u64,
    /// Missing for a revision of the past: then the steps tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<&'static str>,
}

/// A step and the places, in the list of steps, of those it has to do with.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) agent: String,
    #[serde(skip)]
    pub(super) needs: Vec<usize>,
    #[serde(rename = "needs")]
    needed: Vec<String>,
    #[serde(skip)]
    pub(super) back_to: Option<usize>,
    loop_back_to: Option<String>,
    #[serde(flatten)]
    pub(super) reached: Option<Reached>,
}

/// How far a step of a run is.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Reached {
    pub(super) status: Status,
    /// How long it took, or has been at work.
    #[serde(rename = "duration_ms", serialize_with = "milliseconds")]
    pub(super) length: Option<Duration>,
    pub(super) attempts: u32,
    #[serde(flatten)]
    pub(super) iteration: Option<Iteration>,
    #[serde(rename = "last_error")]
    pub(super) error: Option<String>,
}

/// Which execution of a gate this is, and how many there may be.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Iteration {
    #[serde(rename = "iteration")]
    pub(super) now: u32,
    #[serde(rename = "max_iterations")]
    pub(super) most: u32,
}

fn milliseconds<S: serde::Serializer>(length: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    length.map(|length| length.as_millis()).serialize(to)
}

impl Picture {
    pub(super) fn of_workflow(workflow: &Workflow) -> Self {
        Self { title: workflow.name.clone(), run: None, steps: steps(workflow, |_| None) }
    }

    /// A run as its document shows it, at a time.
    pub(super) fn of_run(run: Run, definition: &Definition, document: &Document, now: Stamp) -> Self {
        let workflow = definition.workflow();
        let most = definition.max_iterations().get();
        let reached = |step: &protocol::steps::Step| {
            let shown = document.steps.get(step.id.as_str())?;
            let gate = step.loop_back_to.as_ref();
            let iteration = gate.map(|_| Iteration { now: shown.iteration_count + 1, most });
            Some(Reached {
                status: shown.status,
                length: length(shown, now),
                attempts: shown.attempts,
                iteration,
                error: shown.last_error.clone(),
            })
        };
        Self { title: workflow.name.clone(), run: Some(run), steps: steps(workflow, reached) }
    }
}

fn steps(workflow: &Workflow, reached: impl Fn(&protocol::steps::Step) -> Option<Reached>) -> Vec<Step> {
    let place = |id: &SeatName| workflow.steps.iter().position(|step| step.id == *id);
    let drawn = workflow.steps.iter().map(|step| Step {
        id: step.id.to_string(),
        agent: step.agent.clone(),
        needs: step.needs.iter().filter_map(place).collect(),
        needed: step.needs.iter().map(ToString::to_string).collect(),
        back_to: step.loop_back_to.as_ref().and_then(place),
        loop_back_to: step.loop_back_to.as_ref().map(ToString::to_string),
        reached: reached(step),
    });
    drawn.collect()
}

fn length(step: &StepDocument, now: Stamp) -> Option<Duration> {
    let begun = step.started_at?;
    match step.status {
        Status::Running | Status::WaitingOnHuman => Some(now.since(begun)),
        Status::Completed | Status::Failed => step.ended_at.map(|ended| ended.since(begun)),
        Status::Pending | Status::Skipped => None,
    }
}
