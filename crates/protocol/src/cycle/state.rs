//! The state of a cycle: its stage, and the steps that can work now.
//!
//! The phases and their roles: `ra` (analyst) writes the requirements, `ep` (planner) explores and plans, `cd` (developer)
//! codes, `vas` (validator) validates. A step is in a turn from when it is queued until it has a result.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::decide::Change;
use super::definition::{Definition, Overlap};
use super::step::{PlannedTask, Raised, RaisedItem, RaisedKind, Role, Step};
use crate::StepId;
use crate::protocol_trait::StepStatus;

/// How often a task has another turn because its merge failed. After that it is left to the next iteration.
const MAX_MERGE_RETRIES: u32 = 2;

/// The state of a cycle: ids and numbers only. Texts and times are in the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// 0 before the first iteration.
    pub iteration: u32,
    pub max_iterations: u32,
    pub stage: Stage,
    /// The steps that run in parallel with a phase ([`Overlap::On`]) and have ended in this iteration, successful or
    /// not.
    pub overlap_ended: BTreeSet<Step>,
    /// The tasks that are coded in steps of their own.
    pub tasks: BTreeMap<StepId, Task>,
    /// The steps that have another turn in this iteration, because they needed an answer.
    pub repeated: BTreeSet<Step>,
    /// Decisions and blockers that are unanswered, or answered and not yet used by the phase that needs them.
    pub items: BTreeMap<RaisedItem, ItemState>,
    /// How many decisions and blockers were raised since the cycle began.
    pub decisions: u32,
    pub blockers: u32,
    pub findings: BTreeSet<Finding>,
    /// `cd` has bugs to fix in this iteration, so its work is not split into tasks.
    pub has_bugs: bool,
    /// How many extensions (requirements that a user added) wait for an iteration.
    pub extensions: u32,
    /// Why the cycle has failed; `None` otherwise.
    pub failure_cause: Option<FailureCause>,
}

/// The phase that is worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Created,
    #[serde(rename = "ra")]
    Requirements,
    #[serde(rename = "ep")]
    Planning,
    #[serde(rename = "cd")]
    Coding,
    /// The engine runs the checks.
    Test,
    #[serde(rename = "vas")]
    Validation,
    /// All four phases are done, and the iteration is evaluated.
    Aggregation,
    /// The base branch is fast-forwarded.
    FastForward,
    Complete,
}

impl Stage {
    /// Returns what follows the code: the checks, if there are any.
    pub(super) fn after_code(definition: &Definition) -> Self {
        if definition.checks.is_empty() { Self::Validation } else { Self::Test }
    }
}

/// What an iteration leaves open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Tests or checks fail, the validation is partial, or there are critical issues.
    FailingTests,
    /// `cd` has reported issues.
    OpenIssues,
    /// The plan is partial, or some of its tasks are not completed.
    IncompletePlan,
}

/// A task of the plan that is coded in a step of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    pub status: TaskProgress,
    pub depends_on: Vec<StepId>,
    pub conflicts_with: Vec<StepId>,
    /// How often its merge has failed.
    pub conflicts: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskProgress {
    Open,
    /// Its step is in a turn.
    Asked,
    /// Its branch is to be merged.
    Coded,
    /// Its report says that it is not complete, and its branch is to be merged.
    PartlyCoded,
    Merged,
    /// Merged, and not complete.
    PartlyMerged,
    /// Its merge failed too often.
    Blocked,
}

impl TaskProgress {
    /// Returns whether its step or its merge is in a turn.
    pub(super) fn is_busy(self) -> bool {
        match self {
            Self::Asked | Self::Coded | Self::PartlyCoded => true,
            Self::Open | Self::Merged | Self::PartlyMerged | Self::Blocked => false,
        }
    }
}

/// A decision or a blocker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ItemState {
    /// The phase that waits for the answer.
    pub needed_by: Role,
    pub status: ItemStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemStatus {
    Pending,
    Answered,
}

/// Why the cycle has failed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// The step has no attempts left.
    Failed(Step),
    /// A user stopped it.
    Stopped,
}

