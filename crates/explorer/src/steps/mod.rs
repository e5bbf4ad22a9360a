//! `steps`, explored: its notation and the shapes of workflows. Its rules are in `rules`.

mod rules;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use protocol::checks::{CHECKS_FIELD, CheckResult, CheckSpec};
use protocol::report::{self, Report, SCHEMA};
use protocol::run::Run;
use protocol::run::TurnStatus;
use protocol::steps::{
    Change as ProtocolChange, DataLoop, Definition, Document, EXISTING, ITEMS, ItemsSource, OnFailure,
    PERSON, Phase, Request, State, Status, StepCheck, StepSpec, Steps, StoredDefinition, Verdict, When,
    Workflow, add_effect_steps,
};
use protocol::{Answer, Protocol as _, RunId, StepId, TypedMachine};

use super::{Explored, StepNotation, Transition, Violation};

/// The meaning of the symbols in tables of `steps`.
pub const LEGEND: &str =
    "· pending   ✓ done   ↷ skipped   ✗ failed   ↩ its gate failed, the loop-back is pending
in the phase: c conditions   i list of items   ≡ work on items   w work   k checks   a approval   A approved
@N after N loop-backs   !N its checks have failed N times";

/// The outline of a workflow: its steps with their needs, and its gates with their targets.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    pub steps: &'static [(&'static str, &'static [&'static str])],
    pub gates: &'static [(&'static str, &'static str)],
    /// The steps that a person works on.
    pub people: &'static [&'static str],
    /// The steps with a worktree of their own.
    pub worktrees: &'static [&'static str],
    /// What else the steps have, by their ids.
    pub extras: &'static [(&'static str, Extra)],
}

/// What a step has besides its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// `human_in_the_loop`
    Approval,
    /// `gates`
    Conditions,
    /// `when` with an artifact
    When,
    /// `checks`
    Checks,
    /// `loop` with a list from a file, and the number of items that are worked on at once
    Items(u32),
    /// `loop` with the items of this other step
    With(&'static str),
}

impl Shape {
    /// Returns whether each step needs the one before it.
    pub fn is_a_line(&self) -> bool {
        self.steps.windows(2).all(|pair| pair[1].1.contains(&pair[0].0))
    }

    /// Returns the definition, with two attempts per step.
    pub fn definition(&self, on_failure: OnFailure, iterations: u32) -> Definition {
        let step_id = |id: &str| StepId::new(id).expect("BUG: the shapes have safe names");
        let has = |id: &str, extra: Extra| self.extras.contains(&(id, extra));
        let steps = self.steps.iter().map(|(id, needs)| StepSpec {
            human_in_the_loop: has(id, Extra::Approval),
            data_loop: self.extras.iter().filter(|(step, _)| step == id).find_map(|(_, extra)| match extra {
                Extra::Items(parallel) => Some(DataLoop {
                    parallel: NonZeroU32::new(*parallel).expect("BUG: at least one item at once"),
                    ..DataLoop::new(ItemsSource::Artifact("items.json".to_owned()))
                }),
                Extra::With(items_owner) => Some(DataLoop::new(ItemsSource::With(step_id(items_owner)))),
                Extra::Approval | Extra::Conditions | Extra::When | Extra::Checks => None,
            }),
            checks: if has(id, Extra::Checks) { vec![StepCheck::Command(check())] } else { Vec::new() },
            when: if has(id, Extra::When) { vec![When::Artifact("flag".to_owned())] } else { Vec::new() },
            gates: if has(id, Extra::Conditions) { vec!["ci".to_owned()] } else { Vec::new() },
            needs: needs.iter().map(|need| step_id(need)).collect(),
            worktree: self.worktrees.contains(id),
            loop_back_to: self.gates.iter().find(|(gate, _)| gate == id).map(|(_, target)| step_id(target)),
            ..StepSpec::new(step_id(id), if self.people.contains(id) { PERSON } else { "agent" }, "prompt.md")
        });
        Definition::from(StoredDefinition {
            workflow: Workflow {
                name: self.name.to_owned(),
                description: String::new(),
                metadata: serde_json::Map::new(),
                steps: add_effect_steps(steps.collect()),
            },
            source: String::new(),
            prompts: BTreeMap::new(),
            max_attempts: protocol::protocol_trait::DEFAULT_MAX_ATTEMPTS,
            max_iterations: NonZeroU32::new(iterations).expect("BUG: a gate runs at least once"),
            on_failure,
            gate_state_file: Some("/gates.json".to_owned()),
            memory: Default::default(),
            report_schema: None,
        })
    }
}

