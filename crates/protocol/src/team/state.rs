//! The state of a run: what each group needs next, and what the run needs when all groups are done. It contains
//! ids and numbers only.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::definition::{Definition, GroupId, Limits};
use super::step::{Choice, PlannedCriterion, PmStep, Role, ScheduledGroup, Step};
use crate::protocol_trait::StepStatus;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Empty until there is a plan.
    pub groups: BTreeMap<GroupId, Group>,
    /// The success criteria with a command.
    pub criteria: Vec<PlannedCriterion>,
    /// The criteria whose commands failed the last time.
    pub failing: BTreeSet<u16>,
    /// What the run needs when all groups are done.
    pub final_stage: FinalStage,
    /// Final checks that are left before a person is asked.
    pub final_checks_left: u8,
    /// Steps that failed, or were stopped.
    pub failed: BTreeSet<Step>,
}

/// One group.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group {
    /// Its position in the plan.
    pub position: u16,
    pub phase: u16,
    /// The groups that must be merged or closed before it starts.
    pub after: BTreeSet<GroupId>,
    pub stage: Stage,
    /// Whether the group continues, waits for a decision, or is closed.
    pub progress: GroupProgress,
    /// The turns that are left before a person is asked.
    pub left: TurnsLeft,
    /// Blocking issues of the last review.
    pub blocking: Option<u16>,
}

/// What a group needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Develop(DevelopReason),
    Test,
    Review,
    /// The tech lead helps.
    Unblock(Blocked),
    /// It is approved and waits for its merge.
    Merge,
    /// It is merged.
    Complete,
}

impl Stage {
    /// Returns the original's status of a group; `started` if the role that the stage needs has started.
    pub fn status(self, started: bool) -> &'static str {
        match (self, started) {
            (Self::Develop(_), true) => "dev_working",
            (Self::Develop(DevelopReason::New), false) => "pending",
            (Self::Develop(DevelopReason::QaFailed), false) => "qa_failed",
            (Self::Develop(DevelopReason::ChangesRequested), false) => "changes_requested",
            (Self::Develop(DevelopReason::Unblocked), false) | (Self::Unblock(Blocked::Developer), _) => {
                "dev_blocked"
            }
            (Self::Test, false) => "waiting_qa",
            // The original has no status for a blocked QA.
            (Self::Test, true) | (Self::Unblock(Blocked::Qa | Blocked::Flaky), _) => "qa_testing",
            (Self::Review, false) => "waiting_review",
            (Self::Review, true) | (Self::Merge, _) => "tech_review",
            (Self::Complete, _) => "complete",
        }
    }

    /// Returns the role that the stage needs.
    pub(super) fn role(self) -> Option<Role> {
        match self {
            Self::Develop(_) => Some(Role::Developer),
            Self::Test => Some(Role::Qa),
            Self::Review | Self::Unblock(_) => Some(Role::TechLead),
            Self::Merge => Some(Role::Merge),
            Self::Complete => None,
        }
    }
}

/// Why a developer works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DevelopReason {
    New,
    QaFailed,
    ChangesRequested,
    Unblocked,
}

/// Which role is blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blocked {
    Developer,
    Qa,
    /// QA found tests that pass at times; the developer repairs them.
    Flaky,
}

/// Whether a group continues, waits for a decision, or is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupProgress {
    /// It continues with its stage.
    Open,
    /// A person decides.
    Asks(DecisionReason),
    /// The project manager splits it.
    Splitting,
    /// Closed: left out by a person.
    Skipped,
    /// Closed: replaced by smaller groups.
    Split,
    /// Closed: a person, asked for this reason, chose to fail the run.
    Failed(DecisionReason),
}

impl GroupProgress {
    /// Returns the progress of a group after a person's choice.
    pub(super) fn after(self, choice: Choice) -> Self {
        match (choice, self) {
            (Choice::Split, _) => Self::Splitting,
            (Choice::Skip, _) => Self::Skipped,
            (Choice::Fail, Self::Asks(reason)) => Self::Failed(reason),
            (Choice::Continue | Choice::Accept | Choice::Fail, _) => Self::Open,
        }
    }

