//! `steps`, explored: its notation and the shapes of workflows. Its rules are in `rules`.

mod rules;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use protocol::report::{self, Report, SCHEMA};
use protocol::run::Run;
use protocol::run::TurnStatus;
use protocol::steps::decide::{Change as ProtocolChange, State};
use protocol::steps::{
    Definition, DefinitionSource, OnFailure, PERSON, Request, Status, StepSpec, Steps, Verdict, Workflow,
    add_effects,
};
use protocol::{Answer, RunId, StepId, Typed};

use super::{Explored, StepNotation, Transition, Violation};

/// The marks of `steps`.
pub const LEGEND: &str =
    "· pending   ✓ done   ↷ skipped   ✗ failed   ↩ its gate failed, the loop-back is pending
@N after N loop-backs";

/// A workflow: its steps with their needs, and its gates with their targets.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub steps: &'static [(&'static str, &'static [&'static str])],
    pub gates: &'static [(&'static str, &'static str)],
    /// The steps that a person works on.
    pub people: &'static [&'static str],
    /// The steps with a worktree of their own.
    pub worktrees: &'static [&'static str],
}

impl Shape {
    /// Returns whether each step needs the one before it.
    pub fn is_a_line(&self) -> bool {
        self.steps.windows(2).all(|pair| pair[1].1.contains(&pair[0].0))
    }

    /// Returns the definition, with two attempts per step.
    pub fn definition(&self, on_failure: OnFailure, iterations: u32) -> Definition {
        let name = |id: &str| StepId::new(id).expect("BUG: the shapes have safe names");
        let steps = self.steps.iter().map(|(id, needs)| StepSpec {
            needs: needs.iter().map(|need| name(need)).collect(),
            worktree: self.worktrees.contains(id),
            loop_back_to: self.gates.iter().find(|(gate, _)| gate == id).map(|(_, target)| name(target)),
            ..StepSpec::new(name(id), if self.people.contains(id) { PERSON } else { "agent" }, "prompt.md")
        });
        Definition::from(DefinitionSource {
            workflow: Workflow {
                name: self.name.to_owned(),
                description: String::new(),
                metadata: serde_json::Map::new(),
                steps: add_effects(steps.collect()),
            },
            source: String::new(),
            prompts: BTreeMap::new(),
            max_attempts: protocol::rules::DEFAULT_MAX_ATTEMPTS,
            max_iterations: NonZeroU32::new(iterations).expect("BUG: a gate runs at least once"),
            on_failure,
        })
    }
}

impl Explored for Steps {
    fn verdicts(definition: &Definition, _: &State, step: &StepId) -> Vec<Verdict> {
        let step = definition.step(step);
        match step.loop_back_to {
            Some(_) => vec![Verdict::Done, Verdict::GateFailed],
            None if step.is_for_person() => vec![Verdict::Done, Verdict::Rejected],
            None => vec![Verdict::Done],
        }
    }

    fn report(_: &Definition, step: &StepId, verdict: &Verdict) -> Report {
        Report {
            schema: SCHEMA.to_owned(),
            run_id: RunId::new("explored").expect("BUG: the name is safe"),
            step_id: step.clone(),
            agent: "agent".to_owned(),
            status: report::Status::Completed,
            started_at: "2025-06-15T15:00:00.000000Z".to_owned(),
            ended_at: "2025-06-15T15:00:01.000000Z".to_owned(),
            artifacts: vec![format!("{step}.md")],
            metrics: [("lines".to_owned(), "12".to_owned())].into_iter().collect(),
            logs: vec![format!("{step} worked")],
            next_suggested_steps: Vec::new(),
            gate_failure: *verdict == Verdict::GateFailed,
            memory_updates: Vec::new(),
            copy_edits: Default::default(),
            others: serde_json::Map::new(),
        }
    }

    fn answer(_: &Definition, _: &StepId, verdict: &Verdict) -> Answer {
        match verdict {
            Verdict::Done => Answer::Approve,
            Verdict::GateFailed | Verdict::Rejected => Answer::Reject { reason: "too dark".to_owned() },
        }
    }

    /// Starting again multiplies the states, so only workflows with this name are asked to.
    fn requests(definition: &Definition, _: &State) -> Vec<Request> {
        let is_asked = definition.workflow().name.starts_with("restart");
        let steps = definition.step_ids().filter(|_| is_asked);
        steps.cloned().map(Request::StartAt).collect()
    }

    fn say_verdict(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Done => "done".to_owned(),
            Verdict::GateFailed => "gate failed".to_owned(),
            Verdict::Rejected => "rejected".to_owned(),
        }
    }

    fn say_step(_: &Definition, state: &State, step: &StepId) -> StepNotation {
        let mark = if state.skipped.contains(step) {
            "↷"
        } else if state.done.contains(step) {
            "✓"
        } else if state.looping.contains(step) {
            "↩"
        } else if state.failed.contains(step) {
            "✗"
        } else {
            "·"
        };
        let sent_back = state.iteration(step);
        StepNotation { mark, note: if sent_back > 0 { format!("@{sent_back}") } else { String::new() } }
    }

    fn say_change(change: &ProtocolChange) -> String {
        match change {
            ProtocolChange::Done(step) => format!("{step} done"),
            ProtocolChange::Failed(step) => format!("{step} failed"),
            ProtocolChange::GateFailed(step) => format!("gate {step} failed"),
            ProtocolChange::Reset { targets, steps, .. } => {
                let list = |names: &[StepId]| names.iter().map(StepId::as_str).collect::<Vec<_>>().join(" ");
                format!("BACK to {}: reset {}", list(targets), list(steps))
            }
            ProtocolChange::Retried(step) => format!("{step} again"),
            ProtocolChange::Skipped(step) => format!("{step} skipped"),
            ProtocolChange::RestartRequested(step) => format!("restart at {step} requested"),
            ProtocolChange::Restarted { from, .. } => format!("RESTART at {from}"),
        }
    }

    fn compare(run: &Run, Typed { definition, state, document }: &Typed<Self>) -> Vec<String> {
        let steps = definition.step_ids().filter_map(|step| {
            let shown = &document.steps[step.as_str()];
            let active = run.active_turns.get(step).map(|active| active.status);
            let expected = if active.is_some_and(TurnStatus::holds_slot) {
                Status::Running
            } else if active == Some(TurnStatus::Waiting) {
                Status::WaitingOnHuman
            } else if state.skipped.contains(step) {
                Status::Skipped
            } else if state.done.contains(step) || state.looping.contains(step) {
                Status::Completed
            } else if state.failed.contains(step) {
                Status::Failed
            } else {
                Status::Pending
            };
            let same = shown.status == expected && shown.iteration_count == state.iteration(step);
            (!same).then(|| {
                format!("`{step}` is shown as {:?}, iteration {}", shown.status, shown.iteration_count)
            })
        });
        steps.collect()
    }

    fn inspect(definition: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        rules::inspect(definition, transition)
    }
}