/// The check of the steps with [`Extra::Checks`].
fn check() -> CheckSpec {
    CheckSpec { name: "test".to_owned(), command: vec!["true".to_owned()], timeout: Duration::from_secs(1) }
}

/// Returns the items of the document with their statuses.
fn items_of(document: &Document) -> impl Iterator<Item = (StepId, Status)> {
    document.items.iter().map(|(id, item)| (StepId::new(id).expect("BUG: an item has an id"), item.status))
}

impl Explored for Steps {
    fn verdicts(definition: &Definition, state: &State, step: &StepId) -> Vec<Verdict> {
        let phase = state.phase(definition, step);
        let step = definition.step(step);
        let asks_person = match phase {
            Phase::Conditions | Phase::WorkOnItems => return vec![Verdict::Done],
            Phase::When => return vec![Verdict::Done, Verdict::Skip],
            Phase::ReadItems => return vec![Verdict::Items(0), Verdict::Items(2)],
            Phase::Approval | Phase::Approved => true,
            Phase::Work => step.is_for_person(),
            Phase::Checks if step.loop_back_to.is_none() => {
                return vec![Verdict::Done, Verdict::ChecksFailed];
            }
            Phase::Checks => false,
        };
        match step.loop_back_to {
            Some(_) => vec![Verdict::Done, Verdict::GateFailed],
            None if asks_person => vec![Verdict::Done, Verdict::Rejected],
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
            extra_fields: serde_json::Map::new(),
        }
    }

    fn report_in_state(definition: &Definition, state: &State, step: &StepId, verdict: &Verdict) -> Report {
        let mut report = Self::report(definition, step, verdict);
        if let Verdict::Items(count) = verdict {
            let items: Vec<_> = (0..*count).collect();
            report.extra_fields.insert(ITEMS.to_owned(), serde_json::json!(items));
        }
        if state.phase(definition, step) == Phase::When && *verdict == Verdict::Done {
            report.extra_fields.insert(EXISTING.to_owned(), serde_json::json!(["flag"]));
        }
        if state.phase(definition, step) == Phase::Checks {
            let result = CheckResult {
                name: check().name,
                command: check().command,
                exit_code: Some(i32::from(*verdict != Verdict::Done)),
                error: None,
                duration_ms: 1,
                tree: None,
                output_digest: String::new(),
                output: "one test failed".to_owned(),
                log: None,
            };
            report.extra_fields.insert(CHECKS_FIELD.to_owned(), serde_json::json!([result]));
            report.agent = "callboard".to_owned();
        }
        report
    }

    fn answer_in_state(definition: &Definition, state: &State, step: &StepId, verdict: &Verdict) -> Answer {
        match verdict {
            Verdict::Done if state.phase(definition, step) == Phase::Conditions => {
                Answer::Resolve { text: None }
            }
            Verdict::Done => Answer::Approve { text: None },
            Verdict::Items(_) | Verdict::Skip => Answer::Resolve { text: None },
            Verdict::GateFailed | Verdict::Rejected | Verdict::ChecksFailed => {
                Answer::Reject { reason: "too dark".to_owned() }
            }
        }
    }

    /// Restarts multiply the states, so only workflows whose name begins with `restart` are restarted.
    fn requests(definition: &Definition, _: &State) -> Vec<Request> {
        let may_restart = definition.workflow().name.starts_with("restart");
        let steps = definition.step_ids().filter(|_| may_restart);
        steps.cloned().map(Request::StartAt).collect()
    }