    pub(super) fn is_closed(self) -> bool {
        match self {
            Self::Skipped | Self::Split | Self::Failed(_) => true,
            Self::Open | Self::Asks(_) | Self::Splitting => false,
        }
    }
}

/// Why a person is asked about a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionReason {
    /// The developer has no turns left.
    Developer,
    /// QA has no turns left.
    Qa,
    /// The tech lead has no reviews left.
    Review,
    /// A review found no fewer blocking issues than the one before.
    NoProgress,
    /// The tech lead has no attempts left.
    TechLead,
    /// The merge could not be tried.
    Merge,
    /// The imported files do not say what the group needs.
    Imported,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TurnsLeft {
    pub developer: u8,
    pub qa: u8,
    pub review: u8,
}

/// What the run needs when all groups are merged or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalStage {
    /// The commands of the success criteria.
    Criteria,
    /// The final check of the project manager.
    Check,
    /// A person decides: there were too many checks.
    Asks,
    /// Nothing: a person chose to fail the run.
    Failed,
    /// The fast-forward of the base branch.
    Merge,
    /// Nothing: the base branch was fast-forwarded, or the user will merge the integration branch.
    FastForwarded,
}

impl Group {
    pub(super) fn new(planned: &ScheduledGroup, position: u16, limits: &Limits) -> Self {
        Self {
            position,
            phase: planned.phase,
            after: planned.after.clone(),
            stage: Stage::Develop(DevelopReason::New),
            progress: GroupProgress::Open,
            left: TurnsLeft {
                // The first turn needs no transition.
                developer: limits.developer.get() - 1,
                qa: limits.qa.get(),
                review: limits.review.get(),
            },
            blocking: None,
        }
    }

    /// Returns whether the group needs nothing more.
    pub fn is_done(&self) -> bool {
        self.progress.is_closed() || self.stage == Stage::Complete
    }

    /// Returns the role that the group needs next; `None` if it is being split, is closed or is merged.
    fn next_role(&self) -> Option<Role> {
        match self.progress {
            GroupProgress::Asks(_) => Some(Role::Decision),
            GroupProgress::Splitting
            | GroupProgress::Skipped
            | GroupProgress::Split
            | GroupProgress::Failed(_) => None,
            GroupProgress::Open => self.stage.role(),
        }
    }

    /// Uses one of the turns that are left for the stage.
    pub(super) fn use_turn(&mut self) {
        let left = match self.stage {
            Stage::Develop(_) => &mut self.left.developer,
            Stage::Test => &mut self.left.qa,
            Stage::Review => &mut self.left.review,
            Stage::Unblock(_) | Stage::Merge | Stage::Complete => return,
        };
        *left = left.saturating_sub(1);
    }

    /// Clears the counters of a group that is done. A failed group keeps them, because it may be retried.
    pub(super) fn clear_counters_if_done(&mut self) {
        let is_over = match self.progress {
            GroupProgress::Skipped | GroupProgress::Split => true,
            GroupProgress::Open
            | GroupProgress::Asks(_)
            | GroupProgress::Splitting
            | GroupProgress::Failed(_) => self.stage == Stage::Complete,
        };
        if is_over {
            (self.left, self.blocking) = (TurnsLeft { developer: 0, qa: 0, review: 0 }, None);
        }
    }

    /// Returns why a person decides before the group moves to this stage; `None` if no limit is exceeded.
    pub(super) fn exceeded_limit(&self, to: Stage, blocking: Option<u16>) -> Option<DecisionReason> {
        let no_progress = matches!((blocking, self.blocking), (Some(now), Some(before)) if now >= before);
        match to {
            Stage::Develop(_) if no_progress => Some(DecisionReason::NoProgress),
            Stage::Develop(_) => (self.left.developer == 0).then_some(DecisionReason::Developer),
            Stage::Test => (self.left.qa == 0).then_some(DecisionReason::Qa),
            Stage::Review => (self.left.review == 0).then_some(DecisionReason::Review),
            Stage::Unblock(_) | Stage::Merge | Stage::Complete => None,
        }
    }

