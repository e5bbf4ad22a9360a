//! The transition table: which step follows which verdict, and how reports are read as verdicts.

use protocol::issue::{
    Addressee, Agent, Change, Definition, FailureCause, Issue, IssueData, Pending, Stage, State, Step,
    TriageMode, Verdict,
};
use protocol::{Event, Move, Next, Outcome, ParsedReport, Protocol as _};
use serde_json::{Value, json};

use super::{at, definition, location, report};

/// A run that is walked from verdict to verdict: its state, without its document.
struct Walk {
    definition: Definition,
    state: State,
    /// The steps that are queued next, or the outcome.
    next: String,
}

impl Walk {
    fn new(definition: Definition) -> Self {
        let state = Issue::begin(&definition);
        let mut walk = Self { definition, state, next: String::new() };
        walk.event(Event::Opened);
        walk
    }

    fn event(&mut self, event: Event<Step, Verdict>) {
        let Move { changes, next } = Issue::decide(&self.definition, &self.state, event);
        for change in &changes {
            assert!(Issue::can_apply(&self.definition, &self.state, change), "{change:?}");
            Issue::apply(&mut self.state, change);
        }
        self.next = match next {
            Next::Queue(steps) | Next::QueueUnlessInTurn(steps) => {
                steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
            }
            Next::Finish(outcome) => format!("{outcome:?}"),
            Next::Drain(_) => "drains".to_owned(),
        };
    }

    /// Reports each verdict for the step that is current, and expects the step after it.
    fn expect(&mut self, path: &[(Verdict, &str)]) -> &mut Self {
        for (verdict, next) in path {
            let step = self.state.current().expect("the run is not done");
            self.event(Event::Reported { step, verdict: verdict.clone() });
            assert_eq!(self.next, *next, "after {verdict:?} of `{step}`");
        }
        self
    }
}

/// The verdicts from the first step to the review, each with the step that follows.
const TO_REVIEW: [(Verdict, &str); 5] = [
    (Verdict::Proceed, "analyst"),
    (Verdict::Analysed, "writer"),
    (Verdict::Written, "build.diff"),
    (Verdict::Changed, "build"),
    (Verdict::BuildPassed, "reviewer"),
];
/// The verdicts from the approval to the end of the run, each with the step that follows.
const COMMITTED: [(Verdict, &str); 5] = [
    (Verdict::Approved, "committer.commit"),
    (Verdict::Performed, "committer.push"),
    (Verdict::Performed, "committer.pull-request"),
    (Verdict::Performed, "comment"),
    (Verdict::Performed, "Succeeded"),
];

fn asks(pending: &[Pending]) -> Verdict {
    Verdict::Asks(pending.to_vec())
}

#[test]
fn an_approved_change_is_committed_pushed_and_announced() {
    Walk::new(definition()).expect(&TO_REVIEW).expect(&COMMITTED);
    let mut without_triage = Walk::new(Definition { triage: TriageMode::Skip, ..definition() });
    assert_eq!(without_triage.next, "analyst");
    without_triage.expect(&TO_REVIEW[1..]).expect(&COMMITTED);
}

#[test]
fn each_loop_back_uses_a_pipeline_attempt() {
    for (before, loop_back) in [
        (&TO_REVIEW[..3], Verdict::EmptyChange),
        (&TO_REVIEW[..3], Verdict::DisallowedChange),
        (&TO_REVIEW[..4], Verdict::BuildFailed),
        (&TO_REVIEW[..5], Verdict::Rejected),
    ] {
        let mut walk = Walk::new(definition());
        walk.expect(before).expect(&[(loop_back.clone(), "writer")]);
        assert_eq!(walk.state.attempt, 2, "{loop_back:?}");
        walk.expect(&before[2..]).expect(&[(loop_back.clone(), "writer")]);
        walk.expect(&before[2..]).expect(&[(loop_back.clone(), "comment")]);
        assert_eq!((walk.state.attempt, walk.state.stage), (3, Stage::GiveUp), "{loop_back:?}");
        walk.expect(&[(Verdict::Performed, "Failed")]);
        // A retry gives the pipeline all its attempts again.
        assert_eq!(Issue::failed_steps(&walk.definition, &walk.state), [Step::Writer]);
        walk.event(Event::Retried { steps: vec![Step::Writer] });
        assert_eq!((walk.next.as_str(), walk.state.attempt), ("writer", 1));
    }
}

#[test]
fn a_question_goes_to_its_addressee_and_then_the_asker_continues_in_the_same_pipeline_attempt() {
    let question = |to| Pending::Question(to);
    let mut walk = Walk::new(definition());
    walk.expect(&TO_REVIEW).expect(&[
        (asks(&[question(Addressee::Agent(Agent::Analyst)), question(Addressee::Human)]), "analyst.answer"),
        (Verdict::Answered, "comment"),
        (Verdict::Performed, "person"),
        (Verdict::Answered, "reviewer"),
    ]);
    assert_eq!((walk.state.attempt, walk.state.asked), (1, 2));
    walk.expect(&COMMITTED);
}

