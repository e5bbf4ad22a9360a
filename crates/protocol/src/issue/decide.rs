//! The transition table of `issue`.
//!
//! One step works at a time: [`State::current`]. A step that asks a question is asked again when all its questions are
//! answered.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::definition::{CloseIssue, Definition, TriageMode};
use super::step::{Addressee, Step};
use super::verdict::{Pending, Verdict};
use crate::protocol_trait::StepStatus;
use crate::{Event, Move, Next, Outcome};

/// The state of the pipeline: ids and numbers only. Texts are in the document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    pub stage: Stage,
    /// The pipeline attempt, from 1.
    pub attempt: u32,
    /// How many questions, escalations and blocks were raised since the stage began; a report that exceeds
    /// `max_questions` is invalid.
    pub asked: u32,
    /// What the agent of the stage waits for, in order. The addressee of the first item, an agent or a person, works on it.
    pub pending: Vec<Pending>,
    /// Whether the first of `pending` was posted on the issue.
    pub posted: bool,
    pub failed: Option<FailureCause>,
    /// The steps that are not in the pipeline, as far as they were needed: answers of agents and persons.
    pub answer_steps: BTreeSet<Step>,
}

/// The place in the pipeline: what is needed next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Triage,
    Analyst,
    Writer,
    /// Compares the work with the commit it started from.
    Diff,
    Build,
    Reviewer,
    Commit,
    Push,
    PullRequest,
    /// Comments that the work is done.
    Announce,
    Close,
    Done,
    /// Comments that no attempts are left.
    GiveUp,
}

/// Why a run has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureCause {
    /// The step has no attempts left.
    Step,
    /// The pipeline has no attempts left.
    Pipeline,
    /// A user stopped the run.
    Stopped,
    /// A person refused to answer, resolve or unblock (`callboard answer RUN/person reject`).
    Refused,
}

/// One transition of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Entered(Stage),
    Asked(Vec<Pending>),
    /// The first item of `pending` was posted on the issue, or could not be.
    Posted,
    /// The first item of `pending` is answered.
    PendingAnswered,
    /// The addressee could not answer: the first item of `pending` goes to a person.
    Rerouted,
    /// The next pipeline attempt begins.
    LoopedBack,
    /// The pipeline has no attempts left.
    GaveUp,
    Failed(FailureCause),
    /// A user retries a run that failed for this reason.
    Retried(FailureCause),
    Imported(State),
}

impl Stage {
    /// Returns the step of the stage; `None` if the run is done.
    pub fn step(self) -> Option<Step> {
        match self {
            Self::Triage => Some(Step::Triage),
            Self::Analyst => Some(Step::Analyst),
            Self::Writer => Some(Step::Writer),
            Self::Diff => Some(Step::Diff),
            Self::Build => Some(Step::Build),
            Self::Reviewer => Some(Step::Reviewer),
            Self::Commit => Some(Step::Commit),
            Self::Push => Some(Step::Push),
            Self::PullRequest => Some(Step::PullRequest),
            Self::Announce | Self::GiveUp => Some(Step::Comment),
            Self::Close => Some(Step::Close),
            Self::Done => None,
        }
    }
}

impl State {
    pub(super) fn begin(definition: &Definition) -> Self {
        let stage = match definition.triage {
            TriageMode::Run => Stage::Triage,
            TriageMode::Skip => Stage::Analyst,
        };
        Self {
            stage,
            attempt: 1,
            asked: 0,
            pending: Vec::new(),
            posted: false,
            failed: None,
            answer_steps: BTreeSet::new(),
        }
    }

    /// Returns the step that works or is to work next, or the one that has failed; `None` if the run is done.
    pub fn current(&self) -> Option<Step> {
        match self.pending.first().map(|first| first.addressee()) {
            Some(Addressee::Agent(agent)) => Some(Step::Answer(agent)),
            Some(Addressee::Human) => Some(if self.posted { Step::Person } else { Step::Comment }),
            None => self.stage.step(),
        }
    }

    pub(super) fn steps(&self, definition: &Definition) -> Vec<Step> {
        let is_part = |step: &Step| match step {
            Step::Triage => definition.triage == TriageMode::Run,
            Step::Close => definition.close_issue == CloseIssue::ByRun,
            Step::Analyst
            | Step::Writer
            | Step::Diff
            | Step::Build
            | Step::Reviewer
            | Step::Commit
            | Step::Push
            | Step::PullRequest
            | Step::Comment
            | Step::Answer(_)
            | Step::Person => true,
        };
        let pipeline = Step::PIPELINE.into_iter().filter(is_part);
        pipeline.chain(self.answer_steps.iter().copied()).collect()
    }

