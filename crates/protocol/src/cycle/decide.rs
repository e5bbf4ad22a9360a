//! The transition table of the protocol `cycle`.
//!
//! The phases: `ra` writes the requirements, `ep` explores and plans, `cd` codes, `vas` validates.

use serde::{Deserialize, Serialize};

use super::definition::{DecisionMode, Definition, MergeMode};
use super::state::{Finding, ItemStatus, Stage, State, TaskProgress};
use super::step::{Completeness, PlannedTask, Problems, Raised, RaisedItem, RaisedKind, Role, Step, Verdict};
use crate::StepId;
use crate::protocol_trait::{Deferred, Event, Move, Next, Outcome, RequestRefusal};

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "transition")]
pub enum Change {
    /// An iteration begins. `extension`: it works on the oldest queued extension. `has_bugs`: `cd` has bugs to fix.
    IterationOpened {
        number: u32,
        extension: bool,
        has_bugs: bool,
    },
    /// The iteration limit has changed.
    LimitRaised {
        to: u32,
    },
    /// An extension, which adds requirements, is queued.
    Extended,
    /// A report has raised a decision or a blocker.
    Raised {
        item: RaisedItem,
        needed_by: Role,
    },
    Answered {
        item: RaisedItem,
        by: AnsweredBy,
    },
    /// The phase that needed the answer has reported.
    Implemented {
        item: RaisedItem,
    },
    /// A phase is done, and this stage is next.
    PhaseDone {
        stage: Stage,
    },
    /// A step that runs in parallel with a phase has ended: `ep.explore` or `vas.baseline`.
    OverlapStepEnded {
        step: Step,
    },
    /// The step is asked again in this iteration, after an answer.
    Repeated {
        step: Step,
    },
    /// The tasks are coded in steps of their own.
    TasksPlanned {
        tasks: Vec<PlannedTask>,
    },
    TaskAsked {
        task: StepId,
    },
    TaskCoded {
        task: StepId,
        complete: bool,
    },
    TaskMerged {
        task: StepId,
    },
    /// The merge of the task failed; the task may be coded again.
    TaskMergeFailed {
        task: StepId,
    },
    /// The checks have run.
    Tested,
    /// The iteration leaves something open.
    Found {
        finding: Finding,
    },
    IterationClosed {
        resolved: bool,
    },
    /// Nothing is open: the base branch is fast-forwarded next.
    FastForwarding,
    Completed,
    Failed {
        step: Step,
    },
    Stopped,
    /// A user retries a failed cycle.
    Retried,
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    Person,
    /// The engine took the recommended option.
    Auto,
}

/// The request that only a cycle knows: another iteration with more requirements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request")]
pub enum Request {
    Extend {
        text: String,
        /// Raises the iteration limit first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_iterations: Option<u32>,
    },
}

/// Returns whether the engine fast-forwards the base branch.
pub(super) fn fast_forwards(definition: &Definition) -> bool {
    match definition.merge_mode {
        MergeMode::FastForward => true,
        MergeMode::InPlace | MergeMode::Branch => false,
    }
}

/// Builds a [`Move`]: changes of the state, and what the run does next. Each change is applied to a copy of the state,
/// so that the next one depends on it.
struct Draft<'a> {
    definition: &'a Definition,
    state: State,
    changes: Vec<Change>,
}

impl<'a> Draft<'a> {
    fn new(definition: &'a Definition, state: &State) -> Self {
        Self { definition, state: state.clone(), changes: Vec::new() }
    }

    /// Adds a change to the move and applies it to the copy of the state.
    fn apply(&mut self, change: Change) {
        self.state.apply(&change);
        self.changes.push(change);
    }

    /// Adds a finding if there are problems; each finding once per iteration.
    fn add_finding(&mut self, finding: Finding, problems: Problems) {
        match problems {
            Problems::None => {}
            Problems::Some if self.state.findings.contains(&finding) => {}
            Problems::Some => self.apply(Change::Found { finding }),
        }
    }

    /// Opens the decisions and blockers of a report.
    fn raise(&mut self, raised: Vec<Raised>) {
        for raised in raised {
            let item = self.state.next_item(raised);
            self.apply(Change::Raised { item, needed_by: raised.needed_by });
            if raised.kind == RaisedKind::Decision && self.definition.decisions == DecisionMode::Auto {
                self.apply(Change::Answered { item, by: AnsweredBy::Auto });
            }
        }
    }

    /// Asks the step again if it needs an answer itself, at most once per iteration. Returns whether it is asked again.
    fn repeat_if_waiting(&mut self, step: &Step, role: Role, raised: &[Raised]) -> bool {
        let needs_answer = raised.iter().any(|raised| raised.needed_by == role);
        let is_repeated = needs_answer && !self.state.repeated.contains(step);
        if is_repeated {
            self.apply(Change::Repeated { step: step.clone() });
        }
        is_repeated
    }

