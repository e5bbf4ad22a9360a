//! How a transition of the cycle changes the document.

use serde_json::json;

use super::{Recorder, STOPPED};
use crate::cycle::decide::{AnsweredBy, Change};
use crate::cycle::document::parts::feedback_part;
use crate::cycle::document::{
    Agent, AgentStatus, Blocker, BlockerStatus, Decision, DecisionStatus, Feedback, FeedbackKind, Iteration,
    IterationFindings, Phase, Status, TaskStatus,
};
use crate::cycle::report;
use crate::cycle::state::{Finding, Stage};
use crate::cycle::step::{RaisedItem, Role, Step, needed_by};
use crate::entry::Author;
use crate::people::Answer;

impl Recorder<'_> {
    pub(super) fn apply_transition(&mut self, change: &Change) {
        match change {
            Change::IterationOpened { number, extension, .. } => self.open_iteration(*number, *extension),
            Change::LimitRaised { to } => self.document.master_file.max_iterations = *to,
            Change::Extended => {
                let text = self.extension.unwrap_or_default().to_owned();
                self.document.engine.extensions.push(text);
            }
            Change::Raised { item, needed_by } => self.raise(*item, *needed_by),
            Change::Answered { item, by } => self.answer(*item, *by),
            Change::Implemented { item } => {
                if let Some(decision) = self.decision(*item) {
                    decision.status = DecisionStatus::Implemented;
                }
            }
            Change::PhaseDone { stage } => self.end_phase(*stage),
            Change::Repeated { step } => {
                if let Some(role) = step.role() {
                    self.set_agent_unless_running(role, AgentStatus::Waiting);
                }
                if let Step::Task(task) = step {
                    self.set_task(task.as_str(), TaskStatus::Pending);
                }
            }
            Change::TaskCoded { task, complete: false } => self.set_task(task.as_str(), TaskStatus::Pending),
            Change::TaskMerged { task } => {
                let plan = self.document.master_file.plan.as_ref();
                let known = plan.and_then(|plan| plan.tasks.iter().find(|known| known.id == task.as_str()));
                if known.is_some_and(|task| task.status == TaskStatus::InProgress) {
                    self.set_task(task.as_str(), TaskStatus::Completed);
                }
            }
            Change::TaskMergeFailed { task } => {
                self.set_task(task.as_str(), TaskStatus::Pending);
                let logs =
                    self.evidence.and_then(|evidence| evidence.report.as_ref()).map(|report| &report.logs);
                let text = logs.map(|logs| logs.join("\n")).unwrap_or_default();
                let content = format!("The branch of {task} could not be merged. {text}");
                self.add_feedback("engine", Role::Developer, content, FeedbackKind::IssueFix);
            }
            Change::Found { finding } => self.record_finding(*finding),
            Change::IterationClosed { resolved } => self.close_iteration(*resolved),
            Change::Completed => {
                self.document.master_file.current_phase = Phase::Complete;
                self.write_summary();
            }
            Change::FastForwarding => self.document.master_file.current_phase = Phase::Complete,
            Change::Failed { step } => {
                let error = self.document.step(step).and_then(|step| step.error.clone());
                let error = error.unwrap_or_else(|| "no attempts left".to_owned());
                self.document.master_file.failure_reason = Some(format!("`{step}` failed: {error}"));
                if let Some(role) = step.role() {
                    self.set_result(role, "failed", None);
                }
            }
            Change::Stopped => self.document.master_file.failure_reason = Some(STOPPED.to_owned()),
            Change::TasksPlanned { .. }
            | Change::TaskAsked { .. }
            | Change::TaskCoded { complete: true, .. }
            | Change::OverlapStepEnded { .. }
            | Change::Tested
            | Change::Retried => {}
        }
    }

    fn open_iteration(&mut self, number: u32, extended: bool) {
        let time = self.time.clone();
        self.carry_feedback(number);
        let state = &mut self.document.master_file;
        state.current_iteration = number;
        state.current_phase = Phase::Requirements;
        state.completed_phases.clear();
        if state.status == Status::Created {
            state.status = Status::Running;
        }
        for role in Role::ALL {
            let agent = state.agents.of_mut(role);
            let (iterations_completed, unknown) =
                (agent.iterations_completed, std::mem::take(&mut agent.unknown));
            *agent = Agent { iterations_completed, unknown, ..Agent::default() };
        }
        let extension = match extended && !self.document.engine.extensions.is_empty() {
            true => Some(self.document.engine.extensions.remove(0)),
            false => None,
        };
        self.document.master_file.iterations.push(Iteration {
            number,
            extension: extension.clone(),
            started_at: time,
            ..Iteration::default()
        });
        if let Some(text) = extension {
            let state = &mut self.document.master_file;
            state.description = format!("{}\n\n--- ITERATION {number} ---\n{text}", state.description);
            state.task_history.push(text.clone());
            self.add_feedback("user", Role::Analyst, text, FeedbackKind::RequirementUpdate);
        }
        // The sources are roles of the original: `vas` validates, `cd` codes.
        let IterationFindings { failing_tests, open_issues, plan_gaps } =
            std::mem::take(&mut self.document.engine.findings);
        for test in failing_tests {
            self.add_feedback("vas", Role::Developer, test, FeedbackKind::BugReport);
        }
        for issue in open_issues {
            self.add_feedback("cd", Role::Analyst, issue, FeedbackKind::Clarification);
        }
        for gap in plan_gaps {
            self.add_feedback("cd", Role::Planner, gap, FeedbackKind::IssueFix);
        }
        self.document.engine.checks.clear();
    }

    /// Moves feedback whose target did not finish its phase, because the iteration failed before, to the iteration that
    /// begins.
    fn carry_feedback(&mut self, to: u32) {
        let state = &mut self.document.master_file;
        for (index, entry) in state.coordination.feedback_log.iter_mut().enumerate() {
            if entry.iteration == Some(state.current_iteration)
                && !state.completed_phases.contains(&entry.target)
            {
                entry.iteration = Some(to);
                self.parts.insert(feedback_part(index));
            }
        }
    }

    /// Adds an entry to `feedback_log`: the only way in which prompts get findings and answers.
    pub(super) fn add_feedback(&mut self, source: &str, target: Role, content: String, kind: FeedbackKind) {
        let state = &mut self.document.master_file;
        // The target has reported already, so its next turn is in the next iteration.
        let is_over = state.completed_phases.iter().any(|phase| phase == target.as_str());
        let iteration = state.current_iteration + u32::from(is_over);
        let log = &mut state.coordination.feedback_log;
        self.parts.insert(feedback_part(log.len()));
        log.push(Feedback {
            timestamp: self.time.clone(),
            source: source.to_owned(),
            target: target.to_string(),
            content,
            kind,
            iteration: Some(iteration),
            ..Feedback::default()
        });
    }

    /// Adds the next decision or blocker of the report to the document. One entry raises all of them, decisions first.
    fn raise(&mut self, item: RaisedItem, needed_by: Role) {
        let index = self.raised;
        self.raised += 1;
        let Some(report) = self.evidence.and_then(|evidence| evidence.report.as_ref()) else { return };
        let Some(step) = Step::parse(&report.step_id) else { return };
        // Without the edits of private copies: they are patches of the document before this report changed it.
        let Ok(Some(agent_report)) = report::fields(&step, report) else { return };
        let common = agent_report.common();
        let raised_by = step.role().map_or_else(|| step.to_string(), |role| role.to_string());
        let iteration = self.document.master_file.current_iteration;
        let coordination = &mut self.document.master_file.coordination;
        match item {
            RaisedItem::Decision(_) => {
                let Some(decision) = common.decisions.get(index) else { return };
                let unknown = json!({
                    "recommended": decision.recommended, "needed_by": needed_by, "raised_by": raised_by,
                    "iteration": iteration,
                });
                let mut unknown = unknown.as_object().cloned().unwrap_or_default();
                unknown.retain(|_, value| !value.is_null());
                coordination.pending_decisions.push(Decision {
                    id: item.id(),
                    description: decision.description.clone(),
                    options: decision.options.clone(),
                    unknown,
                    ..Decision::default()
                });
            }
            RaisedItem::Blocker(_) => {
                let Some(blocker) = common.blockers.get(index - common.decisions.len().min(index)) else {
                    return;
                };
                let unknown = json!({ "needed_by": needed_by, "iteration": iteration });
                coordination.blockers.push(Blocker {
                    id: item.id(),
                    description: blocker.description().to_owned(),
                    reported_by: raised_by,
                    unknown: unknown.as_object().cloned().unwrap_or_default(),
                    ..Blocker::default()
                });
            }
        }
    }

    fn decision(&mut self, item: RaisedItem) -> Option<&mut Decision> {
        let decisions = &mut self.document.master_file.coordination.pending_decisions;
        decisions.iter_mut().find(|decision| decision.id == item.id())
    }

    fn answer(&mut self, item: RaisedItem, by: AnsweredBy) {
        let answer = self.evidence.and_then(|evidence| evidence.answer.as_ref());
        let person = match self.by {
            Author::Person { name, .. } => name.clone(),
            Author::Engine { .. } | Author::BucketClient { .. } => "user".to_owned(),
        };
        let (source, made_by) = match by {
            AnsweredBy::Person => ("user", person),
            AnsweredBy::Auto => ("auto", "auto".to_owned()),
        };
        let (target, content) = match item {
            RaisedItem::Decision(_) => {
                let Some(decision) = self.decision(item) else { return };
                let chosen = match answer {
                    Some(Answer::Choose { option, .. }) => option.clone(),
                    Some(Answer::Text { text }) => text.clone(),
                    Some(
                        Answer::Approve { .. }
                        | Answer::Reject { .. }
                        | Answer::Resolve { .. }
                        | Answer::Workaround { .. },
                    )
                    | None => {
                        let recommended =
                            decision.unknown.get("recommended").and_then(|option| option.as_str());
                        let chosen = recommended.or(decision.options.first().map(String::as_str));
                        chosen.unwrap_or_default().to_owned()
                    }
                };
                let reason = match answer {
                    Some(Answer::Choose { reason: Some(reason), .. }) => format!(" ({reason})"),
                    Some(_) | None => String::new(),
                };
                decision.status = DecisionStatus::Made;
                decision.made_by = Some(made_by);
                decision.chosen_option = Some(chosen.clone());
                let content = format!("{}: {} → {chosen}{reason}", decision.id, decision.description);
                (needed_by(&decision.unknown), content)
            }
            RaisedItem::Blocker(_) => {
                let blockers = &mut self.document.master_file.coordination.blockers;
                let Some(blocker) = blockers.iter_mut().find(|blocker| blocker.id == item.id()) else {
                    return;
                };
                let (status, word) = match answer {
                    Some(Answer::Workaround { .. }) => (BlockerStatus::Workaround, "work around it"),
                    Some(_) | None => (BlockerStatus::Resolved, "resolved"),
                };
                let text = answer.and_then(Answer::text);
                blocker.status = status;
                blocker.resolution = Some(text.unwrap_or(word).to_owned());
                let detail = text.map(|text| format!(": {text}")).unwrap_or_default();
                let content = format!("{}: {} → {word}{detail}", blocker.id, blocker.description);
                (needed_by(&blocker.unknown), content)
            }
        };
        self.log_decision(&content, source);
        self.add_feedback(source, target, content, FeedbackKind::Clarification);
    }

    /// Ends the phase before the stage `next`.
    fn end_phase(&mut self, next: Stage) {
        let (role, phase) = match next {
            Stage::Planning => (Role::Analyst, Phase::Planning),
            Stage::Coding => (Role::Planner, Phase::Coding),
            Stage::Test | Stage::Validation => (Role::Developer, Phase::Validation),
            Stage::Aggregation => (Role::Validator, Phase::Aggregation),
            Stage::Created | Stage::Requirements | Stage::FastForward | Stage::Complete => return,
        };
        let time = self.time.clone();
        let state = &mut self.document.master_file;
        state.current_phase = phase;
        if !state.completed_phases.iter().any(|done| done == role.as_str()) {
            state.completed_phases.push(role.to_string());
        }
        let agent = state.agents.of_mut(role);
        agent.status = AgentStatus::Completed;
        agent.completed_at = Some(time);
        agent.iterations_completed += 1;
        match role {
            Role::Analyst | Role::Planner => self.set_agent_unless_running(role.next(), AgentStatus::Waiting),
            Role::Developer => {
                self.set_agent_unless_running(role.next(), AgentStatus::Waiting);
                self.mark_end_of_coding();
            }
            Role::Validator => {}
        }
    }

    fn record_finding(&mut self, finding: Finding) {
        let summary = self.evidence.and_then(|evidence| {
            let report = evidence.report.as_ref()?;
            report
                .extra_fields
                .get("summary")
                .and_then(|summary| summary.as_str())
                .or(report.logs.last().map(String::as_str))
        });
        let summary = summary.unwrap_or("no summary").to_owned();
        let is_planning = self.document.master_file.current_phase == Phase::Planning;
        let open = self.document.master_file.plan.iter().flat_map(|plan| &plan.tasks);
        let open = open.filter(|task| task.status != TaskStatus::Completed);
        let gaps: Vec<_> =
            open.map(|task| format!("{} is not completed: {}", task.id, task.description)).collect();
        let findings = &mut self.document.engine.findings;
        match finding {
            Finding::IncompletePlan if is_planning || gaps.is_empty() => {
                findings.plan_gaps.push(format!("the plan is partial: {summary}"));
            }
            Finding::IncompletePlan => findings.plan_gaps.extend(gaps),
            Finding::FailingTests if findings.failing_tests.is_empty() => {
                findings.failing_tests.push(format!("the validation is partial: {summary}"));
            }
            Finding::FailingTests => {}
            Finding::OpenIssues if findings.open_issues.is_empty() => findings.open_issues.push(summary),
            Finding::OpenIssues => {}
        }
    }

    fn close_iteration(&mut self, resolved: bool) {
        let time = self.time.clone();
        let coordination = &self.document.master_file.coordination;
        let decisions = coordination.pending_decisions.iter();
        let decisions = decisions.filter(|decision| decision.status == DecisionStatus::Pending);
        let decisions =
            decisions.map(|decision| format!("{} is not made: {}", decision.id, decision.description));
        let blockers = coordination.blockers.iter().filter(|blocker| blocker.status == BlockerStatus::Open);
        let blockers = blockers.map(|blocker| format!("{} is open: {}", blocker.id, blocker.description));
        let mut issues: Vec<_> = self.document.engine.findings.all().cloned().collect();
        issues.extend(decisions.chain(blockers));
        if let Some(reason) = &self.document.master_file.failure_reason {
            issues.push(reason.clone());
        }
        if let Some(iteration) = self.document.iteration_mut() {
            iteration.completed_at = Some(time);
            iteration.issues_found = issues;
            iteration.resolved = resolved;
        }
        self.append_timeline();
    }
}
