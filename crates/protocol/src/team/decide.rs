//! The transition table of `team`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::{Definition, GroupId, Limits};
use super::state::{Blocked, DecisionReason, DevelopReason, FinalStage, Group, GroupProgress, Stage, State};
use super::step::{
    Choice, DeveloperVerdict, MergeVerdict, PlannedWork, PmStep, QaVerdict, Role, Step, TechLeadVerdict,
    Verdict,
};
use crate::protocol_trait::{Event, Move, Next, Outcome};

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The plan, or more groups after a check.
    Planned {
        work: PlannedWork,
        limits: Limits,
    },
    /// The group is replaced by smaller ones.
    Replaced {
        group: GroupId,
        work: PlannedWork,
        limits: Limits,
    },
    /// The group needs its next step.
    Moved {
        group: GroupId,
        to: Stage,
        /// The number of blocking issues, if a review requested changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blocking: Option<u16>,
    },
    /// The group would need its next step, but a person decides first.
    Asked {
        group: GroupId,
        to: Stage,
        /// Why a person decides.
        reason: DecisionReason,
    },
    /// A person has decided about the group.
    Chosen {
        group: GroupId,
        choice: Choice,
    },
    /// The commands of the success criteria ran.
    CriteriaRan {
        /// The positions of the criteria whose commands failed.
        failed: BTreeSet<u16>,
    },
    /// The project manager's claim of completion was refused because of these criteria, by position among those with a
    /// command.
    Refused {
        failing: Vec<u16>,
    },
    /// No final check is left: a person decides.
    CompletionAsked,
    /// A person has decided after the last final check.
    CompletionChosen {
        choice: Choice,
    },
    /// The claim of completion was accepted.
    Accepted,
    /// The base branch was fast-forwarded, or the user will merge the integration branch.
    FastForwarded,
    Failed {
        step: Step,
    },
    Retried {
        step: Step,
    },
    /// The run was made from imported files of the original in `coordination/`.
    Imported {
        state: State,
    },
}

/// Returns where a group goes with this verdict, or `None` if the verdict is not possible there.
fn transition(stage: Stage, verdict: &Verdict) -> Option<Stage> {
    match (stage, verdict) {
        (Stage::Develop(_), Verdict::Developer(verdict)) => Some(match verdict {
            DeveloperVerdict::ReadyForQa => Stage::Test,
            DeveloperVerdict::ReadyForReview => Stage::Review,
            DeveloperVerdict::Blocked => Stage::Unblock(Blocked::Developer),
        }),
        (Stage::Test, Verdict::Qa(verdict)) => Some(match verdict {
            QaVerdict::Pass => Stage::Review,
            QaVerdict::Fail => Stage::Develop(DevelopReason::QaFailed),
            QaVerdict::Blocked => Stage::Unblock(Blocked::Qa),
            QaVerdict::Flaky => Stage::Unblock(Blocked::Flaky),
        }),
        (Stage::Review, Verdict::TechLead(TechLeadVerdict::Approved)) => Some(Stage::Merge),
        (Stage::Review, Verdict::TechLead(TechLeadVerdict::ChangesRequested { .. })) => {
            Some(Stage::Develop(DevelopReason::ChangesRequested))
        }
        (Stage::Unblock(blocked), Verdict::TechLead(TechLeadVerdict::Unblocked)) => Some(match blocked {
            Blocked::Developer | Blocked::Flaky => Stage::Develop(DevelopReason::Unblocked),
            Blocked::Qa => Stage::Test,
        }),
        (Stage::Merge, Verdict::Merge(MergeVerdict::Merged)) => Some(Stage::Complete),
        (Stage::Merge, Verdict::Merge(MergeVerdict::Refused)) => {
            Some(Stage::Develop(DevelopReason::ChangesRequested))
        }
        (
            Stage::Develop(_)
            | Stage::Test
            | Stage::Review
            | Stage::Unblock(_)
            | Stage::Merge
            | Stage::Complete,
            Verdict::Plan(_)
            | Verdict::Complete
            | Verdict::Criteria { .. }
            | Verdict::FastForwarded
            | Verdict::Developer(_)
            | Verdict::Qa(_)
            | Verdict::TechLead(_)
            | Verdict::Merge(_)
            | Verdict::Choice(_),
        ) => None,
    }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<Step, Verdict>,
) -> Move<Change, Step> {
    let mut changes = Vec::new();
    let mut reported = None;
    match event {
        Event::Opened | Event::Skipped { .. } => {}
        Event::Reported { step, verdict } => {
            changes = changes_after(definition, state, &step, verdict);
            reported = Some(step);
        }
        Event::Exhausted { step } => changes.push(exhausted(state, step)),
        Event::Retried { steps } => changes.extend(steps.into_iter().map(|step| Change::Retried { step })),
    }
    let max_parallel = definition.limits.groups.get();
    let mut after = applied(state, &changes);
    if after.groups_are_done() && after.final_stage == FinalStage::Criteria && after.criteria.is_empty() {
        // Without commands there is nothing to run.
        let ran = Change::CriteriaRan { failed: BTreeSet::new() };
        let asked = (after.final_checks_left == 0).then_some(Change::CompletionAsked);
        for change in std::iter::once(ran).chain(asked) {
            after.apply(&change);
            changes.push(change);
        }
    }
    // The step was marked as failed by a stop, and reported before it ended. The steps that follow from its report are
    // marked as failed, too, so that `retry` finds them.
    if reported.is_some_and(|step| state.failed.contains(&step)) {
        let before = state.needed(max_parallel);
        for step in after.startable(max_parallel).into_iter().filter(|step| !before.contains(step)) {
            changes.push(Change::Failed { step });
        }
        after = applied(state, &changes);
    }
    let next = after.startable(max_parallel);
    let next = if after.final_stage == FinalStage::FastForwarded {
        Next::Finish(Outcome::Succeeded)
    } else if next.is_empty() || after.is_given_up() {
        Next::Finish(Outcome::Failed)
    } else {
        Next::QueueUnlessInTurn(next)
    };
    Move { changes, next }
}

