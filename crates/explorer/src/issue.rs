//! The model of `issue` for the explorer: its notation and its rules.

use std::num::NonZeroU32;

use protocol::checks::{CHECKS_FIELD, CheckResult};
use protocol::issue::{
    Addressee, Agent, Change, CloseIssue, Definition, Document, EnumOrText, Issue, IssueData, Pending,
    PipelineStatus, ReviewVerdict, Stage, State, Step, TrackerSpec, TriageMode, Verdict,
};
use protocol::protocol_trait::{DEFAULT_MAX_ATTEMPTS, StepStatus};
use protocol::report::{Report, ReportIdentity};
use protocol::run::{Run, RunStatus, TurnStatus};
use protocol::{Answer, Never, Outcome, Protocol as _, RunId, StepRecordStatus, Timestamp, TypedMachine};
use serde_json::{Value, json};

use super::{Explored, StepNotation, Transition, Violation};

/// Returns a definition with this many pipeline attempts and questions.
pub fn definition(attempts: u32, questions: u32, triage: TriageMode, close_issue: CloseIssue) -> Definition {
    Definition {
        issue: IssueData {
            number: 42,
            title: "The light is off".to_owned(),
            body: "It should be on.".to_owned(),
            labels: Vec::new(),
            url: "https://example.org/issues/42".to_owned(),
        },
        tracker: TrackerSpec::Gh,
        triage,
        pipeline_attempts: NonZeroU32::new(attempts).unwrap_or(NonZeroU32::MIN),
        max_attempts: DEFAULT_MAX_ATTEMPTS,
        max_questions: questions,
        branch: "agent/issue-42".to_owned(),
        base: Some("main".to_owned()),
        retarget_pull_request: false,
        start_commit: "abc".to_owned(),
        close_issue,
        checks: Vec::new(),
        timeout: None,
        prompts: std::collections::BTreeMap::new(),
        learnings: Value::Null,
    }
}

/// Every verdict with which an agent asks in this state: questions, escalations and blocks, within the limit.
fn questions(definition: &Definition, state: &State, step: Step) -> Vec<Verdict> {
    let (agent, may_block) = (step.agent(), matches!(step, Step::Triage | Step::Reviewer));
    let questions_left = definition.max_questions.saturating_sub(state.asked);
    let mut asked = Vec::new();
    if questions_left > 0 {
        asked.push(vec![Pending::Question(Addressee::Agent(Agent::Analyst))]);
        asked.push(vec![Pending::Question(Addressee::Human)]);
        asked.push(vec![Pending::Escalation(Addressee::Human)]);
        asked
            .extend(agent.map(|agent| vec![Pending::Escalation(Addressee::Agent(agent.escalation_agent()))]));
        if may_block {
            asked.push(vec![Pending::Block]);
        }
    }
    if questions_left > 1 {
        asked.push(vec![
            Pending::Question(Addressee::Agent(Agent::Triage)),
            Pending::Escalation(Addressee::Human),
        ]);
    }
    asked.into_iter().map(Verdict::Asks).collect()
}

fn check_result(code: i32) -> CheckResult {
    CheckResult {
        name: "test".to_owned(),
        command: vec!["true".to_owned()],
        exit_code: Some(code),
        error: None,
        duration_ms: 1,
        tree: None,
        output_digest: String::new(),
        output: "the output".to_owned(),
        log: None,
    }
}

/// The fields of a report of this verdict.
fn fields(step: Step, verdict: &Verdict) -> Value {
    let section = step.agent().map_or("", Agent::section);
    match verdict {
        Verdict::Proceed => json!({ "triage": { "should_proceed": true } }),
        Verdict::Analysed => json!({ "analysis": {
            "issue_type": "BUG_FIX", "brief": "do it", "test_requirement": { "required": false },
            "must_not_do": ["secret/**"],
        } }),
        Verdict::Written => json!({ "writer": { "summary": "done" } }),
        Verdict::Changed => json!({ "changed": ["a.rs"], "deleted": [] }),
        Verdict::EmptyChange => json!({ "changed": [], "deleted": [] }),
        Verdict::DisallowedChange => json!({ "changed": ["secret/key"], "deleted": [] }),
        Verdict::BuildPassed => json!({ CHECKS_FIELD: [check_result(0)] }),
        Verdict::BuildFailed => json!({ CHECKS_FIELD: [check_result(1)] }),
        Verdict::Approved => json!({ "review": { "verdict": "APPROVED" } }),
        Verdict::Rejected => json!({ "review": { "verdict": "REJECTED", "feedback_for_writer": "again" } }),
        Verdict::Asks(pending) if pending.contains(&Pending::Block) => {
            json!({ section: {}, "pipeline": { "status": "blocked", "blocked_reason": "unclear" } })
        }
        Verdict::Asks(pending) => {
            let questions = pending.iter().filter_map(|pending| match pending {
                Pending::Question(to) => Some(json!({ "to": to.name(), "question": "why?" })),
                Pending::Escalation(_) | Pending::Block => None,
            });
            let escalations = pending.iter().filter_map(|pending| match pending {
                Pending::Escalation(to) => {
                    Some(json!({ "reason": "security", "requires_human": *to == Addressee::Human }))
                }
                Pending::Question(_) | Pending::Block => None,
            });
            json!({ "communication": {
                "questions": questions.collect::<Vec<_>>(),
                "escalations": escalations.collect::<Vec<_>>(),
            } })
        }
        Verdict::Answered => json!({ "answer": "because" }),
        Verdict::NotPushed => json!({ "pushed": false }),
        Verdict::Performed => {
            json!({ "pushed": true, "hash": "abc", "message": "fix: it", "url": "u", "closed": true })
        }
        Verdict::Refused => json!({}),
    }
}

