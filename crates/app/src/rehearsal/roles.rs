//! What a script can name: the steps of whatever is rehearsed, in its protocol's own words.

use std::collections::BTreeMap;

use protocol::steps::Workflow;
use protocol::{Protocol as _, StepId};
use supervisor::adapter::rehearsal::Fields;

use super::outputs;

/// The steps that a script can give parts to.
#[derive(Debug)]
pub(crate) struct Roles {
    /// What people call a step, as one and as many; the latter is also the key of a script.
    pub(super) word: (&'static str, &'static str),
    /// Whose steps they are.
    pub(super) whose: &'static str,
    /// What is rehearsed, and how.
    pub(super) title: String,
    pub(super) roles: Vec<Role>,
}

/// One step.
#[derive(Debug)]
pub(super) struct Role {
    pub(super) step: StepId,
    /// Where its gate sends back to, if it has one.
    pub(super) gate: Option<StepId>,
    /// The keys of `ok` that make its report say more than every report does.
    pub(super) says: &'static [&'static str],
    /// What it says if the script does not.
    pub(super) by_default: Fields,
}

impl Roles {
    pub(crate) fn of_workflow(workflow: &Workflow) -> Self {
        // A line's end in a name would leave the comment.
        let name: String = workflow.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let steps = workflow.steps.iter().map(|step| Role {
            step: step.id.clone(),
            gate: step.loop_back_to.clone(),
            says: &[],
            by_default: Fields::new(),
        });
        Self {
            word: ("step", "steps"),
            whose: "the workflow",
            title: format!("How `{name}` is rehearsed: callboard run WORKFLOW --rehearse=THIS-FILE"),
            roles: steps.collect(),
        }
    }

    /// The four phases, which are the same in every cycle.
    pub(crate) fn of_peer() -> Self {
        let phases = protocol::peer::Phase::ALL.map(|phase| Role {
            step: protocol::peer::Peer::step_id(&phase),
            gate: None,
            says: outputs::words_of(phase),
            by_default: outputs::of(phase),
        });
        Self {
            word: ("phase", "phases"),
            whose: "a cycle",
            title: "How a cycle is rehearsed: callboard peer INSTRUCTION --rehearse=THIS-FILE".to_owned(),
            roles: phases.into(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Role> {
        self.roles.iter().find(|role| role.step.as_str() == name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|role| role.step.as_str())
    }

    /// What each says if the script does not.
    pub(super) fn by_default(&self) -> BTreeMap<StepId, Fields> {
        let talkative = self.roles.iter().filter(|role| !role.by_default.is_empty());
        talkative.map(|role| (role.step.clone(), role.by_default.clone())).collect()
    }

    /// That a step has no gate that could fail, and what to write instead.
    pub(super) fn without_gate(&self, step: &StepId) -> (String, &'static str) {
        if self.have_outputs() {
            let message = "a cycle has no gates: its review sends nobody back".to_owned();
            return (
                message,
                "write `ok: {score: 40}` for a review that is not content, `fail` for a phase that fails",
            );
        }
        let message = format!("step `{step}` has no `loop_back_to`, so it has no gate that could fail");
        (message, "write `fail` for a step that fails; a gate is set up in the workflow")
    }

    /// The command that prints a script for them.
    pub(super) fn printed_by(&self) -> &'static str {
        if self.have_outputs() {
            "`callboard rehearse-script --peer`"
        } else {
            "`callboard rehearse-script WORKFLOW`"
        }
    }

    /// Whether any of them produces an output of its own.
    pub(super) fn have_outputs(&self) -> bool {
        self.roles.iter().any(|role| !role.says.is_empty())
    }
}