/// Marks the steps that a stop ends.
pub(super) fn on_stop(definition: &Definition, state: &State) -> Move<Change, Step> {
    let stopped = state.startable(definition.limits.groups.get());
    let changes = stopped.into_iter().map(|step| Change::Failed { step }).collect();
    Move { changes, next: Next::Finish(Outcome::Failed) }
}

/// Returns the state after these changes.
fn applied(state: &State, changes: &[Change]) -> State {
    let mut after = state.clone();
    changes.iter().for_each(|change| after.apply(change));
    after
}

/// Returns the changes that follow from a verdict; none if the verdict is not possible there.
fn changes_after(definition: &Definition, state: &State, step: &Step, verdict: Verdict) -> Vec<Change> {
    let limits = definition.limits;
    match (step, verdict) {
        (Step::Pm(PmStep::Plan), Verdict::Plan(work)) => vec![match state.splitting() {
            Some(group) => Change::Replaced { group: group.clone(), work, limits },
            None => Change::Planned { work, limits },
        }],
        (Step::Pm(PmStep::Check), Verdict::Plan(work)) => vec![Change::Planned { work, limits }],
        (Step::Pm(PmStep::Criteria), Verdict::Criteria { failed }) => {
            let ran = Change::CriteriaRan { failed };
            if state.final_checks_left == 0 { vec![ran, Change::CompletionAsked] } else { vec![ran] }
        }
        (Step::Pm(PmStep::Check), Verdict::Complete) => {
            let failing = state.failing_unskipped_criteria();
            if state.groups_are_done() && failing.is_empty() {
                vec![Change::Accepted]
            } else if state.final_checks_left == 0 {
                vec![Change::Refused { failing }, Change::CompletionAsked]
            } else {
                vec![Change::Refused { failing }]
            }
        }
        (Step::Pm(PmStep::Decision), Verdict::Choice(choice)) => vec![Change::CompletionChosen { choice }],
        // After a stop the run has failed already; `retry` finds the merge done.
        (Step::Pm(PmStep::Merge), Verdict::FastForwarded) if !state.failed.contains(step) => {
            vec![Change::FastForwarded]
        }
        (Step::Group(id, Role::Decision), Verdict::Choice(choice)) => {
            vec![Change::Chosen { group: id.clone(), choice }]
        }
        (Step::Group(id, _), verdict) => {
            let Some(group) = state.groups.get(id) else { return Vec::new() };
            transition(group.stage, &verdict).map(|to| advance(id, group, to, &verdict)).into_iter().collect()
        }
        (Step::Pm(_), _) => Vec::new(),
    }
}

