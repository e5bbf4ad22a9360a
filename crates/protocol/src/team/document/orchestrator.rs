//! `orchestrator_state.json`: what the engine did, and why.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::state::{GroupProgress, Stage};
use super::super::step::{PmStep, Role, Step};
use super::{Document, OrchestratorStatus};
use crate::StepId;

impl Document {
    pub(super) fn orchestrator_state(&self) -> Value {
        let active = |(id, since): (&StepId, &crate::Timestamp)| {
            let step = Step::parse(id)?;
            let mut agent = json!({ "agent_type": step.agent(), "spawned_at": since });
            agent["group_id"] = step.group().map_or("", |group| group.as_str()).into();
            Some(agent)
        };
        let agents: Vec<Value> = self.run.active.iter().filter_map(active).collect();
        let mut state = json!({
            "session_id": self.run.session_id,
            "current_phase": self.current_phase(),
            "active_agents": agents,
            "iteration": self.run.iteration,
            "total_spawns": self.run.total_spawns,
            "decisions_log": self.decisions,
            "status": self.run.status,
            "start_time": self.run.start_time,
            "last_update": self.run.last_update,
        });
        if let Some(end) = self.run.end_time {
            state["end_time"] = json!(end);
        }
        state
    }

    /// Returns the original's phase: that of the least advanced group at work.
    pub(in crate::team) fn current_phase(&self) -> &'static str {
        if self.run.status == OrchestratorStatus::Completed {
            return "completed";
        }
        if self.groups.is_empty() {
            return if self.run.total_spawns == 0 { "initialization" } else { "pm_planning" };
        }
        let open: Vec<_> = self.groups.values().filter(|group| !group.is_done()).collect();
        if open.is_empty() {
            return "pm_final_check";
        }
        if open.iter().all(|group| group.progress == GroupProgress::Splitting) {
            return "pm_planning";
        }
        let begun = open.iter().filter(|group| group.has_begun());
        let order = |stage: Stage| match stage {
            Stage::Develop(_) | Stage::Unblock(super::Blocked::Developer) => 0,
            Stage::Test | Stage::Unblock(super::Blocked::Qa | super::Blocked::Flaky) => 1,
            Stage::Review | Stage::Merge | Stage::Complete => 2,
        };
        match begun.map(|group| order(group.stage)).min() {
            None | Some(0) => "developer_working",
            Some(1) => "qa_testing",
            Some(_) => "tech_review",
        }
    }

    /// Returns why a step starts now.
    pub(in crate::team) fn reasoning(&self, step: &Step) -> String {
        match step {
            Step::Pm(PmStep::Plan) if self.groups.is_empty() => "Initial planning phase".to_owned(),
            Step::Pm(PmStep::Plan) => "A person chose to split a group".to_owned(),
            Step::Pm(PmStep::Criteria) => {
                "All groups are merged: the success criteria are checked".to_owned()
            }
            Step::Pm(PmStep::Check) => match &self.run.refusal {
                Some(why) => format!("Completion was refused: {why}"),
                None => "All groups are merged or closed".to_owned(),
            },
            Step::Pm(PmStep::Merge) => "The PM's completion was accepted".to_owned(),
            Step::Pm(PmStep::Decision) | Step::Group(_, Role::Decision) => "A person decides".to_owned(),
            Step::Group(id, role) => {
                let status = self.groups.get(id).map_or("pending", super::GroupPart::status);
                match (role, status) {
                    (Role::Developer, "pending") => {
                        format!("PM decided {} mode with {} groups", self.plan.mode, self.plan.groups.len())
                    }
                    (Role::Developer, "qa_failed") => format!("QA of group {id} failed"),
                    (Role::Developer, "changes_requested") => format!("Changes of group {id} were requested"),
                    (Role::Developer, _) => format!("Developer of group {id} continues"),
                    (Role::Qa, _) => format!("Developer {id} ready for QA"),
                    (Role::TechLead, "dev_blocked" | "qa_testing") => format!("Group {id} is blocked"),
                    (Role::TechLead, _) => format!("Group {id} ready for review"),
                    (Role::Merge | Role::Decision, _) => format!("Tech lead approved group {id}"),
                }
            }
        }
    }
}

/// Returns the original's name for the start of these steps: `spawn_3_developers_parallel`, `spawn_qa_expert_group_A`.
pub(in crate::team) fn spawn_decision(steps: &[Step]) -> String {
    let mut kinds: BTreeMap<&'static str, Vec<&Step>> = BTreeMap::new();
    for step in steps {
        let kind = match step {
            Step::Pm(PmStep::Plan) => "spawn_pm_for_planning",
            Step::Pm(PmStep::Check) => "spawn_pm_for_final_check",
            Step::Pm(PmStep::Criteria) => "run_success_criteria",
            Step::Pm(PmStep::Merge) => "fast_forward_base_branch",
            Step::Pm(PmStep::Decision) | Step::Group(_, Role::Decision) => "ask_person",
            Step::Group(_, Role::Developer) => "developer",
            Step::Group(_, Role::Qa) => "qa_expert",
            Step::Group(_, Role::TechLead) => "tech_lead",
            Step::Group(_, Role::Merge) => "merge",
        };
        kinds.entry(kind).or_default().push(step);
    }
    let name = |(kind, steps): (&&str, &Vec<&Step>)| match (steps.as_slice(), steps[0].group()) {
        ([_], Some(group)) if *kind == "merge" => format!("merge_group_{group}"),
        ([_], Some(group)) => format!("spawn_{kind}_group_{group}"),
        (_, None) => (*kind).to_owned(),
        (steps, Some(_)) if *kind == "merge" => format!("merge_{}_groups", steps.len()),
        (steps, Some(_)) => format!("spawn_{}_{kind}s_parallel", steps.len()),
    };
    kinds.iter().map(name).collect::<Vec<_>>().join("_and_")
}