    /// Returns the status of a step.
    pub fn status(&self, step: Step) -> StepStatus {
        if self.failed_step() == Some(step) {
            return StepStatus::Failed;
        }
        if self.failed.is_none() && self.current() == Some(step) {
            return StepStatus::Unfinished;
        }
        let stage = match step {
            Step::Triage => Stage::Triage,
            Step::Analyst => Stage::Analyst,
            Step::Writer => Stage::Writer,
            Step::Diff => Stage::Diff,
            Step::Build => Stage::Build,
            Step::Reviewer => Stage::Reviewer,
            Step::Commit => Stage::Commit,
            Step::Push => Stage::Push,
            Step::PullRequest => Stage::PullRequest,
            Step::Comment => Stage::Announce,
            Step::Close => Stage::Close,
            Step::Answer(_) | Step::Person => return StepStatus::Succeeded,
        };
        // The work of the last attempt was sent back, so no step after the analysis has succeeded.
        let reached = if self.stage == Stage::GiveUp { Stage::Writer } else { self.stage };
        if stage < reached { StepStatus::Succeeded } else { StepStatus::Unfinished }
    }

    /// Returns the step that `retry` runs again.
    pub(super) fn failed_step(&self) -> Option<Step> {
        match self.failed? {
            FailureCause::Pipeline => Some(Step::Writer),
            FailureCause::Step | FailureCause::Stopped | FailureCause::Refused => self.current(),
        }
    }

    pub(super) fn can_apply(&self, change: &Change) -> bool {
        match change {
            Change::Posted | Change::PendingAnswered | Change::Rerouted => !self.pending.is_empty(),
            Change::Asked(pending) => !pending.is_empty(),
            Change::Retried(cause) => self.failed == Some(*cause),
            Change::Entered(_)
            | Change::LoopedBack
            | Change::GaveUp
            | Change::Failed(_)
            | Change::Imported(_) => true,
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Entered(stage) => (self.stage, self.asked) = (*stage, 0),
            Change::Asked(pending) => {
                self.asked += u32::try_from(pending.len()).unwrap_or(u32::MAX);
                (self.pending, self.posted) = (pending.clone(), false);
            }
            Change::Posted => self.posted = true,
            Change::PendingAnswered => {
                self.pending.remove(0);
                self.posted = false;
            }
            Change::Rerouted => self.pending[0] = self.pending[0].for_person(),
            Change::LoopedBack => {
                (self.stage, self.asked) = (Stage::Writer, 0);
                self.attempt += 1;
            }
            Change::GaveUp => (self.stage, self.asked) = (Stage::GiveUp, 0),
            Change::Failed(cause) => self.failed = Some(*cause),
            Change::Retried(cause) => {
                if *cause == FailureCause::Pipeline {
                    (self.stage, self.asked, self.attempt) = (Stage::Writer, 0, 1);
                }
                self.failed = None;
            }
            Change::Imported(state) => *self = state.clone(),
        }
        if let Some(step @ (Step::Answer(_) | Step::Person)) = self.current() {
            self.answer_steps.insert(step);
        }
    }
}

pub(super) fn decide(
    definition: &Definition,
    state: &State,
    event: Event<Step, Verdict>,
) -> Move<Change, Step> {
    match event {
        Event::Opened => advance(state, Vec::new()),
        Event::Reported { step, verdict } => reported(definition, state, step, verdict),
        Event::Exhausted { step } => exhausted(state, step),
        Event::Retried { .. } => {
            let changes: Vec<_> = state.failed.map(Change::Retried).into_iter().collect();
            let mut after = state.clone();
            changes.iter().for_each(|change| after.apply(change));
            Move { changes, next: Next::QueueUnlessInTurn(after.current().into_iter().collect()) }
        }
        // The module `run` refuses to skip a step of `issue`.
        Event::Skipped { .. } => Move { changes: Vec::new(), next: Next::Queue(Vec::new()) },
    }
}

