//! Presents runs of `issue`.

use serde_json::{Map, Value, json};

use super::Issue;
use super::decide::{Change, FailureCause, State};
use super::definition::Definition;
use super::document::Document;
use super::step::{Step, forms, prompts};
use super::verdict::Verdict;
use crate::present::{FileFormat, Line, LoopBack, Present, StepSummary, Tone};
use crate::prompt::PromptTemplate;
use crate::protocol_trait::StepStatus;
use crate::report::Report;
use crate::{Never, RunId, StepId, Timestamp};

impl Present for Issue {
    const STEP_NOUNS: (&'static str, &'static str) = ("step", "steps");
    const STEPS_KEY: &'static str = "pipeline";
    const START_COMMAND: &'static str = "callboard issue";
    const START_ARGUMENT: &'static str = "issue";
    const CAN_RETRY: bool = true;
    const IMPORT_CAN_RENAME: bool = false;
    const PROMPTS: &'static [PromptTemplate] = &prompts::TEMPLATES;
    const VIEW_PATTERNS: &'static [&'static str] = &["/issue-state.json"];
    const REHEARSAL_SCRIPT_STEPS: &'static [&'static str] =
        &["triage", "analyst", "writer", "build", "reviewer"];
    const FORMATS: &'static [FileFormat] =
        &[FileFormat { name: "issue-state", matches: super::check::is_issue_state, check: super::check }];

    fn agent(_: &Definition, _: &State, step: &Step) -> String {
        step.worker().to_owned()
    }

    fn needs(definition: &Definition, state: &State, step: &Step) -> Vec<Step> {
        let pipeline = state.steps(definition);
        let before = pipeline.iter().position(|known| known == step).and_then(|at| at.checked_sub(1));
        let is_answer = matches!(step, Step::Answer(_) | Step::Person);
        before.filter(|_| !is_answer).and_then(|at| pipeline.get(at).copied()).into_iter().collect()
    }

    fn loop_back(definition: &Definition, _: &State, step: &Step) -> Option<LoopBack<Step>> {
        let max_iterations = definition.pipeline_attempts.get();
        matches!(step, Step::Diff | Step::Build | Step::Reviewer)
            .then_some(LoopBack { to: Step::Writer, max_iterations })
    }

    fn unblocks_dependents(_: &Definition, state: &State, step: &Step) -> bool {
        state.status(*step) == StepStatus::Succeeded
    }

    fn about(definition: &Definition, _: &Document) -> Vec<String> {
        vec![
            format!("issue {}: {}", definition.issue.number, definition.issue.title),
            format!("branch {}", definition.branch),
        ]
    }

    fn created_at(document: &Document) -> Timestamp {
        document.engine.created_at.unwrap_or(Timestamp::from_micros(0))
    }

    fn step_summary(document: &Document, step: &Step) -> StepSummary {
        document.step(&step.id()).cloned().unwrap_or_default().summary()
    }

    fn result(document: &Document) -> Vec<Line> {
        let pipeline = &document.pipeline;
        let mut lines = Vec::new();
        if let Some(reason) = &pipeline.blocked_reason {
            lines.push(Line::toned(Tone::Attention, "blocked").then(format!(": {reason}")));
        }
        if let Some(reason) = &pipeline.failure_reason {
            lines.push(Line::toned(Tone::Bad, "failed").then(format!(": {reason}")));
        }
        if let Some(hash) = &document.commit.hash {
            let branch = document.commit.branch.as_deref().unwrap_or_default();
            let pushed = if document.commit.pushed { "" } else { ", not pushed" };
            let pull_request =
                document.commit.pr_url.as_ref().map_or_else(String::new, |url| format!(", {url}"));
            lines.push(Line::plain(format!("commit {hash} on {branch}{pushed}{pull_request}")));
        }
        lines
    }

    fn result_fields(document: &Document) -> Map<String, Value> {
        let fields = json!({
            "pipeline_status": document.pipeline.status,
            "attempt": document.pipeline.attempt,
            "commit": document.commit,
        });
        fields.as_object().cloned().unwrap_or_default()
    }

    fn failure_hint(_: &Definition, run: &RunId, _: &Document) -> String {
        format!("run `callboard retry {run}` to try again")
    }

    fn check_report(step: &StepId, report: &Report) -> Result<(), String> {
        Step::parse(step).map_or(Ok(()), |step| forms::check(step, report))
    }

    fn verdict_text(verdict: &Verdict) -> &'static str {
        match verdict {
            Verdict::Proceed => "reported that the issue can be worked on",
            Verdict::Analysed => "reported its analysis",
            Verdict::Written => "reported the change",
            Verdict::Changed => "found the change",
            Verdict::EmptyChange => "found that nothing was changed",
            Verdict::DisallowedChange => "found that the change breaks its limits",
            Verdict::BuildPassed => "passed all checks",
            Verdict::BuildFailed => "failed a check",
            Verdict::Approved => "approved the change",
            Verdict::Rejected => "rejected the change",
            Verdict::Asks(_) => "asked a question before it goes on",
            Verdict::Answered => "answered",
            Verdict::Refused => "ended the run",
            Verdict::Performed => "was performed",
            Verdict::NotPushed => "found no remote to push to",
        }
    }

    fn change_line(change: &Change) -> Option<Line> {
        match change {
            Change::LoopedBack => {
                Some(Line::toned(Tone::Attention, "↻").then(" sent back to writer: the next attempt begins"))
            }
            Change::GaveUp => Some(Line::toned(Tone::Bad, "✗").then(" no pipeline attempts are left")),
            Change::Asked(pending) => {
                let count = pending.len();
                let answers = if count == 1 { "an answer".to_owned() } else { format!("{count} answers") };
                Some(Line::toned(Tone::Attention, "?").then(format!(" waits for {answers}")))
            }
            Change::Rerouted => Some(Line::plain("no agent could answer: a person is asked")),
            Change::Retried(FailureCause::Pipeline) => {
                Some(Line::toned(Tone::Active, "↻").then(" the pipeline begins again with attempt 1"))
            }
            Change::Retried(FailureCause::Step | FailureCause::Stopped | FailureCause::Refused) => {
                Some(Line::toned(Tone::Active, "↻").then(" the run goes on"))
            }
            Change::Entered(_)
            | Change::Posted
            | Change::PendingAnswered
            | Change::Failed(_)
            | Change::Imported(_) => None,
        }
    }

    fn change_event(change: &Change) -> Option<(&'static str, Value)> {
        match change {
            Change::Entered(stage) => Some(("stage", json!({ "stage": stage }))),
            Change::LoopedBack => Some(("looped_back", json!({}))),
            Change::GaveUp => Some(("gave_up", json!({}))),
            Change::Asked(pending) => Some(("asked", json!({ "pending": pending }))),
            Change::PendingAnswered => Some(("pending_answered", json!({}))),
            Change::Posted
            | Change::Rerouted
            | Change::Failed(_)
            | Change::Retried(_)
            | Change::Imported(_) => None,
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
        match change {
            Change::LoopedBack | Change::GaveUp | Change::Retried(FailureCause::Pipeline) => {
                step == Some(Step::Writer)
            }
            Change::Asked(_) | Change::PendingAnswered | Change::Posted | Change::Rerouted => {
                matches!(step, Some(Step::Person | Step::Answer(_)))
            }
            Change::Entered(_) | Change::Failed(_) | Change::Retried(_) | Change::Imported(_) => false,
        }
    }
}
