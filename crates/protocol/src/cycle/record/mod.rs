//! Records an entry in the document: how the JSON and the files of a cycle change with each commit.

mod files;
mod sections;
mod transitions;

use std::collections::BTreeSet;

use super::Cycle;
use super::decide::Request;
use super::document::parts::{ENGINE, HEAD, PLAN};
use super::document::{AgentStatus, Document, IterationStep, PhaseError, Status, TaskStatus};
use super::step::{Role, Step};
use crate::entry::{Author, Entry, Evidence, Input, RecoverySource};
use crate::protocol_trait::Outcome;
use crate::run::{self, AttemptConsequence, Change, RunStatus, RunStopCause};
use crate::{StepId, StepRecord, StepRecordStatus, Timestamp};

/// The `failure_reason` of a cycle that a user has stopped.
pub(super) const STOPPED: &str = "manually stopped by user";

/// A document while an entry is applied to it.
struct Recorder<'a> {
    document: &'a mut Document,
    /// The parts that have changed so far.
    parts: BTreeSet<String>,
    /// The time of the entry, as the document writes it.
    time: String,
    /// The time of the entry.
    at: Timestamp,
    by: &'a Author,
    evidence: Option<&'a Evidence>,
    /// The text of the extension, if the entry is a `callboard extend`.
    extension: Option<&'a str>,
    /// How many decisions and blockers of the report were added to the document so far: the index of the next one.
    raised: usize,
}