/// Moves a group, unless a person has to decide first.
fn advance(id: &GroupId, group: &Group, to: Stage, verdict: &Verdict) -> Change {
    let blocking = match verdict {
        Verdict::TechLead(TechLeadVerdict::ChangesRequested { blocking }) => Some(*blocking),
        Verdict::TechLead(TechLeadVerdict::Approved | TechLeadVerdict::Unblocked)
        | Verdict::Plan(_)
        | Verdict::Complete
        | Verdict::Criteria { .. }
        | Verdict::FastForwarded
        | Verdict::Developer(_)
        | Verdict::Qa(_)
        | Verdict::Merge(_)
        | Verdict::Choice(_) => None,
    };
    match group.exceeded_limit(to, blocking) {
        Some(reason) => Change::Asked { group: id.clone(), to, reason },
        None => Change::Moved { group: id.clone(), to, blocking },
    }
}

/// Returns the change that follows if all attempts of a step failed.
fn exhausted(state: &State, step: Step) -> Change {
    let Step::Group(id, role) = &step else { return Change::Failed { step } };
    let stage = state.groups.get(id).map_or(Stage::Develop(DevelopReason::New), |group| group.stage);
    let group = id.clone();
    match role {
        Role::Developer => Change::Moved { group, to: Stage::Unblock(Blocked::Developer), blocking: None },
        Role::Qa => Change::Moved { group, to: Stage::Unblock(Blocked::Qa), blocking: None },
        Role::TechLead => Change::Asked { group, to: stage, reason: DecisionReason::TechLead },
        Role::Merge => Change::Asked { group, to: stage, reason: DecisionReason::Merge },
        // A person has no attempts.
        Role::Decision => Change::Failed { step },
    }
}

impl State {
    /// Returns whether a person has failed the run.
    fn is_given_up(&self) -> bool {
        self.final_stage == FinalStage::Failed
            || self.groups.values().any(|group| matches!(group.progress, GroupProgress::Failed(_)))
    }