impl Explored for Issue {
    fn verdicts(definition: &Definition, state: &State, step: &Step) -> Vec<Verdict> {
        let with_questions = |mut verdicts: Vec<Verdict>| {
            verdicts.extend(questions(definition, state, *step));
            verdicts
        };
        match step {
            Step::Triage => with_questions(vec![Verdict::Proceed]),
            Step::Analyst => with_questions(vec![Verdict::Analysed]),
            Step::Writer => with_questions(vec![Verdict::Written]),
            Step::Diff => vec![Verdict::Changed, Verdict::EmptyChange, Verdict::DisallowedChange],
            Step::Build => vec![Verdict::BuildPassed, Verdict::BuildFailed],
            Step::Reviewer => with_questions(vec![Verdict::Approved, Verdict::Rejected]),
            Step::Push => vec![Verdict::Performed, Verdict::NotPushed],
            Step::Commit | Step::PullRequest | Step::Comment | Step::Close => vec![Verdict::Performed],
            Step::Answer(_) => vec![Verdict::Answered],
            Step::Person => vec![Verdict::Answered, Verdict::Refused],
        }
    }

    fn report(_: &Definition, step: &Step, verdict: &Verdict) -> Report {
        let expected = ReportIdentity {
            run_id: RunId::new("explored").expect("BUG: the name is safe"),
            step_id: Self::step_id(step),
            agent: "agent".to_owned(),
        };
        let at = Timestamp::from_micros(1_750_000_000_000_000);
        Report::completed(&expected, at, fields(*step, verdict).as_object().cloned().unwrap_or_default())
    }

    fn answer(_: &Definition, _: &Step, verdict: &Verdict) -> Answer {
        match verdict {
            Verdict::Refused => Answer::Reject { reason: "no".to_owned() },
            _ => Answer::Text { text: "yes".to_owned() },
        }
    }

    fn requests(_: &Definition, _: &State) -> Vec<Never> {
        Vec::new()
    }

    fn describe_verdict(verdict: &Verdict) -> String {
        let word = match verdict {
            Verdict::Proceed => "proceed",
            Verdict::Analysed => "analysed",
            Verdict::Written => "written",
            Verdict::Changed => "changed",
            Verdict::EmptyChange => "empty",
            Verdict::DisallowedChange => "unfit",
            Verdict::BuildPassed => "green",
            Verdict::BuildFailed => "red",
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
            Verdict::Asks(pending) => {
                let words: Vec<_> = pending.iter().map(describe_pending).collect();
                return format!("asks {}", words.join("+"));
            }
            Verdict::Answered => "answered",
            Verdict::Refused => "refused",
            Verdict::Performed => "performed",
            Verdict::NotPushed => "no remote",
        };
        word.to_owned()
    }

    fn describe_step(_: &Definition, state: &State, step: &Step) -> StepNotation {
        let symbol = match state.status(*step) {
            StepStatus::Succeeded | StepStatus::Skipped => "✓",
            StepStatus::Failed => "✗",
            StepStatus::Unfinished => "·",
        };
        let note = match step {
            Step::Writer if state.attempt > 1 => format!("[{}]", state.attempt),
            _ if state.stage == Stage::Done => String::new(),
            Step::Comment => {
                let pending: Vec<_> = state.pending.iter().map(describe_pending).collect();
                let asked = if state.asked > 0 { format!("{}", state.asked) } else { String::new() };
                format!("{asked}{}{}", pending.join("+"), if state.posted { "!" } else { "" })
            }
            _ => String::new(),
        };
        StepNotation { symbol, note }
    }

    fn describe_change(change: &Change) -> String {
        match change {
            Change::Entered(stage) => format!("{stage:?}").to_lowercase(),
            Change::Asked(pending) => format!("{} asked", pending.len()),
            Change::Posted => "posted".to_owned(),
            Change::PendingAnswered => "pending answered".to_owned(),
            Change::Rerouted => "to a person".to_owned(),
            Change::LoopedBack => "back".to_owned(),
            Change::GaveUp => "gave up".to_owned(),
            Change::Failed(cause) => format!("failed: {cause:?}").to_lowercase(),
            Change::Retried(_) => "again".to_owned(),
            Change::Imported(_) => "imported".to_owned(),
        }
    }