/// Applies an entry to the document and returns the parts that changed.
pub(super) fn record(document: &mut Document, entry: &Entry<Cycle>) -> Vec<String> {
    let time = document.time(entry.at);
    let extension = match &entry.input {
        Input::Request { request: run::Request::Protocol(Request::Extend { text, .. }), .. } => {
            Some(text.as_str())
        }
        Input::Request { .. }
        | Input::Opened { .. }
        | Input::Fact { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => None,
    };
    // Every entry changes both. `HEAD` has the small fields of the master file; it is not git's.
    let parts = BTreeSet::from([HEAD.to_owned(), ENGINE.to_owned()]);
    let mut recorder = Recorder {
        document,
        parts,
        time,
        at: entry.at,
        by: &entry.by,
        evidence: entry.input.evidence(),
        extension,
        raised: 0,
    };
    recorder.document.master_file.updated_at.clone_from(&recorder.time);
    match entry.input {
        Input::Opened { .. } => {
            recorder.document.master_file.created_at.clone_from(&recorder.time);
            recorder.document.engine.created_at = entry.at;
            let paths = recorder.document.part_paths();
            recorder.parts.extend(paths);
        }
        Input::Recovered { .. }
        | Input::Fact { .. }
        | Input::Request { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred => {}
    }
    for change in &entry.changes {
        recorder.apply(change);
    }
    if let Input::Recovered { source: RecoverySource::View { document: found, .. } } = &entry.input {
        super::import::replace_master_file(recorder.document, found);
        let paths = recorder.document.part_paths();
        recorder.parts.extend(paths);
    }
    recorder.parts.into_iter().collect()
}

impl Recorder<'_> {
    fn apply(&mut self, change: &Change<super::Change>) {
        match change {
            Change::Status { status } => self.set_status(*status),
            Change::Queued { step, .. } => {
                self.record_step(change);
                if let Some(role) = agent_of(step) {
                    self.set_agent_unless_running(role, AgentStatus::Waiting);
                }
            }
            Change::Waiting { .. } | Change::Answered { .. } => self.record_step(change),
            Change::Started { attempt, .. } => {
                self.record_step(change);
                self.start(&attempt.step);
            }
            Change::Ended { attempt, consequence, .. } => {
                self.record_step(change);
                self.end(&attempt.step, *consequence);
            }
            Change::Dequeued { step } => {
                self.record_step(change);
                if let Some(role) = agent_of(step) {
                    self.set_agent_unless_running(role, AgentStatus::Idle);
                }
            }
            Change::Protocol { transition } => self.apply_transition(transition),
            Change::BackoffElapsed { .. } | Change::StopRequested { .. } => {}
        }
    }

    fn set_status(&mut self, status: RunStatus) {
        let state = &mut self.document.master_file;
        match status {
            RunStatus::Running => {
                if let (Status::Completed | Status::Failed, ended) = (state.status, state.completed_at.take())
                {
                    let reason = state.failure_reason.take().unwrap_or_else(|| "completed".to_owned());
                    let line = format!("{} (ended {})", reason, ended.unwrap_or_default());
                    self.document.engine.reopened.push(line);
                }
                self.document.master_file.status = Status::Running;
            }
            RunStatus::Paused => state.status = Status::Paused,
            RunStatus::Stopping(RunStopCause::EngineInterrupted | RunStopCause::Requested)
            | RunStatus::Stopped(RunStopCause::EngineInterrupted | RunStopCause::Requested) => {}
            RunStatus::Draining(outcome) | RunStatus::Finishing(outcome) | RunStatus::Finished(outcome) => {
                state.status = match outcome {
                    Outcome::Succeeded | Outcome::Incomplete => Status::Completed,
                    Outcome::Failed => Status::Failed,
                };
                state.completed_at.get_or_insert_with(|| self.time.clone());
                // A failure without a reason is a stop: every other failure has set its reason before.
                if outcome == Outcome::Failed {
                    state.failure_reason.get_or_insert_with(|| STOPPED.to_owned());
                }
            }
        }
    }

    fn record_step(&mut self, change: &Change<super::Change>) {
        let Some(step) = change.step() else { return };
        let error = self.evidence.and_then(|evidence| evidence.error.clone());
        let iteration = self.document.master_file.current_iteration;
        let new = || IterationStep { iteration, record: StepRecord::default() };
        let found = self.document.engine.steps.entry(step.clone()).or_insert_with(new);
        if let Change::Queued { .. } = change {
            found.iteration = iteration;
        }
        found.record.record(change, error, self.at);
    }

    fn start(&mut self, id: &StepId) {
        let time = self.time.clone();
        if let Some(Step::Task(task)) = Step::parse(id) {
            self.set_task(task.as_str(), TaskStatus::InProgress);
        }
        let Some(role) = agent_of(id) else { return };
        let agent = self.document.master_file.agents.of_mut(role);
        if agent.status != AgentStatus::Running {
            agent.started_at = Some(time);
        }
        agent.status = AgentStatus::Running;
        agent.completed_at = None;
        agent.error = None;
        self.set_result(role, "running", None);
    }

    fn end(&mut self, id: &StepId, consequence: AttemptConsequence) {
        let error = self.evidence.and_then(|evidence| evidence.error.clone());
        let agent_status = match consequence {
            AttemptConsequence::Reported
            | AttemptConsequence::WillRetry { .. }
            | AttemptConsequence::Interrupted { .. } => AgentStatus::Waiting,
            AttemptConsequence::Exhausted => AgentStatus::Failed,
            AttemptConsequence::Stopped
            | AttemptConsequence::Released
            | AttemptConsequence::FailedWhileDraining => AgentStatus::Idle,
        };
        let Some(step) = Step::parse(id) else { return };
        if consequence == AttemptConsequence::Exhausted {
            let phase = step.role().map_or_else(|| id.to_string(), |role| role.to_string());
            let error = error.clone().unwrap_or_else(|| "no attempts left".to_owned());
            let error = if phase == id.as_str() { error } else { format!("{id}: {error}") };
            let timestamp = self.time.clone();
            self.document.master_file.phase_errors.push(PhaseError {
                phase,
                error,
                timestamp,
                unknown: serde_json::Map::new(),
            });
        }
        if let Some(role) = agent_of(id) {
            let still_runs = self.document.engine.steps.iter().any(|(other, step)| {
                step.record.status == StepRecordStatus::Running && agent_of(other) == Some(role)
            });
            let agent = self.document.master_file.agents.of_mut(role);
            if !still_runs {
                agent.status = agent_status;
            }
            if consequence != AttemptConsequence::Reported {
                agent.error = error;
            }
            match consequence {
                AttemptConsequence::Reported
                | AttemptConsequence::WillRetry { .. }
                | AttemptConsequence::Interrupted { .. } => {}
                AttemptConsequence::Exhausted => self.set_result(role, "failed", None),
                AttemptConsequence::Stopped
                | AttemptConsequence::Released
                | AttemptConsequence::FailedWhileDraining => {
                    self.set_result(role, "stopped", None);
                }
            }
        }
        if let (AttemptConsequence::Reported, Some(report)) =
            (consequence, self.evidence.and_then(|evidence| evidence.report.as_ref()))
        {
            self.record_report(&step, report);
        }
    }

    fn set_agent_unless_running(&mut self, role: Role, status: AgentStatus) {
        let agent = self.document.master_file.agents.of_mut(role);
        if agent.status != AgentStatus::Running {
            agent.status = status;
        }
    }

    /// Sets the status of an agent in `agent_results` of this iteration, and how many files it has changed.
    fn set_result(&mut self, role: Role, status: &str, files: Option<u64>) {
        let Some(iteration) = self.document.iteration_mut() else { return };
        let result = iteration.agent_results.entry(role.to_string()).or_default();
        status.clone_into(&mut result.status);
        if let Some(files) = files {
            result.files_modified = files;
        }
    }

    fn set_task(&mut self, id: &str, status: TaskStatus) {
        let plan = self.document.master_file.plan.as_mut();
        if let Some(task) = plan.and_then(|plan| plan.tasks.iter_mut().find(|task| task.id == id)) {
            task.status = status;
            task.assigned_to = Some(Role::Developer.to_string());
            self.parts.insert(PLAN.to_owned());
        }
    }
}

/// Returns the agent that a step keeps busy; `None` for what the engine or a person does.
fn agent_of(step: &StepId) -> Option<Role> {
    match Step::parse(step)? {
        Step::Merge(_) | Step::Answer(_) | Step::FastForward => None,
        step @ (Step::Phase(_) | Step::Explore | Step::Baseline | Step::Test | Step::Task(_)) => step.role(),
    }
}