    fn add_groups(&mut self, work: &PlannedWork, limits: &Limits) {
        let first = self.groups.values().map(|group| group.position + 1).max().unwrap_or(0);
        for (position, planned) in (first..).zip(&work.groups) {
            self.groups.insert(planned.id.clone(), Group::new(planned, position, limits));
        }
        self.final_stage = FinalStage::Criteria;
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Planned { work, limits } => {
                // Criteria are fixed with the first plan.
                if self.groups.is_empty() {
                    self.criteria.clone_from(&work.criteria);
                }
                self.failed.remove(&Step::PLAN);
                self.failed.remove(&Step::Pm(PmStep::Check));
                self.add_groups(work, limits);
            }
            Change::Replaced { group, work, limits } => {
                self.failed.remove(&Step::PLAN);
                self.replace(group, work, limits);
            }
            Change::Moved { group, to, blocking } => {
                self.clear_failed(group);
                let group = self.group_mut(group);
                (group.stage, group.progress) = (*to, GroupProgress::Open);
                group.blocking = blocking.or(group.blocking);
                group.use_turn();
                group.clear_counters_if_done();
            }
            Change::Asked { group, to, reason } => {
                self.clear_failed(group);
                let group = self.group_mut(group);
                (group.stage, group.progress, group.blocking) = (*to, GroupProgress::Asks(*reason), None);
            }
            Change::Chosen { group, choice } => {
                self.clear_failed(group);
                let group = self.group_mut(group);
                group.progress = group.progress.after(*choice);
                if group.progress == GroupProgress::Open {
                    group.use_turn();
                }
                group.clear_counters_if_done();
            }
            Change::CriteriaRan { failed } => {
                self.failed.remove(&Step::Pm(PmStep::Criteria));
                self.failing.clone_from(failed);
                self.enter_final_check();
            }
            Change::Refused { .. } => {
                self.failed.remove(&Step::Pm(PmStep::Check));
                self.enter_final_check();
            }
            Change::CompletionAsked => self.final_stage = FinalStage::Asks,
            Change::CompletionChosen { choice } => {
                self.failed.remove(&Step::Pm(PmStep::Decision));
                self.final_stage = match choice {
                    Choice::Continue | Choice::Split => FinalStage::Check,
                    Choice::Accept | Choice::Skip => FinalStage::Merge,
                    Choice::Fail => FinalStage::Failed,
                };
            }
            Change::Accepted => {
                self.failed.remove(&Step::Pm(PmStep::Check));
                self.final_stage = FinalStage::Merge;
            }
            Change::FastForwarded => {
                self.failed.remove(&Step::Pm(PmStep::Merge));
                self.final_stage = FinalStage::FastForwarded;
            }
            Change::Failed { step } => {
                self.failed.insert(step.clone());
            }
            Change::Retried { step } => self.retry(step),
            Change::Imported { state } => self.clone_from(state),
        }
    }

    /// Goes to the final check, which uses one of those that are left.
    fn enter_final_check(&mut self) {
        self.final_checks_left = self.final_checks_left.saturating_sub(1);
        self.final_stage = FinalStage::Check;
    }

    /// Replaces a group by smaller ones. What waited for it waits for them.
    fn replace(&mut self, old: &GroupId, work: &PlannedWork, limits: &Limits) {
        let (phase, after) = {
            let group = self.group_mut(old);
            group.progress = GroupProgress::Split;
            group.clear_counters_if_done();
            (group.phase, group.after.clone())
        };
        let new: BTreeSet<_> = work.groups.iter().map(|group| group.id.clone()).collect();
        for group in self.groups.values_mut().filter(|group| group.after.contains(old)) {
            group.after.extend(new.iter().cloned());
        }
        for criterion in self.criteria.iter_mut().filter(|criterion| criterion.groups.contains(old)) {
            criterion.groups.extend(new.iter().cloned());
        }
        self.add_groups(work, limits);
        for id in &new {
            let group = self.group_mut(id);
            group.phase = phase;
            group.after.extend(after.iter().cloned());
        }
    }

    fn retry(&mut self, step: &Step) {
        self.failed.remove(step);
        match step {
            Step::Group(id, Role::Decision) => {
                let group = self.group_mut(id);
                if let GroupProgress::Failed(reason) = group.progress {
                    group.progress = GroupProgress::Asks(reason);
                }
            }
            Step::Pm(PmStep::Decision) if self.final_stage == FinalStage::Failed => {
                self.final_stage = FinalStage::Asks;
            }
            Step::Pm(_) | Step::Group(..) => {}
        }
    }

    /// Removes the steps of the group from the failed ones, because the group has moved on.
    fn clear_failed(&mut self, group: &GroupId) {
        self.failed.retain(|step| step.group() != Some(group));
    }

    fn group_mut(&mut self, id: &GroupId) -> &mut Group {
        self.groups.get_mut(id).unwrap_or_else(|| panic!("BUG: the state has no group `{id}`"))
    }

    /// Returns whether the change can be applied.
    pub(super) fn can_apply(&self, change: &Change) -> bool {
        match change {
            Change::Planned { work, .. } => {
                !work.groups.is_empty()
                    && work.groups.iter().all(|group| !self.groups.contains_key(&group.id))
            }
            Change::Replaced { group, work, .. } => {
                self.groups.contains_key(group)
                    && work.groups.iter().all(|group| !self.groups.contains_key(&group.id))
            }
            Change::Moved { group, .. } | Change::Asked { group, .. } | Change::Chosen { group, .. } => {
                self.groups.contains_key(group)
            }
            Change::Failed { step } | Change::Retried { step } => self.has_step(step),
            Change::CriteriaRan { .. }
            | Change::Refused { .. }
            | Change::CompletionAsked
            | Change::CompletionChosen { .. }
            | Change::Accepted
            | Change::FastForwarded
            | Change::Imported { .. } => true,
        }
    }
}
