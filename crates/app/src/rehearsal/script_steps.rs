//! The steps that a rehearsal script can name.

use std::borrow::Cow;
use std::collections::BTreeMap;

use protocol::steps::Workflow;
use protocol::{Protocol as _, ProtocolInfo, StepId};
use supervisor::adapter::rehearsal::Fields;

use super::outputs;

/// The steps of a rehearsed run, as its script names them.
#[derive(Debug)]
pub(crate) struct ScriptSteps {
    /// The noun for a step, singular and plural. The plural is also the top key of a script.
    pub(super) nouns: (&'static str, &'static str),
    /// What the steps belong to, for messages.
    pub(super) owner: &'static str,
    /// The first line of a script template.
    pub(super) title: String,
    pub(super) steps: Vec<ScriptStep>,
    /// Whether the run creates its steps, so that a script may name any. An entry below a step is then a turn, which may be a
    /// list of attempts; otherwise it is an attempt.
    pub(super) are_created_by_run: bool,
    /// The command that prints a script template.
    pub(super) template_command: String,
}

/// The key below `ok:` in a script that sets fields of the report. Only for steps that the run creates.
pub(super) const REPORT: &str = "report";

#[derive(Debug, Clone)]
pub(super) struct ScriptStep {
    pub(super) step: StepId,
    /// The step that it loops back to, if it is a gate.
    pub(super) loop_back_to: Option<StepId>,
    /// The keys below `ok:` that set fields which only reports of this step have.
    pub(super) ok_keys: &'static [&'static str],
    /// Fields of its report that apply unless the script sets them.
    pub(super) default_fields: Fields,
}

impl ScriptSteps {
    pub(crate) fn of_workflow(workflow: &Workflow) -> Self {
        // A newline in the name would end the comment.
        let name: String = workflow.name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // Steps for a person are not scripted: a person answers them in a rehearsal, too.
        let steps = workflow.agent_steps().map(|step| ScriptStep {
            step: step.id.clone(),
            loop_back_to: step.loop_back_to.clone(),
            ok_keys: &[],
            default_fields: Fields::new(),
        });
        Self {
            nouns: ("step", "steps"),
            owner: "the workflow",
            title: format!("How `{name}` is rehearsed: callboard run WORKFLOW --rehearse=THIS-FILE"),
            steps: steps.collect(),
            are_created_by_run: false,
            template_command: "`callboard rehearse-script WORKFLOW`".to_owned(),
        }
    }

    /// Returns the steps of a protocol whose runs create their steps.
    pub(crate) fn of_protocol(info: &ProtocolInfo) -> Self {
        let ProtocolInfo { name, start_command, start_argument, script_steps, .. } = info;
        let step = |name: &&str| StepId::new(name).expect("BUG: a step of a protocol has a valid name");
        Self {
            nouns: ("step", "steps"),
            owner: "the run",
            title: format!(
                "How a `{name}` run is rehearsed: {start_command} {} --rehearse=THIS-FILE",
                start_argument.to_uppercase()
            ),
            steps: script_steps.iter().map(step).map(ScriptStep::created_by_run).collect(),
            are_created_by_run: true,
            template_command: format!("`callboard rehearse-script --protocol {name}`"),
        }
    }

    /// Returns the four phases, which are the same in every peer cycle.
    pub(crate) fn of_peer() -> Self {
        let phases = protocol::peer::Phase::ALL.map(|phase| ScriptStep {
            step: protocol::peer::Peer::step_id(&phase),
            loop_back_to: None,
            ok_keys: outputs::ok_keys(phase),
            default_fields: outputs::of(phase),
        });
        Self {
            nouns: ("phase", "phases"),
            owner: "a peer cycle",
            title: "How a peer cycle is rehearsed: callboard peer INSTRUCTION --rehearse=THIS-FILE"
                .to_owned(),
            steps: phases.into(),
            are_created_by_run: false,
            template_command: "`callboard rehearse-script --peer`".to_owned(),
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Cow<'_, ScriptStep>> {
        if self.are_created_by_run {
            return StepId::new(name).ok().map(ScriptStep::created_by_run).map(Cow::Owned);
        }
        self.steps.iter().find(|step| step.step.as_str() == name).map(Cow::Borrowed)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| step.step.as_str())
    }

    /// Returns the report fields that a script need not set.
    pub(super) fn default_fields(&self) -> BTreeMap<StepId, Fields> {
        let with_fields = self.steps.iter().filter(|step| !step.default_fields.is_empty());
        with_fields.map(|step| (step.step.clone(), step.default_fields.clone())).collect()
    }

    /// Returns the error and hint for `gate_fail` in a step that is not a gate.
    pub(super) fn not_a_gate(&self, step: &StepId) -> (String, &'static str) {
        if self.are_phases() {
            let message = "a peer cycle has no gates".to_owned();
            return (
                message,
                "write `ok: {score: 40}` for an unsuccessful review, `fail` for a phase that fails",
            );
        }
        if self.are_created_by_run {
            let message = "only a workflow has gates".to_owned();
            return (message, "write what it reports: `ok: {report: {FIELD: VALUE}}`");
        }
        let message = format!("step `{step}` has no `loop_back_to`, so it is not a gate");
        (message, "write `fail` for a step that fails, or set `loop_back_to` in the workflow")
    }

    /// Whether the steps are the phases of a peer cycle, whose reports have an `output`.
    pub(super) fn are_phases(&self) -> bool {
        !self.are_created_by_run && self.steps.iter().any(|step| !step.ok_keys.is_empty())
    }
}

impl ScriptStep {
    fn created_by_run(step: StepId) -> Self {
        Self { step, loop_back_to: None, ok_keys: &[REPORT], default_fields: Fields::new() }
    }
}
