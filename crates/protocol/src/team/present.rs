//! Presents runs of `team`.

use serde_json::{Map, Value, json};

use super::Team;
use super::brief::TEMPLATES;
use super::check::FORMATS;
use super::decide::Change;
use super::definition::Definition;
use super::document::{Document, OrchestratorStatus};
use super::report::verdicts;
use super::state::{DevelopReason, GroupProgress, Stage, State};
use super::step::{
    Choice, DeveloperVerdict, MergeVerdict, PmStep, QaVerdict, Role, Step, TechLeadVerdict, Verdict,
};
use crate::present::{
    FileFormat, Line, LoopBack, Present, StatusKind, StepSummary, StepTable, StepTableRow, Tone, duration,
};
use crate::prompt::PromptTemplate;
use crate::protocol_trait::{Never, StepStatus};
use crate::report::Report;
use crate::{RunId, StepId, Timestamp};

impl Present for Team {
    const STEP_NOUNS: (&'static str, &'static str) = ("step", "steps");
    const STEPS_KEY: &'static str = "groups";
    const START_COMMAND: &'static str = "callboard team";
    const START_ARGUMENT: &'static str = "request";
    const CAN_RETRY: bool = true;
    const IMPORT_CAN_RENAME: bool = false;
    const PROMPTS: &'static [PromptTemplate] = &TEMPLATES;
    const VIEW_PATTERNS: &'static [&'static str] = &["/coordination/"];
    const FORMATS: &'static [FileFormat] = FORMATS;
    const REHEARSAL_SCRIPT_STEPS: &'static [&'static str] =
        &["pm.plan", "A.developer", "A.qa", "A.tech_lead", "pm.check"];

    fn agent(_: &Definition, _: &State, step: &Step) -> String {
        step.agent().to_owned()
    }

    fn needs(_: &Definition, state: &State, step: &Step) -> Vec<Step> {
        let merges = || state.in_order().into_iter().map(|(id, _)| Step::Group(id.clone(), Role::Merge));
        let same_group = |role| step.group().map(|id| Step::Group(id.clone(), role)).into_iter().collect();
        match step {
            Step::Pm(PmStep::Plan | PmStep::Decision) => Vec::new(),
            Step::Pm(PmStep::Check) if !state.criteria.is_empty() => vec![Step::Pm(PmStep::Criteria)],
            Step::Pm(PmStep::Criteria | PmStep::Check) if state.groups.is_empty() => vec![Step::PLAN],
            Step::Pm(PmStep::Criteria | PmStep::Check) => merges().collect(),
            Step::Pm(PmStep::Merge) => vec![Step::Pm(PmStep::Check)],
            Step::Group(id, Role::Developer) => {
                let after = state.groups.get(id).into_iter().flat_map(|group| group.after.iter());
                let mut needs: Vec<_> = after.map(|id| Step::Group(id.clone(), Role::Merge)).collect();
                if needs.is_empty() {
                    needs.push(Step::PLAN);
                }
                needs
            }
            Step::Group(_, Role::Qa) => same_group(Role::Developer),
            Step::Group(_, Role::TechLead) => same_group(Role::Qa),
            Step::Group(_, Role::Merge) => same_group(Role::TechLead),
            Step::Group(_, Role::Decision) => same_group(Role::Developer),
        }
    }

    fn loop_back(definition: &Definition, _: &State, step: &Step) -> Option<LoopBack<Step>> {
        let max_iterations = match step {
            Step::Group(_, Role::Qa) => definition.limits.qa,
            Step::Group(_, Role::TechLead) => definition.limits.review,
            Step::Group(_, Role::Developer | Role::Merge | Role::Decision) | Step::Pm(_) => return None,
        };
        let to = Step::Group(step.group()?.clone(), Role::Developer);
        Some(LoopBack { to, max_iterations: u32::from(max_iterations.get()) })
    }

    fn unblocks_dependents(_: &Definition, state: &State, step: &Step) -> bool {
        matches!(state.status(step), StepStatus::Succeeded | StepStatus::Skipped)
    }

    fn about(_: &Definition, document: &Document) -> Vec<String> {
        if document.plan.groups.is_empty() {
            return Vec::new();
        }
        vec![format!(
            "{} mode, {} of {} groups merged, phase {}",
            document.plan.mode,
            document.unsplit_groups().filter(|group| group.stage == Stage::Complete).count(),
            document.unsplit_groups().count(),
            document.current_phase(),
        )]
    }

    fn created_at(document: &Document) -> Timestamp {
        document.run.start_time
    }

    fn step_summary(document: &Document, step: &Step) -> StepSummary {
        let summary = document.step(step).summary();
        let (mut status, mut kind) = (summary.status, summary.kind);
        let group = step.group().and_then(|id| document.groups.get(id));
        let mut note = None;
        if let (Some(group), Step::Group(_, role)) = (group, step) {
            let is_current = group.stage.role() == Some(*role) && !group.is_done();
            if is_current && kind != StatusKind::Running && kind != StatusKind::Failed {
                (status, kind) = (group.status(), StatusKind::Pending);
            } else if is_current && kind == StatusKind::Running {
                status = group.status();
            } else if kind == StatusKind::Pending && group.is_done() {
                (status, kind) = ("skipped", StatusKind::Skipped);
            }
            note = group.closed().map(str::to_owned);
        }
        StepSummary { status, kind, note, ..summary }
    }

    fn result(document: &Document) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        for record in &document.plan.criteria {
            let (tone, word) = match record.passed {
                Some(true) => (Tone::Good, "passed"),
                Some(false) => (Tone::Bad, "failed"),
                None if record.criterion.command.is_some() => (Tone::Dim, "not checked yet"),
                None => (Tone::Dim, "no command"),
            };
            lines.push(
                Line::plain(format!("criterion {}: {}: ", record.criterion.id, record.criterion.text))
                    .then_toned(tone, word),
            );
        }
        lines.extend(
            document.run.consents.iter().map(|consent| Line::toned(Tone::Attention, consent.clone())),
        );
        lines
    }

    fn result_fields(document: &Document) -> Map<String, Value> {
        let fields = json!({
            "mode": document.plan.mode,
            "groups": document.groups.iter().map(|(id, group)| json!({
                "id": id, "status": group.status(), "closed": group.closed(), "idle": document.idle_reason(id),
            })).collect::<Vec<_>>(),
            "completion_percentage": document.percentage(),
            "success_criteria": document.plan.criteria,
            "consents": document.run.consents,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    fn failure_hint(_: &Definition, run: &RunId, _: &Document) -> String {
        format!("run `callboard retry {run}` to reopen it")
    }

    fn check_report(step: &StepId, report: &Report) -> Result<(), String> {
        Step::parse(step).map_or(Ok(()), |step| verdicts::check(&step, report))
    }

    fn stalled(definition: &Definition, document: &Document, now: Timestamp) -> Vec<(Step, String)> {
        document.stalled(definition, now)
    }

    fn step_table(_: &Definition, state: &State, document: &Document) -> Option<StepTable<Step>> {
        if state.groups.is_empty() {
            return None;
        }
        let columns = ["developer", "qa", "tech lead", "merge"].map(str::to_owned).to_vec();
        let roles = [Role::Developer, Role::Qa, Role::TechLead, Role::Merge];
        let row = |(id, _): (&super::GroupId, _)| {
            let status = document.groups.get(id).map(super::GroupPart::status);
            let note = status.into_iter().map(str::to_owned).chain(document.idle_reason(id));
            StepTableRow {
                name: id.to_string(),
                cells: roles.map(|role| Some(Step::Group(id.clone(), role))).to_vec(),
                note: Some(note.collect::<Vec<_>>().join(": ")),
            }
        };
        Some(StepTable { columns, rows: state.in_order().into_iter().map(row).collect() })
    }

    fn verdict_text(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Plan(_) => "reported a plan",
            Verdict::Complete => "claimed that the request is fulfilled",
            Verdict::Criteria { .. } => "ran the success criteria",
            Verdict::FastForwarded => "brought the work to the base branch",
            Verdict::Developer(DeveloperVerdict::ReadyForQa) => "reported READY_FOR_QA",
            Verdict::Developer(DeveloperVerdict::ReadyForReview) => "reported READY_FOR_REVIEW",
            Verdict::Developer(DeveloperVerdict::Blocked) | Verdict::Qa(QaVerdict::Blocked) => {
                "reported BLOCKED"
            }
            Verdict::Qa(QaVerdict::Pass) => "reported PASS",
            Verdict::Qa(QaVerdict::Fail) => "reported FAIL",
            Verdict::Qa(QaVerdict::Flaky) => "reported FLAKY",
            Verdict::TechLead(TechLeadVerdict::Approved) => "approved the group",
            Verdict::TechLead(TechLeadVerdict::ChangesRequested { .. }) => "requested changes",
            Verdict::TechLead(TechLeadVerdict::Unblocked) => "unblocked the group",
            Verdict::Merge(MergeVerdict::Merged) => "merged the group",
            Verdict::Merge(MergeVerdict::Refused) => "could not merge the group",
            Verdict::Choice(Choice::Split) => "chose to split the group",
            Verdict::Choice(Choice::Continue) => "chose to continue",
            Verdict::Choice(Choice::Skip) => "chose to skip the group",
            Verdict::Choice(Choice::Fail) => "chose to fail the run",
            Verdict::Choice(Choice::Accept) => "accepted the result",
        }
    }

    fn change_line(change: &Change) -> Option<Line> {
        let names = |work: &super::PlannedWork| {
            work.groups.iter().map(|group| group.id.to_string()).collect::<Vec<_>>().join(", ")
        };
        match change {
            Change::Planned { work, .. } => Some(Line::plain(format!("planned the groups {}", names(work)))),
            Change::Replaced { group, work, .. } => {
                Some(Line::plain(format!("group {group} is replaced by {}", names(work))))
            }
            Change::Moved { group, to: Stage::Complete, .. } => {
                Some(Line::toned(Tone::Good, "✓").then(format!(" group {group} merged")))
            }
            Change::Asked { group, .. } => {
                Some(Line::toned(Tone::Attention, "?").then(format!(" group {group} needs a decision")))
            }
            Change::CompletionAsked => {
                Some(Line::toned(Tone::Attention, "?").then(" the final check needs a decision"))
            }
            Change::Refused { .. } => Some(Line::toned(Tone::Attention, "✗").then(" completion refused")),
            Change::Chosen { group, choice } => {
                Some(Line::plain(format!("group {group}: {}", choice.as_str())))
            }
            Change::Retried { step } => {
                Some(Line::toned(Tone::Active, "↻").then(format!(" retrying {step}")))
            }
            Change::Moved { .. }
            | Change::CriteriaRan { .. }
            | Change::CompletionChosen { .. }
            | Change::Accepted
            | Change::FastForwarded
            | Change::Imported { .. }
            | Change::Failed { .. } => None,
        }
    }

    fn change_event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::Planned { work, .. } => Some(("planned", json!({ "groups": work.groups }))),
            Change::Replaced { group, work, .. } => {
                Some(("split", json!({ "group": group, "groups": work.groups })))
            }
            Change::Moved { group, to, .. } => Some(("group", json!({ "group": group, "needs": to }))),
            Change::Asked { group, reason, .. } => {
                Some(("asked", json!({ "group": group, "reason": reason })))
            }
            Change::Chosen { group, choice } => Some(("chosen", json!({ "group": group, "choice": choice }))),
            Change::Refused { .. } => Some(("completion_refused", json!({}))),
            Change::CriteriaRan { .. }
            | Change::CompletionAsked
            | Change::CompletionChosen { .. }
            | Change::Accepted
            | Change::FastForwarded
            | Change::Imported { .. }
            | Change::Failed { .. }
            | Change::Retried { .. } => None,
        }
    }

    fn request_text(request: &Never) -> String {
        match *request {}
    }

    fn edit_summary(edit: &Never) -> String {
        match *edit {}
    }

    fn concerns(change: &Change, step: &StepId) -> bool {
        let step = Step::parse(step);
        let group = step.as_ref().and_then(Step::group);
        match change {
            Change::Planned { .. } => matches!(step, Some(Step::Pm(PmStep::Plan | PmStep::Check))),
            Change::Replaced { group: changed, .. } => step == Some(Step::PLAN) || group == Some(changed),
            Change::Moved { group: changed, .. }
            | Change::Asked { group: changed, .. }
            | Change::Chosen { group: changed, .. } => group == Some(changed),
            Change::CriteriaRan { .. } => step == Some(Step::Pm(PmStep::Criteria)),
            Change::Refused { .. } | Change::Accepted => step == Some(Step::Pm(PmStep::Check)),
            Change::CompletionAsked | Change::CompletionChosen { .. } => {
                step == Some(Step::Pm(PmStep::Decision))
            }
            Change::FastForwarded => step == Some(Step::Pm(PmStep::Merge)),
            Change::Imported { .. } => false,
            Change::Failed { step: changed } | Change::Retried { step: changed } => {
                step.as_ref() == Some(changed)
            }
        }
    }

    fn failure_reason(change: &Change, step: &StepId) -> Option<&'static str> {
        let (Change::Moved { group, to, .. } | Change::Asked { group, to, .. }) = change else { return None };
        let Some(Step::Group(id, role)) = Step::parse(step) else { return None };
        match (role, to) {
            _ if id != *group => None,
            (Role::Qa, Stage::Develop(DevelopReason::QaFailed)) => Some("the tests of the group fail"),
            (Role::Merge, Stage::Develop(DevelopReason::ChangesRequested)) => Some("the merge was refused"),
            (Role::Developer | Role::Qa | Role::TechLead | Role::Merge | Role::Decision, _) => None,
        }
    }
}

