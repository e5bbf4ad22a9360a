//! What is to be drawn, whichever way: the steps, what leads to what, and how far each of them is.

use std::time::Duration;

use protocol::Stamp;
use protocol::steps::Workflow;
use runner::RunSpec;
use serde::Serialize;

use crate::present::{LoopBack, Presentation, StatusKind};

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
    pub(super) status: Option<&'static str>,
}

/// A step, or a step of another protocol, and the places, in the list of steps, of those it has to do with.
#[derive(Debug, Clone, Default, Serialize)]
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
    /// The document's word for it.
    pub(super) status: &'static str,
    #[serde(skip)]
    pub(super) kind: StatusKind,
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
        let steps = workflow.steps.iter().map(|step| Step {
            id: step.id.to_string(),
            agent: step.agent.clone(),
            needed: step.needs.iter().map(ToString::to_string).collect(),
            loop_back_to: step.loop_back_to.as_ref().map(ToString::to_string),
            ..Step::default()
        });
        Self { title: workflow.name.clone(), run: None, steps: placed(steps.collect()) }
    }

    /// A run as its document shows it, at a time.
    pub(super) fn of_run<P: Presentation>(
        run: Run,
        spec: &RunSpec<P>,
        document: &P::Document,
        now: Stamp,
    ) -> Self {
        let definition = &spec.definition;
        let name = |step: &P::Step| P::step_id(step).to_string();
        let steps = P::steps(definition).into_iter().map(|step| {
            let shown = P::step_summary(document, &step);
            let loop_back = P::loop_back(definition, &step);
            Step {
                id: name(&step),
                agent: P::agent(definition, &step),
                needed: P::needs(definition, &step).iter().map(name).collect(),
                loop_back_to: loop_back.as_ref().map(|LoopBack { to, .. }| name(to)),
                reached: Some(Reached {
                    status: shown.status,
                    kind: shown.kind,
                    length: shown.elapsed(now),
                    attempts: shown.attempts,
                    iteration: loop_back.map(|LoopBack { max_iterations, .. }| Iteration {
                        now: shown.loop_backs + 1,
                        most: max_iterations,
                    }),
                    error: shown.error,
                }),
                ..Step::default()
            }
        });
        Self { title: spec.title.clone(), run: Some(run), steps: placed(steps.collect()) }
    }
}

/// Finds the places of those that steps have to do with.
fn placed(mut steps: Vec<Step>) -> Vec<Step> {
    let names: Vec<_> = steps.iter().map(|step| step.id.clone()).collect();
    let place = |name: &String| names.iter().position(|known| known == name);
    for step in &mut steps {
        step.needs = step.needed.iter().filter_map(place).collect();
        step.back_to = step.loop_back_to.as_ref().and_then(place);
    }
    steps
}