impl State {
    pub(super) fn new(definition: &Definition) -> Self {
        Self {
            iteration: 0,
            max_iterations: definition.max_iterations,
            stage: Stage::Created,
            overlap_ended: BTreeSet::new(),
            tasks: BTreeMap::new(),
            repeated: BTreeSet::new(),
            items: BTreeMap::new(),
            decisions: 0,
            blockers: 0,
            findings: BTreeSet::new(),
            has_bugs: false,
            extensions: 0,
            failure_cause: None,
        }
    }

    /// Returns whether a phase waits for a person.
    pub(super) fn is_blocked(&self, role: Role) -> bool {
        self.items.values().any(|item| item.needed_by == role && item.status == ItemStatus::Pending)
    }

    /// Returns whether the iteration leaves something open.
    pub(super) fn has_problems(&self) -> bool {
        !self.findings.is_empty() || !self.items.is_empty()
    }

    /// Returns the item that a report raises, with the next number of its kind.
    pub(super) fn next_item(&self, raised: Raised) -> RaisedItem {
        match raised.kind {
            RaisedKind::Decision => RaisedItem::Decision(self.decisions + 1),
            RaisedKind::Blocker => RaisedItem::Blocker(self.blockers + 1),
        }
    }

    /// Returns the steps that must be in a turn now.
    pub(super) fn due_steps(&self, definition: &Definition) -> Vec<Step> {
        let pending = self.items.iter().filter(|(_, item)| item.status == ItemStatus::Pending);
        if self.failure_cause.is_some() || self.stage == Stage::Complete {
            return Vec::new();
        }
        let mut steps: Vec<_> = pending.map(|(item, _)| Step::Answer(*item)).collect();
        let is_outstanding =
            |step: Step| definition.overlap == Overlap::On && !self.overlap_ended.contains(&step);
        let phase = |role: Role| (!self.is_blocked(role)).then_some(Step::Phase(role));
        match self.stage {
            Stage::Requirements => {
                steps.extend(phase(Role::Analyst));
                steps.extend(is_outstanding(Step::Explore).then_some(Step::Explore));
            }
            Stage::Planning => {
                steps.extend(if is_outstanding(Step::Explore) {
                    Some(Step::Explore)
                } else {
                    phase(Role::Planner)
                });
                steps.extend(is_outstanding(Step::Baseline).then_some(Step::Baseline));
            }
            // The baseline is a test run of the code before this iteration.
            Stage::Coding if is_outstanding(Step::Baseline) => steps.push(Step::Baseline),
            Stage::Coding if self.tasks.is_empty() => steps.extend(phase(Role::Developer)),
            Stage::Coding => steps.extend(self.tasks.iter().filter_map(|(id, task)| match task.status {
                TaskProgress::Asked => Some(Step::Task(id.clone())),
                TaskProgress::Coded | TaskProgress::PartlyCoded => Some(Step::Merge(id.clone())),
                TaskProgress::Open
                | TaskProgress::Merged
                | TaskProgress::PartlyMerged
                | TaskProgress::Blocked => None,
            })),
            Stage::Test => steps.push(Step::Test),
            Stage::Validation => steps.extend(phase(Role::Validator)),
            Stage::FastForward => steps.push(Step::FastForward),
            Stage::Created | Stage::Aggregation | Stage::Complete => {}
        }
        steps
    }

    /// Returns the open tasks that can get a turn now: within the limit, after what they depend on, and never in
    /// parallel with a task that changes the same files.
    pub(super) fn ready_tasks(&self, definition: &Definition) -> Vec<StepId> {
        let waits_for_baseline =
            definition.overlap == Overlap::On && !self.overlap_ended.contains(&Step::Baseline);
        if self.stage != Stage::Coding || waits_for_baseline || self.is_blocked(Role::Developer) {
            return Vec::new();
        }
        let busy = self.tasks.iter().filter(|(_, task)| task.status.is_busy());
        let mut busy: BTreeSet<_> = busy.map(|(id, _)| id.clone()).collect();
        let mut ready = Vec::new();
        for (id, task) in &self.tasks {
            let is_merged =
                |id: &StepId| self.tasks.get(id).is_none_or(|task| task.status == TaskProgress::Merged);
            let is_ready = task.status == TaskProgress::Open
                && task.depends_on.iter().all(is_merged)
                && !task.conflicts_with.iter().any(|other| busy.contains(other));
            if is_ready && busy.len() < definition.parallel as usize {
                busy.insert(id.clone());
                ready.push(id.clone());
            }
        }
        ready
    }