    fn document_differences(
        run: &Run,
        TypedMachine { definition, state, document }: &TypedMachine<Self>,
    ) -> Vec<String> {
        let mut differences: Vec<_> = document_differences(definition, state, document);
        for step in Self::steps(definition, state) {
            let id = Self::step_id(&step);
            let shown = document.engine.steps.get(&id).map(|step| step.status).unwrap_or_default();
            let is_running = shown == StepRecordStatus::Running;
            let expected = match run.active_turns.get(&id).map(|active| active.status) {
                Some(TurnStatus::Running | TurnStatus::Stopping) => true,
                Some(TurnStatus::Queued | TurnStatus::BackingOff | TurnStatus::Waiting) | None => false,
            };
            if is_running != expected {
                differences.push(format!("`{step}` is shown as {shown:?}"));
            }
        }
        differences
    }

    fn check_rules(definition: &Definition, transition: &Transition<'_, Self>) -> Vec<Violation> {
        let machine = TypedMachine::<Self>::of(&*transition.after.machine).expect("BUG: another protocol");
        let TypedMachine { state, document, .. } = machine;
        let mut violations = Vec::new();
        let mut expect = |holds: bool, rule: &'static str| {
            if !holds {
                violations.push(Violation::new(rule, format!("{state:?}")));
            }
        };
        let succeeded = transition.after.status == RunStatus::Finished(Outcome::Succeeded);
        expect(
            succeeded == (state.stage == Stage::Done),
            "a run has succeeded if and only if its pipeline is done",
        );
        expect(state.attempt <= definition.pipeline_attempts.get(), "the attempts are limited");
        expect(state.asked <= definition.max_questions, "the questions are limited");
        let is_committing = matches!(state.stage, Stage::Commit | Stage::Push | Stage::PullRequest);
        let verdict = document.review.verdict.as_ref().and_then(EnumOrText::known);
        let is_approved = document.review.completed && verdict == Some(ReviewVerdict::Approved);
        expect(!is_committing || is_approved, "only approved work is committed");
        violations
    }
}

/// Returns the word for what an agent waits for. `try` is an escalation that another agent may settle.
pub fn describe_pending(pending: &Pending) -> String {
    match pending {
        Pending::Question(to) => format!("?{}", to.name()),
        Pending::Escalation(Addressee::Human) => "esc".to_owned(),
        Pending::Escalation(Addressee::Agent(_)) => "try".to_owned(),
        Pending::Block => "block".to_owned(),
    }
}

/// Returns the words for the items of `engine.pending`, each like [`describe_pending`].
fn describe_pending_ids(document: &Document) -> Vec<String> {
    let communication = &document.communication;
    let describe = |id: &String| {
        let has_id = |other: &Option<String>| other.as_ref() == Some(id);
        let question = communication.questions.iter().find(|question| has_id(&question.id));
        let escalation = communication.escalations.iter().find(|escalation| has_id(&escalation.id));
        match (question, escalation) {
            (Some(question), _) => format!("?{}", question.to),
            (None, Some(escalation)) => if escalation.requires_human { "esc" } else { "try" }.to_owned(),
            (None, None) => id.clone(),
        }
    };
    document.engine.pending.iter().map(describe).collect()
}

/// Returns how the document differs from the state.
fn document_differences(definition: &Definition, state: &State, document: &Document) -> Vec<String> {
    let waits_for_person = |pending: &Pending| pending.addressee() == Addressee::Human;
    let is_blocked = state.pending.first().is_some_and(waits_for_person);
    let gave_up = state.stage == Stage::GiveUp;
    let status = match (state.failed, state.stage) {
        (Some(_), _) => PipelineStatus::Failed,
        (None, Stage::Done) => PipelineStatus::Completed,
        (None, _) if is_blocked => PipelineStatus::Blocked,
        (None, _) => PipelineStatus::InProgress,
    };
    let mut differences = Vec::new();
    let shown = document.pipeline.status.as_ref().and_then(EnumOrText::known);
    // The document of a run that is stopped while it gives up says `failed` before the run has ended.
    if shown != Some(status) && !(gave_up && shown == Some(PipelineStatus::Failed)) {
        differences.push(format!("the status is {shown:?}, not {status:?}"));
    }
    if document.pipeline.attempt != state.attempt {
        differences.push(format!("the attempt is {}, not {}", document.pipeline.attempt, state.attempt));
    }
    let shown = describe_pending_ids(document);
    let pending: Vec<_> = state.pending.iter().map(describe_pending).collect();
    if shown != pending {
        differences.push(format!("{shown:?} waits, not {pending:?}"));
    }
    if document.engine.asked != state.asked {
        differences.push(format!("{} were asked, not {}", document.engine.asked, state.asked));
    }
    if document.pipeline.max_attempts != definition.pipeline_attempts.get() {
        differences.push("the limit of attempts differs".to_owned());
    }
    differences
}
