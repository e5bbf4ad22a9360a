//! Records entries in the document.

mod reports;

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::Team;
use super::decide::Change as TeamChange;
use super::definition::{Definition, GroupId};
use super::document::{
    Blocker, DecisionEntry, Document, GroupPart, Mailbox, OrchestratorStatus, decision_part_path,
    group_part_path, imported_part_path, plan_part_path, run_part_path, spawn_decision,
};
use super::import;
use super::report::{copies, verdicts};
use super::state::{GroupProgress, Stage};
use super::step::{Choice, Role, Step};
use crate::entry::{Entry, Evidence, Input, RecoverySource};
use crate::protocol_trait::Outcome;
use crate::run::{Change, Ending, Fact, RunStatus};
use crate::{StepRecord, StepRecordStatus, Timestamp, Turn};

/// One entry while it is recorded.
struct Recorder<'a> {
    definition: &'a Definition,
    document: &'a mut Document,
    at: Timestamp,
    evidence: Option<&'a Evidence>,
    /// The step that reported, and the fields of its report.
    reported: Option<(Step, Map<String, Value>)>,
    /// The messages that the step added to its private copies of mailbox files.
    written: Vec<(Mailbox, Map<String, Value>)>,
    /// The paths of the parts that changed.
    touched: BTreeSet<String>,
    /// The steps that the entry starts, each with the reason.
    started: Vec<(Step, String)>,
}

/// Applies an entry to the document and returns the parts that changed.
pub(super) fn record(definition: &Definition, document: &mut Document, entry: &Entry<Team>) -> Vec<String> {
    let is_opened = matches!(entry.input, Input::Opened { .. });
    if is_opened {
        *document = opened_at(document, entry.at);
    }
    let mut touched = BTreeSet::from([run_part_path()]);
    if let Input::Recovered { source: RecoverySource::View { document: files, .. } } = &entry.input {
        import::fill(document, files, entry.at);
        touched.extend(document.parts());
    }
    let evidence = entry.input.evidence();
    let (step, verdict) = match &entry.input {
        Input::Fact { fact: Fact::Ended { attempt, ending: Ending::Reported(verdict) }, .. } => {
            (Step::parse(&attempt.step), Some(verdict))
        }
        Input::Fact { fact: Fact::Answered { step, verdict, .. }, .. } => (Step::parse(step), Some(verdict)),
        Input::Fact { .. }
        | Input::Opened { .. }
        | Input::Request { .. }
        | Input::Refused { .. }
        | Input::Edited { .. }
        | Input::Deferred
        | Input::Recovered { .. } => (None, None),
    };
    let report = evidence.and_then(|evidence| evidence.report.as_ref());
    let reported = step.zip(verdict).map(|(step, _)| {
        let fields = report.map(|report| verdicts::fields(document, &step, report).unwrap_or_default());
        (step, fields.unwrap_or_default())
    });
    let written = reported
        .as_ref()
        .zip(report)
        .map(|((step, _), report)| copies::new_messages(document, step, &report.copy_edits));
    let statuses = document.plan_statuses();
    let mut recorder = Recorder {
        definition,
        document,
        at: entry.at,
        evidence,
        reported,
        written: written.unwrap_or_default(),
        touched,
        started: Vec::new(),
    };
    if is_opened {
        recorder.touched.insert(plan_part_path());
    }
    if let Some(verdict) = verdict {
        recorder.record_verdict(verdict);
    }
    for change in &entry.changes {
        recorder.record_change(change);
    }
    recorder.log_starts();
    let changed_plan = recorder.touched.contains(&plan_part_path());
    let Recorder { document, mut touched, .. } = recorder;
    if changed_plan || document.plan_statuses() != statuses {
        document.run.pm_iteration += u64::from(!is_opened);
        document.run.pm_last_update = entry.at;
    }
    document.run.last_update = entry.at;
    if let Some(imported) = document.imported.as_mut().filter(|imported| imported.unchanged)
        && !entry.changes.is_empty()
        && !matches!(entry.input, Input::Recovered { .. })
    {
        imported.unchanged = false;
        touched.insert(imported_part_path());
    }
    touched.into_iter().collect()
}

/// Returns the document of a new run at the time of its first entry.
fn opened_at(document: &Document, at: Timestamp) -> Document {
    let mut new = document.clone();
    (new.run.start_time, new.run.last_update, new.run.pm_last_update) = (at, at, at);
    new
}