#[test]
fn a_question_that_its_addressee_cannot_answer_goes_to_a_person() {
    let mut walk = Walk::new(definition());
    let question = Pending::Question(Addressee::Agent(Agent::Triage));
    walk.expect(&TO_REVIEW[..1]).expect(&[(asks(&[question]), "triage.answer")]);
    walk.event(Event::Exhausted { step: Step::Answer(Agent::Triage) });
    assert_eq!(walk.next, "comment");
    // The inbox shows it even if the comment fails.
    walk.event(Event::Exhausted { step: Step::Comment });
    assert_eq!(walk.next, "person");
    walk.expect(&[(Verdict::Answered, "analyst")]);
}

#[test]
fn an_escalation_without_a_person_is_tried_by_another_agent_and_then_goes_to_a_person() {
    for agent in Agent::ALL {
        let reason = json!([{ "reason": "the rules contradict", "requires_human": false }]);
        let parsed = parse(agent.step(), json!({ "communication": { "escalations": reason } }));
        let escalation = Pending::Escalation(Addressee::Agent(agent.escalation_agent()));
        assert_eq!(parsed, ParsedReport::Verdict(asks(&[escalation])));
        assert_ne!(agent.escalation_agent(), agent, "no agent decides its own problem");
        assert_ne!(agent.escalation_agent(), Agent::Triage, "triage may be left out");
    }
    let mut walk = Walk::new(definition());
    let escalation = Pending::Escalation(Addressee::Agent(Agent::Analyst));
    walk.expect(&TO_REVIEW[..2]).expect(&[
        (asks(&[escalation]), "analyst.answer"),
        (Verdict::Answered, "writer"),
        (asks(&[escalation]), "analyst.answer"),
    ]);
    walk.event(Event::Exhausted { step: Step::Answer(Agent::Analyst) });
    assert_eq!(walk.state.pending, [Pending::Escalation(Addressee::Human)]);
    walk.expect(&[(Verdict::Performed, "person"), (Verdict::Answered, "writer")]);
}

#[test]
fn a_block_waits_for_a_person_who_lifts_it_or_ends_the_run() {
    let mut walk = Walk::new(definition());
    walk.expect(&[
        (asks(&[Pending::Block]), "comment"),
        (Verdict::Performed, "person"),
        (Verdict::Answered, "analyst"),
    ]);
    walk.expect(&TO_REVIEW[1..]).expect(&[
        (asks(&[Pending::Block]), "comment"),
        (Verdict::Performed, "person"),
        (Verdict::Answered, "reviewer"),
        (asks(&[Pending::Escalation(Addressee::Human)]), "comment"),
        (Verdict::Performed, "person"),
        (Verdict::Refused, "Failed"),
    ]);
    assert_eq!(walk.state.failed, Some(FailureCause::Refused));
    walk.event(Event::Retried { steps: vec![Step::Person] });
    assert_eq!(walk.next, "person");
}

#[test]
fn without_a_remote_the_run_succeeds() {
    let mut walk = Walk::new(definition());
    walk.expect(&TO_REVIEW).expect(&COMMITTED[..2]).expect(&[(Verdict::NotPushed, "comment")]);
    walk.expect(&COMMITTED[4..]);
}

#[test]
fn a_stop_ends_the_run_and_a_retry_continues_it() {
    let mut walk = Walk::new(definition());
    walk.expect(&TO_REVIEW[..2]);
    let stopped = Issue::on_stop(&walk.definition, &walk.state).unwrap();
    assert_eq!(stopped.next, Next::Finish(Outcome::Failed));
    assert_eq!(stopped.changes, [Change::Failed(FailureCause::Stopped)]);
    Issue::apply(&mut walk.state, &stopped.changes[0]);
    walk.event(Event::Retried { steps: vec![Step::Writer] });
    assert_eq!((walk.next.as_str(), walk.state.attempt), ("writer", 1));
}

/// After a stop and a retry the document no longer shows a failure, so the comment follows from `commit` and `review`.
#[test]
fn the_last_comment_is_about_the_result_of_the_run() {
    let comment = |partial: Value| {
        let document = Issue::open_document(&definition(), &location(), at()).merged(&partial).unwrap();
        let arguments = Issue::effect(&definition(), &document, &Step::Comment).unwrap().arguments;
        let text = |argument: &str| arguments[argument].as_str().unwrap().to_owned();
        (text("effect_id"), text("body"))
    };
    let (effect_id, body) = comment(json!({ "review": { "feedback_for_writer": "too slow" } }));
    assert_eq!(effect_id, "failure-0");
    assert!(body.contains("exhausted after 3 attempts") && body.contains("> too slow"), "{body}");
    let (effect_id, body) = comment(json!({ "commit": { "completed": true, "hash": "abc" } }));
    assert_eq!(effect_id, "commit-abc");
    assert!(body.contains("has made the change"), "{body}");
}