    /// Ends a phase. The decisions and blockers that were answered for it become implemented.
    fn end_phase(&mut self, role: Role, next: Stage) {
        let is_answered =
            |state: &super::state::ItemState| state.needed_by == role && state.status == ItemStatus::Answered;
        let implemented: Vec<_> =
            self.state.items.iter().filter(|(_, state)| is_answered(state)).map(|(item, _)| *item).collect();
        for item in implemented {
            self.apply(Change::Implemented { item });
        }
        self.apply(Change::PhaseDone { stage: next });
    }

    fn end_coding(&mut self) {
        self.end_phase(Role::Developer, Stage::after_code(self.definition));
    }

    /// Ends the coding if no task is in a turn and none can get one.
    fn end_tasks_if_done(&mut self) {
        let is_busy = self.state.tasks.values().any(|task| task.status.is_busy());
        let is_blocked = self.state.is_blocked(Role::Developer);
        if is_busy || is_blocked || !self.state.ready_tasks(self.definition).is_empty() {
            return;
        }
        let is_complete = self.state.tasks.values().all(|task| task.status == TaskProgress::Merged);
        self.add_finding(Finding::IncompletePlan, Problems::some_if(!is_complete));
        self.end_coding();
    }

    fn open_iteration(&mut self) {
        let number = self.state.iteration + 1;
        // Bugs stay open if the iteration failed before the end of its `cd`.
        let has_old_bugs = self.state.has_bugs && self.state.stage <= Stage::Coding;
        let has_bugs = has_old_bugs || self.state.findings.contains(&Finding::FailingTests);
        self.apply(Change::IterationOpened { number, extension: self.state.extensions > 0, has_bugs });
    }

    /// Returns the move: ready tasks and the steps that are due get a turn, or the run finishes.
    fn into_move(mut self) -> Move<Change, Step> {
        for task in self.state.ready_tasks(self.definition) {
            self.apply(Change::TaskAsked { task });
        }
        let next = if self.state.failure_cause.is_some() {
            Next::Finish(Outcome::Failed)
        } else if self.state.stage != Stage::Complete {
            Next::QueueUnlessInTurn(self.state.due_steps(self.definition))
        } else if self.state.has_problems() {
            Next::Finish(Outcome::Incomplete)
        } else {
            Next::Finish(Outcome::Succeeded)
        };
        Move { changes: self.changes, next }
    }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<Step, Verdict>,
) -> Move<Change, Step> {
    let mut draft = Draft::new(definition, state);
    match event {
        // The first iteration is a deferred transition, so that the first document is that of a new cycle.
        Event::Opened => {}
        Event::Reported { step, verdict } => reported(&mut draft, step, verdict),
        // The cycle goes on without the results of these two.
        Event::Exhausted { step: step @ (Step::Explore | Step::Baseline) } => {
            draft.apply(Change::OverlapStepEnded { step });
        }
        Event::Exhausted { step } => draft.apply(Change::Failed { step }),
        Event::Retried { .. } => draft.apply(Change::Retried),
        // The module `run` refuses to skip a step of a cycle.
        Event::Skipped { .. } => {}
    }
    draft.into_move()
}

fn reported(draft: &mut Draft<'_>, step: Step, verdict: Verdict) {
    match (step, verdict) {
        (step @ Step::Phase(role), Verdict::Specified { raised }) => {
            let is_repeated = draft.repeat_if_waiting(&step, role, &raised);
            draft.raise(raised);
            if !is_repeated {
                draft.end_phase(role, Stage::Planning);
            }
        }
        (step, Verdict::Blocked { raised }) => {
            draft.raise(raised);
            draft.apply(Change::Repeated { step });
        }
        (step, Verdict::Explored { raised }) => {
            draft.raise(raised);
            draft.apply(Change::OverlapStepEnded { step });
        }
        (step, Verdict::BaselineTested) => draft.apply(Change::OverlapStepEnded { step }),
        (step @ Step::Phase(role), Verdict::Planned { tasks, completeness, raised }) => {
            let is_repeated = draft.repeat_if_waiting(&step, role, &raised);
            draft.raise(raised);
            if !is_repeated {
                draft.add_finding(
                    Finding::IncompletePlan,
                    Problems::some_if(completeness == Completeness::Incomplete),
                );
                if draft.definition.parallel > 1 && tasks.len() > 1 && !draft.state.has_bugs {
                    draft.apply(Change::TasksPlanned { tasks });
                }
                draft.end_phase(role, Stage::Coding);
            }
        }
        (step @ Step::Phase(role), Verdict::Coded { completeness, problems, raised }) => {
            let is_repeated = draft.repeat_if_waiting(&step, role, &raised);
            draft.raise(raised);
            if !is_repeated {
                draft.add_finding(
                    Finding::IncompletePlan,
                    Problems::some_if(completeness == Completeness::Incomplete),
                );
                draft.add_finding(Finding::OpenIssues, problems);
                draft.end_coding();
            }
        }
        (step @ Step::Task(_), Verdict::Coded { completeness, problems, raised }) => {
            let is_repeated = draft.repeat_if_waiting(&step, Role::Developer, &raised);
            draft.raise(raised);
            if let (Step::Task(task), false) = (step, is_repeated) {
                draft.add_finding(Finding::OpenIssues, problems);
                draft.apply(Change::TaskCoded { task, complete: completeness == Completeness::Complete });
            }
        }
        (Step::Merge(task), Verdict::Merged) => {
            draft.apply(Change::TaskMerged { task });
            draft.end_tasks_if_done();
        }
        (Step::Merge(task), Verdict::Conflict) => {
            draft.apply(Change::TaskMergeFailed { task });
            draft.end_tasks_if_done();
        }
        (Step::Test, Verdict::Tested { problems }) => {
            draft.add_finding(Finding::FailingTests, problems);
            draft.apply(Change::Tested);
        }
        (step @ Step::Phase(role), Verdict::Validated { problems, raised }) => {
            let is_repeated = draft.repeat_if_waiting(&step, role, &raised);
            draft.raise(raised);
            if !is_repeated {
                draft.add_finding(Finding::FailingTests, problems);
                draft.end_phase(role, Stage::Aggregation);
            }
        }
        (Step::Answer(item), Verdict::Answered) => {
            draft.apply(Change::Answered { item, by: AnsweredBy::Person });
            if draft.state.stage == Stage::Coding && !draft.state.tasks.is_empty() {
                draft.end_tasks_if_done();
            }
        }
        (Step::FastForward, Verdict::FastForwarded)
            if draft.state.extensions > 0 && draft.state.failure_cause.is_none() =>
        {
            draft.open_iteration();
        }
        (Step::FastForward, Verdict::FastForwarded) => draft.apply(Change::Completed),
        (step, verdict) => panic!("BUG: `{step}` cannot report {verdict:?}"),
    }
}