impl Recorder<'_> {
    /// Returns a group to be changed: its part counts as changed, and its `last_update` is now.
    fn group_mut(&mut self, id: &GroupId) -> &mut GroupPart {
        self.touched.insert(group_part_path(id));
        let at = self.at;
        let group = self.document.groups.get_mut(id).unwrap_or_else(|| panic!("BUG: no group `{id}`"));
        group.last_update = at;
        group
    }

    fn record_change(&mut self, change: &Change<TeamChange>) {
        match change {
            Change::Status { status } => self.record_status(*status),
            Change::Protocol { transition } => self.record_transition(transition),
            Change::Started { attempt, .. } => {
                self.record_step(change);
                self.record_start(&parse_step(&attempt.step), attempt.turn);
            }
            Change::Ended { attempt, .. } => {
                self.record_step(change);
                self.record_end(&parse_step(&attempt.step));
            }
            Change::Queued { .. }
            | Change::Waiting { .. }
            | Change::Answered { .. }
            | Change::Dequeued { .. } => self.record_step(change),
            Change::BackoffElapsed { .. } | Change::StopRequested { .. } => {}
        }
    }

    fn record_step(&mut self, change: &Change<TeamChange>) {
        let Some(step) = change.step() else { return };
        let (at, error) = (self.at, self.evidence.and_then(|evidence| evidence.error.clone()));
        self.update_step(&parse_step(step), |record| record.record(change, error, at));
    }

    fn update_step(&mut self, step: &Step, change: impl FnOnce(&mut StepRecord)) {
        let (found, part) = self.document.step_mut(step);
        change(found);
        self.touched.insert(part);
    }

    fn record_status(&mut self, status: RunStatus) {
        let run = &mut self.document.run;
        run.held = matches!(status, RunStatus::Paused | RunStatus::Stopping(_) | RunStatus::Stopped(_));
        (run.status, run.end_time) = match status {
            RunStatus::Finished(Outcome::Succeeded) => (OrchestratorStatus::Completed, Some(self.at)),
            RunStatus::Finished(Outcome::Failed | Outcome::Incomplete)
            | RunStatus::Finishing(Outcome::Failed | Outcome::Incomplete)
            | RunStatus::Draining(Outcome::Failed | Outcome::Incomplete) => {
                (OrchestratorStatus::Error, Some(self.at))
            }
            RunStatus::Running
            | RunStatus::Paused
            | RunStatus::Stopping(_)
            | RunStatus::Stopped(_)
            | RunStatus::Finishing(Outcome::Succeeded)
            | RunStatus::Draining(Outcome::Succeeded) => (OrchestratorStatus::Running, None),
        };
    }

    fn record_start(&mut self, step: &Step, turn: Turn) {
        self.started.push((step.clone(), self.document.reasoning(step)));
        self.document.run.active.insert(step.id(), self.at);
        let received = self.document.mark_received(step, turn);
        self.touched.extend(received);
        let Step::Group(id, role) = step else { return };
        let at = self.at;
        let group = self.group_mut(id);
        match role {
            Role::Developer => {
                group.start_time.get_or_insert(at);
                group.iterations.developer += 1;
            }
            Role::Qa => group.iterations.qa += 1,
            Role::TechLead => group.iterations.tech_lead += 1,
            Role::Merge | Role::Decision => return,
        }
        group.stage_started = true;
    }

    fn record_end(&mut self, step: &Step) {
        self.document.run.active.remove(&step.id());
        if let Some(id) = step.group() {
            self.group_mut(id);
        }
    }

    /// Adds one record to `decisions_log` for all steps that this journal entry starts.
    fn log_starts(&mut self) {
        if self.started.is_empty() {
            return;
        }
        let started = std::mem::take(&mut self.started);
        let count = started.len() as u64;
        let mut reasons: Vec<String> = Vec::new();
        for (_, reason) in &started {
            if !reasons.contains(reason) {
                reasons.push(reason.clone());
            }
        }
        let steps: Vec<_> = started.into_iter().map(|(step, _)| step).collect();
        let run = &mut self.document.run;
        run.iteration += count;
        run.total_spawns += count;
        let entry = DecisionEntry {
            iteration: run.iteration,
            decision: spawn_decision(&steps),
            reasoning: reasons.join("; "),
            timestamp: self.at,
        };
        self.touched.insert(decision_part_path(self.document.decisions.len()));
        self.document.decisions.push(entry);
    }

    fn record_transition(&mut self, transition: &TeamChange) {
        match transition {
            TeamChange::Planned { .. } => self.add_plan(None),
            TeamChange::Replaced { group, .. } => {
                let part = self.group_mut(group);
                part.progress = GroupProgress::Split;
                part.resolve_blockers("settled by the split of the group");
                self.add_plan(Some(group));
            }
            TeamChange::Moved { group: id, to, .. } => self.move_group(id, *to),
            TeamChange::Asked { group: id, to, reason } => {
                let group = self.group_mut(id);
                if group.stage != *to {
                    (group.stage, group.stage_started) = (*to, false);
                }
                group.progress = GroupProgress::Asks(*reason);
            }
            TeamChange::Chosen { group, choice } => self.record_choice(group, *choice),
            TeamChange::Imported { .. }
            | TeamChange::CriteriaRan { .. }
            | TeamChange::CompletionAsked
            | TeamChange::FastForwarded => {}
            TeamChange::Refused { failing } => {
                let criteria = self.document.plan.criteria.iter();
                let with_command = criteria.filter(|record| record.criterion.command.is_some());
                let failing: Vec<_> = (0..)
                    .zip(with_command)
                    .filter(|(index, _)| failing.contains(index))
                    .map(|(_, record)| record.criterion.id.clone())
                    .collect();
                self.document.run.refusal =
                    Some(format!("these success criteria fail: {}", failing.join(", ")));
            }
            TeamChange::CompletionChosen { choice } => {
                let reason = self.answer_text();
                if *choice == Choice::Accept {
                    self.document.run.consents.push(format!("completion accepted: {reason}"));
                }
            }
            TeamChange::Accepted => self.document.run.refusal = None,
            TeamChange::Failed { step } => {
                self.update_step(step, |record| record.status = StepRecordStatus::Failed);
            }
            TeamChange::Retried { step } => {
                self.update_step(step, |record| record.status = StepRecordStatus::Pending);
                if let Step::Group(id, Role::Decision) = step {
                    let group = self.group_mut(id);
                    if let GroupProgress::Failed(reason) = group.progress {
                        (group.progress, group.closed_because) = (GroupProgress::Asks(reason), None);
                    }
                }
            }
        }
    }

    fn move_group(&mut self, id: &GroupId, to: Stage) {
        let error = self.evidence.and_then(|evidence| evidence.error.clone());
        let is_report = self.reported.is_some();
        let at = self.at;
        let group = self.group_mut(id);
        if let (Stage::Unblock(_), false) = (to, is_report) {
            let description = format!("no attempt succeeded: {}", error.unwrap_or_default());
            group.blockers.push(Blocker::new(description));
        }
        (group.stage, group.stage_started, group.progress) = (to, false, GroupProgress::Open);
        match to {
            Stage::Complete => (group.end_time, group.claimed_complete) = (Some(at), false),
            Stage::Develop(_) => group.claimed_complete = false,
            Stage::Test | Stage::Review | Stage::Unblock(_) | Stage::Merge => {}
        }
    }

    /// Returns the text that a person gave with the answer.
    fn answer_text(&self) -> String {
        let answer = self.evidence.and_then(|evidence| evidence.answer.as_ref());
        answer.and_then(|answer| answer.text()).unwrap_or_default().to_owned()
    }

    fn record_choice(&mut self, id: &GroupId, choice: Choice) {
        let reason = self.answer_text();
        if choice == Choice::Skip {
            self.document.run.consents.push(format!("group {id} skipped: {reason}"));
        }
        let group = self.group_mut(id);
        group.progress = group.progress.after(choice);
        if group.progress == GroupProgress::Skipped {
            group.resolve_blockers(&format!("settled by the skip of the group: {reason}"));
        }
        if group.progress.is_closed() {
            group.closed_because = Some(reason);
        }
    }

    /// Adds the groups of the reported plan; `split` is the group that they replace.
    fn add_plan(&mut self, split: Option<&GroupId>) {
        let Some((step, fields)) = self.reported.clone() else { return };
        // `verdicts::plan` reads a split only while the group is `Splitting`, as it was when the report became a verdict.
        if let Some(id) = split {
            self.group_mut(id).progress = GroupProgress::Splitting;
        }
        let read = verdicts::plan(self.definition, self.document, &step, &fields);
        if let Some(id) = split {
            self.group_mut(id).progress = GroupProgress::Split;
        }
        let Ok(plan) = read else { return };
        self.touched.insert(plan_part_path());
        let is_first = self.document.plan.groups.is_empty();
        let at = self.at;
        let mut shared_files = plan.shared_files();
        for (old, new) in split.into_iter().flat_map(|old| plan.groups.iter().map(move |new| (old, new))) {
            shared_files
                .entry(new.id.clone())
                .or_default()
                .extend(self.document.shared_files_of_new(old, new));
        }
        for group in &plan.groups {
            self.document.groups.insert(group.id.clone(), GroupPart::new(at));
            self.touched.insert(group_part_path(&group.id));
        }
        let document_plan = &mut self.document.plan;
        document_plan.shared_files.extend(shared_files);
        if let Some(old) = split {
            let new: Vec<_> = plan.groups.iter().map(|group| group.id.clone()).collect();
            if let Some(phase) = document_plan.phases.iter_mut().find(|phase| phase.contains(old)) {
                phase.extend(new.iter().cloned());
            }
            document_plan.replaced.insert(old.clone(), new);
        } else {
            document_plan.phases.extend(plan.phases);
            document_plan.tasks.extend(plan.tasks);
        }
        document_plan.groups.extend(plan.groups);
        if is_first {
            (document_plan.mode, document_plan.mode_reasoning) = (plan.mode, plan.mode_reasoning);
            document_plan.criteria = plan.criteria.into_iter().map(Into::into).collect();
        }
        self.document.run.refusal = None;
    }
}

fn parse_step(id: &crate::StepId) -> Step {
    Step::parse(id).unwrap_or_else(|| panic!("BUG: an entry names `{id}`, which is not a step of `team`"))
}