fn reported(definition: &Definition, state: &State, step: Step, verdict: Verdict) -> Move<Change, Step> {
    let enter = |stage| advance(state, vec![Change::Entered(stage)]);
    match verdict {
        Verdict::Asks(pending) => advance(state, vec![Change::Asked(pending)]),
        Verdict::Answered => answered(state),
        Verdict::Refused => fail(FailureCause::Refused),
        Verdict::Proceed => enter(Stage::Analyst),
        Verdict::Analysed => enter(Stage::Writer),
        Verdict::Written => enter(Stage::Diff),
        Verdict::Changed => enter(Stage::Build),
        Verdict::BuildPassed => enter(Stage::Reviewer),
        Verdict::Approved => enter(Stage::Commit),
        Verdict::EmptyChange | Verdict::DisallowedChange | Verdict::BuildFailed | Verdict::Rejected => {
            let is_last = state.attempt >= definition.pipeline_attempts.get();
            advance(state, vec![if is_last { Change::GaveUp } else { Change::LoopedBack }])
        }
        // Without a remote there is no pull request.
        Verdict::NotPushed => enter(Stage::Announce),
        Verdict::Performed => performed(definition, state, step),
    }
}

/// Decides after an effect was performed.
fn performed(definition: &Definition, state: &State, step: Step) -> Move<Change, Step> {
    let enter = |stage| advance(state, vec![Change::Entered(stage)]);
    if step == Step::Comment && !state.pending.is_empty() {
        return advance(state, vec![Change::Posted]);
    }
    match state.stage {
        Stage::Commit => enter(Stage::Push),
        Stage::Push => enter(Stage::PullRequest),
        Stage::PullRequest => enter(Stage::Announce),
        Stage::Announce if definition.close_issue == CloseIssue::ByRun => enter(Stage::Close),
        // The run was stopped in the meantime: a retry performs the last effect again.
        Stage::Announce | Stage::Close | Stage::GiveUp if state.failed.is_some() => {
            advance(state, Vec::new())
        }
        Stage::Announce | Stage::Close => {
            Move { changes: vec![Change::Entered(Stage::Done)], next: Next::Finish(Outcome::Succeeded) }
        }
        Stage::GiveUp => fail(FailureCause::Pipeline),
        Stage::Triage
        | Stage::Analyst
        | Stage::Writer
        | Stage::Diff
        | Stage::Build
        | Stage::Reviewer
        | Stage::Done => Move { changes: Vec::new(), next: Next::Queue(Vec::new()) },
    }
}

/// Decides after an answer: the next question is asked, or the step that waits goes on. If triage has blocked the run, the
/// answer of a person overrules it, so the analyst begins.
fn answered(state: &State) -> Move<Change, Step> {
    let is_overruled = state.stage == Stage::Triage && state.pending.first() == Some(&Pending::Block);
    let mut changes = vec![Change::PendingAnswered];
    if is_overruled {
        changes.push(Change::Entered(Stage::Analyst));
    }
    advance(state, changes)
}

fn exhausted(state: &State, step: Step) -> Move<Change, Step> {
    let waits_for_person = state.pending.first().is_some_and(|first| first.addressee() == Addressee::Human);
    match step {
        Step::Answer(_) => advance(state, vec![Change::Rerouted]),
        // The person sees the question in the inbox, too.
        Step::Comment if waits_for_person => advance(state, vec![Change::Posted]),
        Step::Comment if state.stage == Stage::GiveUp => fail(FailureCause::Pipeline),
        Step::Triage
        | Step::Analyst
        | Step::Writer
        | Step::Diff
        | Step::Build
        | Step::Reviewer
        | Step::Commit
        | Step::Push
        | Step::PullRequest
        | Step::Comment
        | Step::Close
        | Step::Person => fail(FailureCause::Step),
    }
}

fn fail(cause: FailureCause) -> Move<Change, Step> {
    Move { changes: vec![Change::Failed(cause)], next: Next::Finish(Outcome::Failed) }
}

/// Ends the run because a user stops it.
pub(super) fn stop() -> Move<Change, Step> {
    fail(FailureCause::Stopped)
}

/// Returns the move that makes the changes and queues the step that is current after them.
fn advance(state: &State, changes: Vec<Change>) -> Move<Change, Step> {
    let mut after = state.clone();
    changes.iter().for_each(|change| after.apply(change));
    Move { changes, next: Next::Queue(after.current().into_iter().collect()) }
}