/// Returns what happens without an event: the first iteration begins, and an iteration is evaluated.
pub(super) fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, Step>> {
    if state.failure_cause.is_some() {
        return None;
    }
    let mut draft = Draft::new(definition, state);
    match state.stage {
        Stage::Created => draft.open_iteration(),
        Stage::Aggregation => evaluate_iteration(&mut draft),
        Stage::Requirements
        | Stage::Planning
        | Stage::Coding
        | Stage::Test
        | Stage::Validation
        | Stage::FastForward
        | Stage::Complete => {
            return None;
        }
    }
    Some(Deferred { must_be_idle: std::collections::BTreeSet::new(), transition: draft.into_move() })
}

/// Closes the iteration, then opens the next one, fast-forwards or completes the cycle.
fn evaluate_iteration(draft: &mut Draft<'_>) {
    let has_problems = draft.state.has_problems();
    let has_more = has_problems || draft.state.extensions > 0;
    draft.apply(Change::IterationClosed { resolved: !has_problems });
    if has_more && draft.state.iteration < draft.state.max_iterations {
        draft.open_iteration();
    } else if !has_problems && fast_forwards(draft.definition) {
        draft.apply(Change::FastForwarding);
    } else {
        draft.apply(Change::Completed);
    }
}

/// Decides about an extension. A finished cycle is reopened; otherwise the extension waits for the end of the
/// iteration.
pub(super) fn consider(
    definition: &Definition,
    state: &State,
    request: &Request,
    outcome: Option<Outcome>,
) -> Result<Move<Change, Step>, RequestRefusal> {
    let Request::Extend { text, max_iterations } = request;
    let refused = |code, message| Err(RequestRefusal { code, message });
    if text.trim().is_empty() {
        return refused("empty_extension", "the extension is empty".to_owned());
    }
    let mut draft = Draft::new(definition, state);
    if let Some(to) = *max_iterations {
        if to < state.max_iterations {
            let limit = state.max_iterations;
            return refused(
                "limit_lowered",
                format!("its iteration limit is {limit} and cannot be lowered to {to}"),
            );
        }
        if to > state.max_iterations {
            draft.apply(Change::LimitRaised { to });
        }
    }
    draft.apply(Change::Extended);
    let limit = draft.state.max_iterations;
    if draft.state.iteration + draft.state.extensions > limit {
        return refused("iteration_limit", format!("it has used its limit of {limit} iterations"));
    }
    if outcome.is_some() {
        // Close the iteration that a failure or a stop has left open.
        if state.stage < Stage::FastForward && state.iteration > 0 {
            draft.apply(Change::IterationClosed { resolved: false });
        }
        draft.open_iteration();
        return Ok(draft.into_move());
    }
    Ok(Move { changes: draft.changes, next: Next::QueueUnlessInTurn(Vec::new()) })
}

/// Returns the move after a stop, which ends the cycle as failed.
pub(super) fn on_stop(definition: &Definition, state: &State) -> Move<Change, Step> {
    let mut draft = Draft::new(definition, state);
    draft.apply(Change::Stopped);
    draft.into_move()
}

/// Returns the move that applies the changes of an import and queues the steps that follow.
pub(super) fn decide_imported(definition: &Definition, changes: Vec<Change>) -> Move<Change, Step> {
    let mut draft = Draft::new(definition, &State::new(definition));
    changes.into_iter().for_each(|change| draft.apply(change));
    draft.into_move()
}