    fn describe_verdict(verdict: &Verdict) -> String {
        match verdict {
            Verdict::Done => "done".to_owned(),
            Verdict::GateFailed => "gate failed".to_owned(),
            Verdict::Rejected => "rejected".to_owned(),
            Verdict::ChecksFailed => "red".to_owned(),
            Verdict::Items(count) => format!("{count} items"),
            Verdict::Skip => "not to run".to_owned(),
        }
    }

    fn describe_step(_: &Definition, state: &State, step: &StepId) -> StepNotation {
        let symbol = if state.skipped.contains(step) {
            "↷"
        } else if state.done.contains(step) {
            "✓"
        } else if state.gates_looping_back.contains(step) {
            "↩"
        } else if state.failed.contains(step) {
            "✗"
        } else {
            match state.phases.get(step) {
                None => "·",
                Some(Phase::When) => "?",
                Some(Phase::Conditions) => "c",
                Some(Phase::Work) => "w",
                Some(Phase::ReadItems) => "i",
                Some(Phase::WorkOnItems) => "≡",
                Some(Phase::Checks) => "k",
                Some(Phase::Approval) => "a",
                Some(Phase::Approved) => "A",
            }
        };
        let loop_backs = state.loop_backs(step);
        let mut note = if loop_backs > 0 { format!("@{loop_backs}") } else { String::new() };
        if state.failed_check_turns(step) > 0 {
            note.push_str(&format!("!{}", state.failed_check_turns(step)));
        }
        StepNotation { symbol, note }
    }

    fn describe_change(change: &ProtocolChange) -> String {
        match change {
            ProtocolChange::Done(step) => format!("{step} done"),
            ProtocolChange::Items { step, count } => format!("{step} has {count} items"),
            ProtocolChange::ChecksFailed(step) => format!("checks of {step} failed"),
            ProtocolChange::Entered { step, phase } => format!("{step} begins {phase:?}"),
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

    fn document_differences(
        run: &Run,
        TypedMachine { definition, state, document }: &TypedMachine<Self>,
    ) -> Vec<String> {
        let steps = Steps::steps(definition, state);
        let steps = steps.iter().filter_map(|step| {
            let Some(shown) = document.step(step.as_str()) else {
                return Some(format!("`{step}` is not in the document"));
            };
            let active = run.active_turns.get(step).map(|active| active.status);
            let phase = state.phase(definition, step);
            let is_over = state.done.contains(step)
                || state.failed.contains(step)
                || state.gates_looping_back.contains(step);
            let items_status = (!is_over && phase == Phase::WorkOnItems).then(|| {
                let is_of_step = |item: &StepId| {
                    definition.item_of(item).is_some_and(|(looped_step, _)| looped_step == step)
                };
                let items: Vec<_> = items_of(document)
                    .filter(|(item, _)| is_of_step(item))
                    .map(|(_, status)| status)
                    .collect();
                let statuses = [Status::Failed, Status::WaitingOnHuman, Status::Running];
                statuses.into_iter().find(|status| items.contains(status)).unwrap_or(Status::Pending)
            });
            let expected = if let Some(status) = items_status {
                status
            } else if (active.is_some_and(TurnStatus::has_live_attempt) && phase != Phase::When)
                || (phase == Phase::Approved && !is_over)
            {
                Status::Running
            } else if active == Some(TurnStatus::Waiting) && phase != Phase::Conditions {
                Status::WaitingOnHuman
            } else if state.skipped.contains(step) {
                Status::Skipped
            } else if state.done.contains(step) || state.gates_looping_back.contains(step) {
                Status::Completed
            } else if state.failed.contains(step) {
                Status::Failed
            } else {
                Status::Pending
            };
            let is_right = shown.status == expected && shown.iteration_count == state.loop_backs(step);
            (!is_right).then(|| {
                format!("`{step}` is shown as {:?}, iteration {}", shown.status, shown.iteration_count)
            })
        });
        steps.collect()
    }

    fn check_rules(definition: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        rules::inspect(definition, transition)
    }
}