    fn status(&self, role: Role) -> StepStatus {
        let finished = match role {
            Role::Developer => !matches!(self.stage, Stage::Develop(_) | Stage::Unblock(_)),
            Role::Qa => matches!(self.stage, Stage::Review | Stage::Merge | Stage::Complete),
            Role::TechLead => matches!(self.stage, Stage::Merge | Stage::Complete),
            Role::Merge => self.stage == Stage::Complete,
            Role::Decision => match self.progress {
                GroupProgress::Asks(_) => return StepStatus::Unfinished,
                GroupProgress::Failed(_) => return StepStatus::Failed,
                GroupProgress::Open
                | GroupProgress::Splitting
                | GroupProgress::Skipped
                | GroupProgress::Split => true,
            },
        };
        match (finished, self.progress.is_closed()) {
            (true, _) => StepStatus::Succeeded,
            (false, true) => StepStatus::Skipped,
            (false, false) => StepStatus::Unfinished,
        }
    }
}

impl State {
    pub(super) fn begin(definition: &Definition) -> Self {
        Self {
            groups: BTreeMap::new(),
            criteria: Vec::new(),
            failing: BTreeSet::new(),
            final_stage: FinalStage::Criteria,
            final_checks_left: definition.limits.checks.get(),
            failed: BTreeSet::new(),
        }
    }