    /// Returns the step that has failed: the one without attempts left, or, after a stop, the first that would be in a
    /// turn. A retry of it continues every stopped step.
    pub(super) fn failed_step(&self, definition: &Definition) -> Option<Step> {
        match self.failure_cause.as_ref()? {
            FailureCause::Failed(step) => Some(step.clone()),
            FailureCause::Stopped => {
                let resumed = Self { failure_cause: None, ..self.clone() };
                let mut due_steps = resumed.due_steps(definition).into_iter();
                let first = due_steps.find(|step| !matches!(step, Step::Answer(_)));
                first.or(Some(match self.stage {
                    Stage::Created | Stage::Requirements => Step::Phase(Role::Analyst),
                    Stage::Planning => Step::Phase(Role::Planner),
                    Stage::Coding => Step::Phase(Role::Developer),
                    Stage::Test => Step::Test,
                    Stage::Validation | Stage::Aggregation => Step::Phase(Role::Validator),
                    Stage::FastForward | Stage::Complete => Step::FastForward,
                }))
            }
        }
    }

    /// Returns all steps of this iteration in reading order.
    pub(super) fn steps(&self, definition: &Definition) -> Vec<Step> {
        let overlaps = definition.overlap == Overlap::On;
        let mut steps = vec![Step::Phase(Role::Analyst)];
        steps.extend(overlaps.then_some(Step::Explore));
        steps.push(Step::Phase(Role::Planner));
        steps.extend(overlaps.then_some(Step::Baseline));
        if self.tasks.is_empty() {
            steps.push(Step::Phase(Role::Developer));
        }
        steps.extend(self.tasks.keys().flat_map(|id| [Step::Task(id.clone()), Step::Merge(id.clone())]));
        steps.extend((!definition.checks.is_empty()).then_some(Step::Test));
        steps.push(Step::Phase(Role::Validator));
        steps.extend((1..=self.decisions).map(|number| Step::Answer(RaisedItem::Decision(number))));
        steps.extend((1..=self.blockers).map(|number| Step::Answer(RaisedItem::Blocker(number))));
        steps.extend(super::decide::fast_forwards(definition).then_some(Step::FastForward));
        steps
    }

    /// Returns the status of a step in this iteration.
    pub(super) fn status(&self, definition: &Definition, step: &Step) -> StepStatus {
        if self.failed_step(definition).as_ref() == Some(step) {
            return StepStatus::Failed;
        }
        let is_done = match step {
            Step::Phase(Role::Analyst) => self.stage > Stage::Requirements,
            Step::Phase(Role::Planner) => self.stage > Stage::Planning,
            Step::Phase(Role::Developer) => self.stage > Stage::Coding,
            Step::Phase(Role::Validator) => self.stage > Stage::Validation,
            Step::Test => self.stage > Stage::Test,
            Step::FastForward => self.stage == Stage::Complete,
            Step::Explore | Step::Baseline => self.overlap_ended.contains(step),
            Step::Task(id) => {
                let task = self.tasks.get(id).map_or(TaskProgress::Open, |task| task.status);
                task != TaskProgress::Open && task != TaskProgress::Asked
            }
            Step::Merge(id) => self
                .tasks
                .get(id)
                .is_some_and(|task| !task.status.is_busy() && task.status != TaskProgress::Open),
            Step::Answer(item) => self.items.get(item).is_none_or(|item| item.status == ItemStatus::Answered),
        };
        if is_done { StepStatus::Succeeded } else { StepStatus::Unfinished }
    }