impl Document {
    /// Returns the groups that have made no progress for the configured time, each with the step that it needs and a
    /// message. Groups that wait for another group or for a person are left out.
    fn stalled(&self, definition: &Definition, now: Timestamp) -> Vec<(Step, String)> {
        let limit = definition.limits.idle;
        let stalled = self.plan.groups.iter().filter_map(|planned| {
            let group = self.groups.get(&planned.id)?;
            let role = group.stage.role().filter(|_| group.progress == GroupProgress::Open)?;
            let idle = now.since(group.last_update);
            let is_stalled = self.run.status == OrchestratorStatus::Running
                && idle >= limit
                && !self.run.held
                && self.wait_reasons(&planned.id).is_empty();
            is_stalled.then(|| {
                let why = format!(
                    "group {} ({}) has had no progress for {}",
                    planned.id,
                    group.status(),
                    duration(idle)
                );
                (Step::Group(planned.id.clone(), role), why)
            })
        });
        stalled.collect()
    }

    /// Returns why nothing happens in a group.
    pub(super) fn idle_reason(&self, id: &super::GroupId) -> Option<String> {
        let group = self.groups.get(id)?;
        if let Some(closed) = group.closed() {
            let reason = group.closed_because.as_deref().unwrap_or_default();
            return Some(format!("{closed}: {reason}").trim_end_matches([':', ' ']).to_owned());
        }
        match group.progress {
            GroupProgress::Asks(_) => return Some("a person decides: see `callboard inbox`".to_owned()),
            GroupProgress::Splitting => return Some("the project manager splits it".to_owned()),
            GroupProgress::Open
            | GroupProgress::Skipped
            | GroupProgress::Split
            | GroupProgress::Failed(_) => {}
        }
        let is_active =
            Role::ALL.iter().any(|role| self.run.active.contains_key(&Step::Group(id.clone(), *role).id()));
        if group.stage == Stage::Complete || is_active {
            return None;
        }
        let waits = self.wait_reasons(id);
        Some(match self.run.status {
            OrchestratorStatus::Completed | OrchestratorStatus::Error => "the run has ended".to_owned(),
            OrchestratorStatus::Running if !waits.is_empty() => waits.join("; "),
            OrchestratorStatus::Running if self.run.held => "the run is paused or stopped".to_owned(),
            OrchestratorStatus::Running => "waits for a slot".to_owned(),
        })
    }
}
