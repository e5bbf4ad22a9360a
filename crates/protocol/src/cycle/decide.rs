//! The transition table of a cycle.

use serde::{Deserialize, Serialize};

use super::definition::{DecisionMode, Definition, MergeMode};
use super::state::{Finding, ItemStatus, Stage, State, TaskStatus};
use super::step::{Completeness, Item, PlannedTask, Problems, Raised, RaisedKind, Role, Step, Verdict};
use crate::StepId;
use crate::rules::{Deferred, Event, Move, Next, Outcome, RequestRefusal};

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "transition")]
pub enum Change {
    /// An iteration begins. `extension` says that it takes up the oldest queued extension.
    IterationOpened {
        number: u32,
        extension: bool,
        has_bugs: bool,
    },
    LimitRaised {
        to: u32,
    },
    /// An extension is queued.
    Extended,
    /// A report has raised a decision or a blocker.
    Raised {
        item: Item,
        needed_by: Role,
    },
    Answered {
        item: Item,
        by: AnsweredBy,
    },
    /// The phase that needed the answer has reported.
    Implemented {
        item: Item,
    },
    /// A phase is done, and this stage is next.
    PhaseDone {
        stage: Stage,
    },
    /// A step beside the phases has ended.
    AsideDone {
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
    /// The merge of the task failed.
    TaskRejected {
        task: StepId,
    },
    Tested,
    Found {
        finding: Finding,
    },
    IterationClosed {
        resolved: bool,
    },
    FastForwarding,
    Completed,
    Failed {
        step: Step,
    },
    Stopped,
    /// A user retries a failed cycle.
    Reopened,
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnsweredBy {
    Person,
    /// The engine took the recommended option.
    Auto,
}

/// What only a cycle can be asked: another iteration with more requirements.
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

/// Collects changes and applies each at once, so that later ones depend on the state after it.
struct Draft<'a> {
    definition: &'a Definition,
    state: State,
    changes: Vec<Change>,
}

impl<'a> Draft<'a> {
    fn new(definition: &'a Definition, state: &State) -> Self {
        Self { definition, state: state.clone(), changes: Vec::new() }
    }

    fn make(&mut self, change: Change) {
        self.state.apply(&change);
        self.changes.push(change);
    }

    fn find(&mut self, finding: Finding, problems: Problems) {
        match problems {
            Problems::None => {}
            Problems::Some if self.state.findings.contains(&finding) => {}
            Problems::Some => self.make(Change::Found { finding }),
        }
    }

    /// Opens the decisions and blockers of a report.
    fn raise(&mut self, raised: Vec<Raised>) {
        for raised in raised {
            let item = self.state.next_item(raised);
            self.make(Change::Raised { item, needed_by: raised.needed_by });
            if raised.kind == RaisedKind::Decision && self.definition.decisions == DecisionMode::Auto {
                self.make(Change::Answered { item, by: AnsweredBy::Auto });
            }
        }
    }

    /// Returns whether the step is asked again because it needs an answer itself. That happens once per iteration.
    fn repeats(&mut self, step: &Step, role: Role, raised: &[Raised]) -> bool {
        let needs_answer = raised.iter().any(|raised| raised.needed_by == role);
        let repeats = needs_answer && !self.state.repeated.contains(step);
        if repeats {
            self.make(Change::Repeated { step: step.clone() });
        }
        repeats
    }

    /// Ends a phase. What was answered for it is implemented.
    fn end_phase(&mut self, role: Role, next: Stage) {
        let is_taken_up =
            |state: &super::state::ItemState| state.needed_by == role && state.status == ItemStatus::Answered;
        let implemented: Vec<_> =
            self.state.items.iter().filter(|(_, state)| is_taken_up(state)).map(|(item, _)| *item).collect();
        for item in implemented {
            self.make(Change::Implemented { item });
        }
        self.make(Change::PhaseDone { stage: next });
    }

    fn end_coding(&mut self) {
        self.end_phase(Role::Cd, Stage::after_code(self.definition));
    }