    /// Returns whether `change` can be applied to this state.
    pub(super) fn can_apply(&self, change: &Change) -> bool {
        match change {
            Change::IterationOpened { number, .. } => *number == self.iteration + 1,
            Change::Raised { item, .. } => match item {
                RaisedItem::Decision(number) => *number == self.decisions + 1,
                RaisedItem::Blocker(number) => *number == self.blockers + 1,
            },
            Change::Answered { item, .. } | Change::Implemented { item } => self.items.contains_key(item),
            Change::TaskAsked { task } | Change::TaskCoded { task, .. } | Change::TaskMerged { task } => {
                self.tasks.contains_key(task)
            }
            Change::TaskMergeFailed { task } => self.tasks.contains_key(task),
            Change::LimitRaised { .. }
            | Change::Extended
            | Change::PhaseDone { .. }
            | Change::OverlapStepEnded { .. }
            | Change::Repeated { .. }
            | Change::TasksPlanned { .. }
            | Change::Tested
            | Change::Found { .. }
            | Change::IterationClosed { .. }
            | Change::FastForwarding
            | Change::Completed
            | Change::Failed { .. }
            | Change::Stopped
            | Change::Retried => true,
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::IterationOpened { number, extension, has_bugs } => {
                self.iteration = *number;
                self.stage = Stage::Requirements;
                self.overlap_ended.clear();
                self.tasks.clear();
                self.repeated.clear();
                self.findings.clear();
                self.has_bugs = *has_bugs;
                self.failure_cause = None;
                self.extensions = self.extensions.saturating_sub(u32::from(*extension));
            }
            Change::LimitRaised { to } => self.max_iterations = *to,
            Change::Extended => self.extensions += 1,
            Change::Raised { item, needed_by } => {
                match item {
                    RaisedItem::Decision(number) => self.decisions = *number,
                    RaisedItem::Blocker(number) => self.blockers = *number,
                }
                let state = ItemState { needed_by: *needed_by, status: ItemStatus::Pending };
                self.items.insert(*item, state);
            }
            Change::Answered { item, .. } => {
                if let Some(item) = self.items.get_mut(item) {
                    item.status = ItemStatus::Answered;
                }
            }
            Change::Implemented { item } => {
                self.items.remove(item);
            }
            Change::PhaseDone { stage } => self.stage = *stage,
            Change::OverlapStepEnded { step } => {
                self.overlap_ended.insert(step.clone());
            }
            Change::Repeated { step } => {
                self.repeated.insert(step.clone());
                if let Step::Task(task) = step {
                    self.set_task(task, TaskProgress::Open);
                }
            }
            Change::TasksPlanned { tasks } => self.tasks = tasks.iter().map(new_task).collect(),
            Change::TaskAsked { task } => self.set_task(task, TaskProgress::Asked),
            Change::TaskCoded { task, complete: true } => self.set_task(task, TaskProgress::Coded),
            Change::TaskCoded { task, complete: false } => self.set_task(task, TaskProgress::PartlyCoded),
            Change::TaskMerged { task } => {
                let is_partial =
                    self.tasks.get(task).is_some_and(|task| task.status == TaskProgress::PartlyCoded);
                self.set_task(
                    task,
                    if is_partial { TaskProgress::PartlyMerged } else { TaskProgress::Merged },
                );
            }
            Change::TaskMergeFailed { task } => {
                if let Some(task) = self.tasks.get_mut(task) {
                    task.conflicts += 1;
                    task.status = if task.conflicts > MAX_MERGE_RETRIES {
                        TaskProgress::Blocked
                    } else {
                        TaskProgress::Open
                    };
                }
            }
            Change::Tested => self.stage = Stage::Validation,
            Change::Found { finding } => {
                self.findings.insert(*finding);
            }
            Change::IterationClosed { .. } => {}
            Change::FastForwarding => self.stage = Stage::FastForward,
            Change::Completed => self.stage = Stage::Complete,
            Change::Failed { step } => self.failure_cause = Some(FailureCause::Failed(step.clone())),
            Change::Stopped => self.failure_cause = Some(FailureCause::Stopped),
            Change::Retried => self.failure_cause = None,
        }
    }

    fn set_task(&mut self, task: &StepId, status: TaskProgress) {
        if let Some(task) = self.tasks.get_mut(task) {
            task.status = status;
        }
    }
}

/// Returns the state of a task that was just planned.
fn new_task(PlannedTask { id, depends_on, conflicts_with }: &PlannedTask) -> (StepId, Task) {
    let task = Task {
        status: TaskProgress::Open,
        depends_on: depends_on.clone(),
        conflicts_with: conflicts_with.clone(),
        conflicts: 0,
    };
    (id.clone(), task)
}
