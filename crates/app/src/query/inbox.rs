//! What waits for a person, across runs.

use protocol::brief::Upstream;
use protocol::present::Line;
use protocol::run::RunStatus;
use protocol::{InboxItemId, InboxItemKind, Machine, OpenItem, Outcome, RunId, StepId, Timestamp, Turn};
use runner::{RunAtRevision, RunSpec};
use serde::Serialize;
use supervisor::git::{DiffSummary, WorktreeError};

/// One thing that waits for a person, with what is needed to decide. For people, programs, and `[notify]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct InboxItem {
    /// `RUN/STEP#TURN[:ITEM]`, or `RUN` for a failed run.
    pub(crate) id: String,
    pub(crate) kind: InboxItemKind,
    pub(crate) run: RunId,
    pub(crate) protocol: &'static str,
    pub(crate) title: String,
    pub(crate) repo_dir: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<StepId>,
    /// `None` if an engine reports the question: it does not know since when it is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
    pub(crate) question: String,
    /// What was done: the artifacts and log lines of the steps before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) upstream: Vec<Upstream>,
    /// The changes on the branch of a run that works in worktrees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) changes: Option<DiffSummary>,
    /// The commands that answer it; words in capitals are to be replaced.
    pub(crate) commands: Vec<String>,
    /// What to do about it, if no command can answer it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl InboxItem {
    /// Returns the question of a step that waits for a person.
    pub(crate) fn question(spec: &RunSpec, machine: &dyn Machine, step: &StepId, turn: Turn) -> Self {
        let id = InboxItemId { step: step.clone(), turn: Some(turn), item: None };
        let question = machine.question(step);
        let kind = question.as_ref().map_or(InboxItemKind::Question, |question| question.kind);
        let mut item = Self::new(spec, machine, format!("/{id}"), kind);
        item.step = Some(step.clone());
        item.upstream = machine.brief(step, 1).upstream;
        if let Some(question) = question {
            let answers = question.answers().into_iter();
            item.commands = answers.map(|answer| format!("callboard answer {} {answer}", item.id)).collect();
            item.question = question.text;
        }
        item
    }

    /// Returns a question that an ended run has left open.
    fn open_item(run_at: &RunAtRevision, open: OpenItem) -> Self {
        let OpenItem { step, item, question, hint } = open;
        let turn = run_at.state.run.turns.get(&step).copied();
        let id = InboxItemId { step: step.clone(), turn, item: Some(item) };
        let mut item = Self::new(&run_at.spec, run_at.machine(), format!("/{id}"), question.kind);
        item.step = Some(step);
        item.since = Some(run_at.state.at);
        item.question = question.text;
        item.hint = Some(hint);
        item
    }

    /// Returns the notice that a step has had no progress for too long.
    fn stalled(run_at: &RunAtRevision, step: StepId, why: String) -> Self {
        let turn = run_at.state.run.turns.get(&step).copied();
        let id = InboxItemId { step: step.clone(), turn, item: None };
        let mut item = Self::new(&run_at.spec, run_at.machine(), format!("/{id}"), InboxItemKind::Stalled);
        // `why` says for how long.
        item.since = None;
        item.step = Some(step);
        item.question = why;
        item.commands = vec![format!("callboard show {}", item.run)];
        item
    }

    fn failed_run(run_at: &RunAtRevision) -> Self {
        let machine = run_at.machine();
        let mut item = Self::new(&run_at.spec, machine, String::new(), InboxItemKind::FailedRun);
        item.since = Some(run_at.state.at);
        let steps = machine.steps().into_iter().map(|step| (machine.step_summary(&step), step));
        let errors = steps.filter_map(|(summary, step)| Some(format!("{step}: {}", summary.error?)));
        let errors: Vec<_> = errors.collect();
        let text = |Line(parts): Line| parts.into_iter().map(|(_, text)| text).collect::<String>();
        let result = || machine.result().into_iter().map(text).collect();
        item.question = if errors.is_empty() { result() } else { errors }.join("\n");
        if machine.kind().info().can_retry {
            item.commands = vec![machine.retry_command(&item.run)];
        } else {
            item.hint = Some(machine.failure_hint(&item.run));
        }
        item
    }

    fn new(spec: &RunSpec, machine: &dyn Machine, suffix: String, kind: InboxItemKind) -> Self {
        let location = &spec.options.location;
        Self {
            id: format!("{}{suffix}", location.run),
            kind,
            run: location.run.clone(),
            protocol: machine.kind().info().name,
            title: spec.title.clone(),
            repo_dir: location.repo_dir.clone(),
            step: None,
            since: None,
            question: String::new(),
            upstream: Vec::new(),
            changes: None,
            commands: Vec::new(),
            hint: None,
        }
    }
}

/// Returns what the run has changed where the step works; `None` if that is nothing, or the run has no worktrees.
pub(crate) fn changes(run_at: &RunAtRevision, step: &StepId) -> Result<Option<DiffSummary>, WorktreeError> {
    let Some(run_worktrees) = run_at.spec.options.run_worktrees() else { return Ok(None) };
    run_worktrees.changes(run_at.machine().brief(step, 1).worktree.as_ref())
}

/// Returns the open questions of the run's steps.
pub(crate) fn questions(run_at: &RunAtRevision) -> impl Iterator<Item = InboxItem> {
    let waiting = run_at.state.run.waiting_steps();
    waiting.map(|(step, turn)| InboxItem::question(&run_at.spec, run_at.machine(), step, turn))
}

/// Returns the steps that have had no progress for too long.
pub(crate) fn stalled(run_at: &RunAtRevision, now: Timestamp) -> impl Iterator<Item = InboxItem> {
    let stalled = run_at.machine().stalled(now).into_iter();
    stalled.map(|(step, why)| InboxItem::stalled(run_at, step, why))
}

/// Returns what a run leaves to a person when it has ended: its failure, and what its protocol has left open.
pub(crate) fn of_ended_run(run_at: &RunAtRevision) -> Vec<InboxItem> {
    let RunStatus::Finished(outcome) = run_at.state.run.status else { return Vec::new() };
    let failed = match outcome {
        Outcome::Failed => Some(InboxItem::failed_run(run_at)),
        Outcome::Succeeded | Outcome::Incomplete => None,
    };
    let open = run_at.machine().open_items().into_iter();
    failed.into_iter().chain(open.map(|item| InboxItem::open_item(run_at, item))).collect()
}