    /// Returns the groups in the order of the plan.
    pub fn in_order(&self) -> Vec<(&GroupId, &Group)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| group.position);
        groups
    }

    /// Returns the phase whose groups may work: the first one with an unfinished group.
    pub fn open_phase(&self) -> Option<u16> {
        self.groups.values().filter(|group| !group.is_done()).map(|group| group.phase).min()
    }

    /// Returns whether the phase of the group is open and the groups that it waits for are merged or closed.
    pub fn is_ready(&self, group: &Group) -> bool {
        let is_done = |id: &GroupId| self.groups.get(id).is_none_or(Group::is_done);
        self.open_phase().is_some_and(|open| group.phase <= open) && group.after.iter().all(is_done)
    }

    /// Returns whether all groups are merged or closed.
    pub(super) fn groups_are_done(&self) -> bool {
        !self.groups.is_empty() && self.groups.values().all(Group::is_done)
    }

    /// Returns the group that the project manager is to split next.
    pub fn splitting(&self) -> Option<&GroupId> {
        self.groups.iter().find(|(_, group)| group.progress == GroupProgress::Splitting).map(|(id, _)| id)
    }

    /// Returns the failing criteria, except those whose groups are all skipped. A split group does not count; the groups that
    /// replace it do.
    pub fn failing_unskipped_criteria(&self) -> Vec<u16> {
        let is_excused = |index: &u16| {
            let criterion = self.criteria.get(usize::from(*index));
            let groups = criterion.into_iter().flat_map(|criterion| &criterion.groups);
            let progress = groups.filter_map(|id| self.groups.get(id)).map(|group| group.progress);
            let unsplit: Vec<_> = progress.filter(|progress| *progress != GroupProgress::Split).collect();
            !unsplit.is_empty() && unsplit.iter().all(|progress| *progress == GroupProgress::Skipped)
        };
        self.failing.iter().copied().filter(|index| !is_excused(index)).collect()
    }

    /// Returns the steps that the run needs now, without those that failed. `max_parallel` limits the groups at work.
    pub(super) fn startable(&self, max_parallel: u8) -> Vec<Step> {
        let mut steps = self.needed(max_parallel);
        steps.retain(|step| !self.failed.contains(step));
        steps
    }

    /// Returns the steps that the run needs now, including those that failed.
    pub(super) fn needed(&self, max_parallel: u8) -> Vec<Step> {
        let mut steps = Vec::new();
        if self.groups.is_empty() || self.splitting().is_some() {
            steps.push(Step::PLAN);
        }
        let mut ready: Vec<_> = self
            .in_order()
            .into_iter()
            .filter(|(_, group)| !group.is_done() && self.is_ready(group))
            .collect();
        // Groups that are past their first developer turn keep their slot.
        ready.sort_by_key(|(_, group)| group.stage == Stage::Develop(DevelopReason::New));
        for (id, group) in ready.into_iter().take(usize::from(max_parallel)) {
            steps.extend(group.next_role().map(|role| Step::Group(id.clone(), role)));
        }
        if self.groups_are_done() {
            steps.extend(
                match self.final_stage {
                    FinalStage::Criteria => Some(PmStep::Criteria),
                    FinalStage::Check => Some(PmStep::Check),
                    FinalStage::Asks => Some(PmStep::Decision),
                    FinalStage::Merge => Some(PmStep::Merge),
                    FinalStage::Failed | FinalStage::FastForwarded => None,
                }
                .map(Step::Pm),
            );
        }
        steps
    }

    /// Returns all steps in reading order.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::PLAN];
        for (id, group) in self.in_order() {
            let asked = matches!(group.progress, GroupProgress::Asks(_) | GroupProgress::Failed(_));
            let roles = Role::ALL.into_iter().filter(|role| *role != Role::Decision || asked);
            steps.extend(roles.map(|role| Step::Group(id.clone(), role)));
        }
        let asked = matches!(self.final_stage, FinalStage::Asks | FinalStage::Failed);
        steps.extend((!self.criteria.is_empty()).then_some(Step::Pm(PmStep::Criteria)));
        steps.push(Step::Pm(PmStep::Check));
        steps.extend(asked.then_some(Step::Pm(PmStep::Decision)));
        steps.push(Step::Pm(PmStep::Merge));
        steps
    }

    pub(super) fn has_step(&self, step: &Step) -> bool {
        step.group().is_none_or(|group| self.groups.contains_key(group))
    }

    pub(super) fn status(&self, step: &Step) -> StepStatus {
        if self.failed.contains(step) {
            return StepStatus::Failed;
        }
        let is_done = match step {
            Step::Group(id, role) => {
                return self.groups.get(id).map_or(StepStatus::Unfinished, |group| group.status(*role));
            }
            Step::Pm(PmStep::Plan) => !self.groups.is_empty() && self.splitting().is_none(),
            Step::Pm(PmStep::Criteria) => self.groups_are_done() && self.final_stage != FinalStage::Criteria,
            Step::Pm(PmStep::Check) => {
                matches!(self.final_stage, FinalStage::Merge | FinalStage::FastForwarded)
            }
            Step::Pm(PmStep::Decision) => match self.final_stage {
                FinalStage::Asks => false,
                FinalStage::Failed => return StepStatus::Failed,
                FinalStage::Criteria | FinalStage::Check | FinalStage::Merge | FinalStage::FastForwarded => {
                    true
                }
            },
            Step::Pm(PmStep::Merge) => self.final_stage == FinalStage::FastForwarded,
        };
        if is_done { StepStatus::Succeeded } else { StepStatus::Unfinished }
    }

    /// Returns the steps that `retry` can run again.
    pub(super) fn failed_steps(&self) -> Vec<Step> {
        let decisions = self
            .groups
            .iter()
            .filter(|(_, group)| matches!(group.progress, GroupProgress::Failed(_)))
            .map(|(id, _)| Step::Group(id.clone(), Role::Decision));
        let check = (self.final_stage == FinalStage::Failed).then_some(Step::Pm(PmStep::Decision));
        self.failed.iter().cloned().chain(decisions).chain(check).collect()
    }

    /// Returns the position in the order of starts: the step of a group that is nearly done goes first.
    pub(super) fn start_order(&self, step: &Step) -> usize {
        let position = |id| self.groups.get(id).map_or(0, |group| usize::from(group.position));
        match step {
            Step::Pm(_) => 0,
            Step::Group(id, role) => {
                let class = match role {
                    Role::Merge | Role::Decision => 0,
                    Role::TechLead => 1,
                    Role::Qa => 2,
                    Role::Developer => 3,
                };
                1 + class * 100_000 + position(id)
            }
        }
    }
}
