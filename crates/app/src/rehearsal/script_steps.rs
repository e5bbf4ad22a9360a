//! The steps that a script can name.

use std::collections::BTreeMap;

use protocol::steps::Workflow;
use protocol::{Protocol as _, StepId};
use supervisor::adapter::rehearsal::Fields;

use super::outputs;

/// The steps of a rehearsed workflow or cycle.
#[derive(Debug)]
pub(crate) struct ScriptSteps {
    /// The word for a step, singular and plural. The plural is also the top key of a script.
    pub(super) word: (&'static str, &'static str),
    /// What has the steps, for messages.
    pub(super) whose: &'static str,
    /// The first line of a script template.
    pub(super) title: String,
    pub(super) steps: Vec<ScriptStep>,
}

#[derive(Debug)]
pub(super) struct ScriptStep {
    pub(super) step: StepId,
    /// The step that it loops back to, if it is a gate.
    pub(super) gate: Option<StepId>,
    /// The keys of `ok` that set further fields of its report.
    pub(super) says: &'static [&'static str],
    /// The fields of its report that the script does not set.
    pub(super) by_default: Fields,
}

impl ScriptSteps {
    pub(crate) fn of_workflow(workflow: &Workflow) -> Self {
        // A newline in the name would end the comment.
        let name: String = workflow.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // A person answers in a rehearsal, too.
        let steps = workflow.agent_steps().map(|step| ScriptStep {
            step: step.id.clone(),
            gate: step.loop_back_to.clone(),
            says: &[],
            by_default: Fields::new(),
        });
        Self {
            word: ("step", "steps"),
            whose: "the workflow",
            title: format!("How `{name}` is rehearsed: callboard run WORKFLOW --rehearse=THIS-FILE"),
            steps: steps.collect(),
        }
    }

    /// Returns the four phases, which are the same in every cycle.
    pub(crate) fn of_peer() -> Self {
        let phases = protocol::peer::Phase::ALL.map(|phase| ScriptStep {
            step: protocol::peer::Peer::step_id(&phase),
            gate: None,
            says: outputs::report_fields(phase),
            by_default: outputs::of(phase),
        });
        Self {
            word: ("phase", "phases"),
            whose: "a cycle",
            title: "How a cycle is rehearsed: callboard peer INSTRUCTION --rehearse=THIS-FILE".to_owned(),
            steps: phases.into(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&ScriptStep> {
        self.steps.iter().find(|step| step.step.as_str() == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.step.as_str())
    }

    /// Returns the report fields that a script need not set.
    pub(super) fn by_default(&self) -> BTreeMap<StepId, Fields> {
        let with_fields = self.steps.iter().filter(|step| !step.by_default.is_empty());
        with_fields.map(|step| (step.step.clone(), step.by_default.clone())).collect()
    }

    /// Returns the error and hint for `gate_fail` in a step that is not a gate.
    pub(super) fn without_gate(&self, step: &StepId) -> (String, &'static str) {
        if self.have_outputs() {
            let message = "a cycle has no gates".to_owned();
            return (
                message,
                "write `ok: {score: 40}` for an unsuccessful review, `fail` for a phase that fails",
            );
        }
        let message = format!("step `{step}` has no `loop_back_to`, so it is not a gate");
        (message, "write `fail` for a step that fails, or set `loop_back_to` in the workflow")
    }

    /// Returns the command that prints a script template.
    pub(super) fn printed_by(&self) -> &'static str {
        if self.have_outputs() {
            "`callboard rehearse-script --peer`"
        } else {
            "`callboard rehearse-script WORKFLOW`"
        }
    }

    /// Whether the steps have outputs.
    pub(super) fn have_outputs(&self) -> bool {
        self.steps.iter().any(|step| !step.says.is_empty())
    }
}