/// Parses a report of a step after the analysis.
fn parse(step: Step, fields: Value) -> ParsedReport<Verdict> {
    let document = Issue::open_document(&definition(), &location(), at());
    let analysis = json!({ "analysis": {
        "must_not_do": ["src/auth/**", "Do not change the API"],
        "test_requirement": { "required": true, "location": "tests/light.rs" },
    } });
    Issue::parse_report(&definition(), &document.merged(&analysis).unwrap(), &step, &report(step, fields))
}

#[test]
fn the_changed_files_are_checked_against_the_analysis() {
    let diff =
        |changed: Value, deleted: Value| parse(Step::Diff, json!({ "changed": changed, "deleted": deleted }));
    let verdict = ParsedReport::Verdict;
    assert_eq!(diff(json!([]), json!([])), verdict(Verdict::EmptyChange));
    assert_eq!(diff(json!(["src/light.rs", "tests/light.rs"]), json!([])), verdict(Verdict::Changed));
    assert_eq!(diff(json!(["src/light.rs"]), json!([])), verdict(Verdict::DisallowedChange), "no test");
    let deleted = json!(["tests/light.rs"]);
    assert_eq!(diff(json!(["tests/light.rs"]), deleted), verdict(Verdict::DisallowedChange), "not on disk");
    let touched = json!(["src/auth/login.rs", "tests/light.rs"]);
    assert_eq!(diff(touched, json!([])), verdict(Verdict::DisallowedChange), "must_not_do");
    assert!(matches!(parse(Step::Diff, json!({})), ParsedReport::Invalid(_)));
}

#[test]
fn a_build_passes_if_no_check_fails_and_one_passes() {
    let check = |code: i32| json!({ "name": "test", "command": ["t"], "exit_code": code, "duration_ms": 1, "output_digest": "", "output": "" });
    let build = |codes: &[i32]| {
        parse(Step::Build, json!({ "checks": codes.iter().map(|code| check(*code)).collect::<Vec<_>>() }))
    };
    assert_eq!(build(&[0, 0]), ParsedReport::Verdict(Verdict::BuildPassed));
    assert_eq!(build(&[0, 1]), ParsedReport::Verdict(Verdict::BuildFailed));
    assert_eq!(build(&[]), ParsedReport::Verdict(Verdict::BuildFailed));
}

#[test]
fn a_missing_or_contradictory_result_does_not_advance_the_run() {
    for (step, fields) in [
        (Step::Triage, json!({})),
        (Step::Triage, json!({ "triage": { "scope": "SMALL" } })),
        (Step::Triage, json!({ "triage": { "should_proceed": false } })),
        (Step::Analyst, json!({ "analysis": { "brief": "b", "issue_type": "BUG" } })),
        (Step::Analyst, json!({ "analysis": { "brief": " ", "issue_type": "BUG_FIX" } })),
        (Step::Writer, json!({ "writer": { "summary": "s", "completed": false } })),
        (Step::Reviewer, json!({ "review": {} })),
        (Step::Reviewer, json!({ "review": { "verdict": "REJECTED" } })),
        (Step::Reviewer, json!({ "review": { "verdict": "NEEDS_INFO" } })),
        (Step::Writer, json!({ "communication": { "questions": [{ "to": "build", "question": "?" }] } })),
        (Step::Answer(Agent::Analyst), json!({ "answer": " " })),
    ] {
        let parsed = parse(step, fields.clone());
        assert!(matches!(parsed, ParsedReport::Invalid(_)), "{step} {fields}: {parsed:?}");
    }
    let four = json!([{ "to": "human", "question": "a" }, { "to": "human", "question": "b" },
        { "to": "human", "question": "c" }, { "to": "human", "question": "d" }]);
    let parsed = parse(Step::Writer, json!({ "communication": { "questions": four } }));
    assert!(matches!(&parsed, ParsedReport::Invalid(why) if why.contains("3 questions")), "{parsed:?}");
}

#[test]
fn an_issue_without_a_text_is_read() {
    let issue: IssueData =
        serde_json::from_str(r#"{"number": 1, "title": "t", "body": null, "labels": null}"#).unwrap();
    assert_eq!((issue.body.as_str(), issue.labels.len(), issue.url.as_str()), ("", 0, ""));
}