    /// Ends the phase of the tasks, if none is busy and none can be asked.
    fn end_tasks_if_done(&mut self) {
        let is_quiet = !self.state.tasks.values().any(|task| task.status.is_busy());
        let waits = self.state.is_blocked(Role::Cd);
        if !is_quiet || waits || !self.state.askable(self.definition).is_empty() {
            return;
        }
        let is_complete = self.state.tasks.values().all(|task| task.status == TaskStatus::Merged);
        self.find(Finding::IncompletePlan, Problems::any(!is_complete));
        self.end_coding();
    }

    fn open_iteration(&mut self) {
        let number = self.state.iteration + 1;
        // Bugs that no `cd` has taken up, because the iteration failed before, stay.
        let has_old_bugs = self.state.has_bugs && self.state.stage <= Stage::Cd;
        let has_bugs = has_old_bugs || self.state.findings.contains(&Finding::FailingTests);
        self.make(Change::IterationOpened { number, extension: self.state.extensions > 0, has_bugs });
    }

    /// Returns the move: the steps of the frontier get a turn, or the run finishes.
    fn done(mut self) -> Move<Change, Step> {
        for task in self.state.askable(self.definition) {
            self.make(Change::TaskAsked { task });
        }
        let next = if self.state.end.is_some() {
            Next::Finish(Outcome::Failed)
        } else if self.state.stage != Stage::Complete {
            Next::Requeue(self.state.frontier(self.definition))
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
        Event::Exhausted { step: step @ (Step::Explore | Step::Baseline) } => {
            draft.make(Change::AsideDone { step });
        }
        Event::Exhausted { step } => draft.make(Change::Failed { step }),
        Event::Retried { .. } => draft.make(Change::Reopened),
        // The run layer refuses to skip.
        Event::Skipped { .. } => {}
    }
    draft.done()
}

fn reported(draft: &mut Draft<'_>, step: Step, verdict: Verdict) {
    match (step, verdict) {
        (step @ Step::Phase(role), Verdict::Specified { raised }) => {
            let repeats = draft.repeats(&step, role, &raised);
            draft.raise(raised);
            if !repeats {
                draft.end_phase(role, Stage::Ep);
            }
        }
        (step, Verdict::Blocked { raised }) => {
            draft.raise(raised);
            draft.make(Change::Repeated { step });
        }
        (step, Verdict::Explored { raised }) => {
            draft.raise(raised);
            draft.make(Change::AsideDone { step });
        }
        (step, Verdict::Measured) => draft.make(Change::AsideDone { step }),
        (step @ Step::Phase(role), Verdict::Planned { tasks, completeness, raised }) => {
            let repeats = draft.repeats(&step, role, &raised);
            draft.raise(raised);
            if !repeats {
                draft.find(Finding::IncompletePlan, Problems::any(completeness == Completeness::Incomplete));
                if draft.definition.parallel > 1 && tasks.len() > 1 && !draft.state.has_bugs {
                    draft.make(Change::TasksPlanned { tasks });
                }
                draft.end_phase(role, Stage::Cd);
            }
        }
        (step @ Step::Phase(role), Verdict::Coded { completeness, problems, raised }) => {
            let repeats = draft.repeats(&step, role, &raised);
            draft.raise(raised);
            if !repeats {
                draft.find(Finding::IncompletePlan, Problems::any(completeness == Completeness::Incomplete));
                draft.find(Finding::OpenIssues, problems);
                draft.end_coding();
            }
        }
        (step @ Step::Task(_), Verdict::Coded { completeness, problems, raised }) => {
            let repeats = draft.repeats(&step, Role::Cd, &raised);
            draft.raise(raised);
            if let (Step::Task(task), false) = (step, repeats) {
                draft.find(Finding::OpenIssues, problems);
                draft.make(Change::TaskCoded { task, complete: completeness == Completeness::Complete });
            }
        }
        (Step::Merge(task), Verdict::Merged) => {
            draft.make(Change::TaskMerged { task });
            draft.end_tasks_if_done();
        }
        (Step::Merge(task), Verdict::Conflict) => {
            draft.make(Change::TaskRejected { task });
            draft.end_tasks_if_done();
        }
        (Step::Test, Verdict::Tested { problems }) => {
            draft.find(Finding::FailingTests, problems);
            draft.make(Change::Tested);
        }
        (step @ Step::Phase(role), Verdict::Validated { problems, raised }) => {
            let repeats = draft.repeats(&step, role, &raised);
            draft.raise(raised);
            if !repeats {
                draft.find(Finding::FailingTests, problems);
                draft.end_phase(role, Stage::Aggregation);
            }
        }
        (Step::Answer(item), Verdict::Answered) => {
            draft.make(Change::Answered { item, by: AnsweredBy::Person });
            if draft.state.stage == Stage::Cd && !draft.state.tasks.is_empty() {
                draft.end_tasks_if_done();
            }
        }
        (Step::FastForward, Verdict::FastForwarded)
            if draft.state.extensions > 0 && draft.state.end.is_none() =>
        {
            draft.open_iteration();
        }
        (Step::FastForward, Verdict::FastForwarded) => draft.make(Change::Completed),
        (step, verdict) => panic!("BUG: `{step}` cannot report {verdict:?}"),
    }
}

/// Returns what happens without an event: the first iteration begins, and an iteration is evaluated.
pub(super) fn deferred(definition: &Definition, state: &State) -> Option<Deferred<Change, Step>> {
    if state.end.is_some() {
        return None;
    }
    let mut draft = Draft::new(definition, state);
    match state.stage {
        Stage::Created => draft.open_iteration(),
        Stage::Aggregation => aggregate(&mut draft),
        Stage::Ra
        | Stage::Ep
        | Stage::Cd
        | Stage::Test
        | Stage::Vas
        | Stage::FastForward
        | Stage::Complete => {
            return None;
        }
    }
    Some(Deferred { quiet: std::collections::BTreeSet::new(), then: draft.done() })
}

/// Evaluates an iteration: the next one, or the end.
fn aggregate(draft: &mut Draft<'_>) {
    let has_problems = draft.state.has_problems();
    let has_more = has_problems || draft.state.extensions > 0;
    draft.make(Change::IterationClosed { resolved: !has_problems });
    if has_more && draft.state.iteration < draft.state.max_iterations {
        draft.open_iteration();
    } else if !has_problems && fast_forwards(draft.definition) {
        draft.make(Change::FastForwarding);
    } else {
        draft.make(Change::Completed);
    }
}

/// Decides about an extension. A finished cycle is reopened; otherwise it waits for the end of the iteration.
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
            draft.make(Change::LimitRaised { to });
        }
    }
    draft.make(Change::Extended);
    let limit = draft.state.max_iterations;
    if draft.state.iteration + draft.state.extensions > limit {
        return refused("iteration_limit", format!("it has used its limit of {limit} iterations"));
    }
    if outcome.is_some() {
        // An iteration that a failure or a stop has left open.
        if state.stage < Stage::FastForward && state.iteration > 0 {
            draft.make(Change::IterationClosed { resolved: false });
        }
        draft.open_iteration();
        return Ok(draft.done());
    }
    Ok(Move { changes: draft.changes, next: Next::Requeue(Vec::new()) })
}

/// A stop ends the cycle as failed.
pub(super) fn on_stop(definition: &Definition, state: &State) -> Move<Change, Step> {
    let mut draft = Draft::new(definition, state);
    draft.make(Change::Stopped);
    draft.done()
}

/// Returns the move that leads to an imported position, and what is next there.
pub(super) fn decide_imported(definition: &Definition, changes: Vec<Change>) -> Move<Change, Step> {
    let mut draft = Draft::new(definition, &State::new(definition));
    changes.into_iter().for_each(|change| draft.make(change));
    draft.done()
}
