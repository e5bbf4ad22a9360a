//! Section 5 of the protocol's description: every status, every trigger.

use protocol::run::RunStatus;
use protocol::team::{
    Blocked, Choice, DeveloperVerdict, MergeVerdict, QaVerdict, Reason, Stage, TechLeadVerdict, Verdict,
    transition,
};
use protocol::{Outcome, StepId};
use serde_json::json;

use super::*;

const STAGES: [Stage; 10] = [
    Stage::Develop(Reason::New),
    Stage::Develop(Reason::QaFailed),
    Stage::Develop(Reason::ChangesRequested),
    Stage::Develop(Reason::Unblocked),
    Stage::Test,
    Stage::Review,
    Stage::Unblock(Blocked::Developer),
    Stage::Unblock(Blocked::Qa),
    Stage::Unblock(Blocked::Flaky),
    Stage::Merge,
];

fn verdicts() -> Vec<Verdict> {
    vec![
        Verdict::Developer(DeveloperVerdict::ReadyForQa),
        Verdict::Developer(DeveloperVerdict::ReadyForReview),
        Verdict::Developer(DeveloperVerdict::Blocked),
        Verdict::Qa(QaVerdict::Pass),
        Verdict::Qa(QaVerdict::Fail),
        Verdict::Qa(QaVerdict::Blocked),
        Verdict::Qa(QaVerdict::Flaky),
        Verdict::TechLead(TechLeadVerdict::Approved),
        Verdict::TechLead(TechLeadVerdict::ChangesRequested { blocking: 1 }),
        Verdict::TechLead(TechLeadVerdict::Unblocked),
        Verdict::Merge(MergeVerdict::Merged),
        Verdict::Merge(MergeVerdict::Refused),
        Verdict::Complete,
        Verdict::FastForwarded,
        Verdict::Choice(Choice::Continue),
    ]
}

/// The table. Pairs that are not in it are refused.
fn expected(stage: Stage, verdict: &Verdict) -> Option<Stage> {
    let rows: Vec<(Stage, Verdict, Stage)> = vec![
        (Stage::Test, Verdict::Qa(QaVerdict::Pass), Stage::Review),
        (Stage::Test, Verdict::Qa(QaVerdict::Fail), Stage::Develop(Reason::QaFailed)),
        (Stage::Test, Verdict::Qa(QaVerdict::Blocked), Stage::Unblock(Blocked::Qa)),
        (Stage::Test, Verdict::Qa(QaVerdict::Flaky), Stage::Unblock(Blocked::Flaky)),
        (Stage::Review, Verdict::TechLead(TechLeadVerdict::Approved), Stage::Merge),
        (
            Stage::Review,
            Verdict::TechLead(TechLeadVerdict::ChangesRequested { blocking: 1 }),
            Stage::Develop(Reason::ChangesRequested),
        ),
        (
            Stage::Unblock(Blocked::Developer),
            Verdict::TechLead(TechLeadVerdict::Unblocked),
            Stage::Develop(Reason::Unblocked),
        ),
        (Stage::Unblock(Blocked::Qa), Verdict::TechLead(TechLeadVerdict::Unblocked), Stage::Test),
        (
            Stage::Unblock(Blocked::Flaky),
            Verdict::TechLead(TechLeadVerdict::Unblocked),
            Stage::Develop(Reason::Unblocked),
        ),
        (Stage::Merge, Verdict::Merge(MergeVerdict::Merged), Stage::Complete),
        (Stage::Merge, Verdict::Merge(MergeVerdict::Refused), Stage::Develop(Reason::ChangesRequested)),
    ];
    if let (Stage::Develop(_), Verdict::Developer(verdict)) = (stage, verdict) {
        return Some(match verdict {
            DeveloperVerdict::ReadyForQa => Stage::Test,
            DeveloperVerdict::ReadyForReview => Stage::Review,
            DeveloperVerdict::Blocked => Stage::Unblock(Blocked::Developer),
        });
    }
    rows.into_iter().find(|(from, by, _)| *from == stage && by == verdict).map(|(_, _, to)| to)
}

#[test]
fn every_pair_of_stage_and_verdict_is_in_the_table_or_refused() {
    let mut moves = 0;
    for stage in STAGES {
        for verdict in verdicts() {
            let found = transition(stage, &verdict);
            assert_eq!(found, expected(stage, &verdict), "{stage:?} with {verdict:?}");
            moves += usize::from(found.is_some());
        }
    }
    assert_eq!(moves, 4 * 3 + 11);
}

#[test]
fn the_words_of_the_seed_follow_the_group() {
    let mut run = one_group();
    assert_eq!(run.status("A"), "dev_working");
    run.say("A.developer", json!({ "verdict": "READY_FOR_QA", "summary": "done" }));
    // The next attempt starts in the same commit.
    assert_eq!(run.status("A"), "qa_testing");
    run.say("A.qa", json!({ "verdict": "FAIL", "findings": ["broken"] }));
    assert_eq!(run.status("A"), "dev_working");
    run.say("A.developer", json!({ "verdict": "Blocked", "blocker": "no key" }));
    assert_eq!(run.status("A"), "dev_blocked");
    assert_eq!(run.active(), ["A.tech_lead"]);
    run.say("A.tech_lead", json!({ "verdict": "unblocked", "feedback": "use this" }));
    run.say("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    assert_eq!(run.status("A"), "tech_review");
    run.say("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    let group = &run.file("group_status.json")["A"];
    assert_eq!((&group["status"], &group["current_agent"]), (&json!("tech_review"), &json!("none")));
    run.say("A.merge", json!({ "gate_failure": true, "logs": ["conflict in a.txt"] }));
    assert_eq!(run.status("A"), "dev_working");
    run.say("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.say("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.say("A.merge", json!({}));
    assert_eq!(run.status("A"), "complete");
}

#[test]
fn flaky_tests_go_to_the_tech_lead_and_then_to_the_developer() {
    let mut run = one_group();
    run.say("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    run.say("A.qa", json!({ "verdict": "FLAKY" }));
    assert_eq!((run.status("A").as_str(), run.active()), ("qa_testing", vec!["A.tech_lead".to_owned()]));
    run.say("A.tech_lead", json!({ "verdict": "unblocked", "feedback": "wait for the event" }));
    assert_eq!(run.active(), ["A.developer"]);
}

#[test]
fn a_developer_without_attempts_left_is_blocked() {
    let mut run = one_group();
    run.exhaust("A.developer");
    assert_eq!((run.status("A").as_str(), run.active()), ("dev_blocked", vec!["A.tech_lead".to_owned()]));
    let blockers = &run.file("group_status.json")["A"]["blockers"];
    assert_eq!(blockers[0]["description"], "no attempt succeeded: it crashed");
}

/// Lets QA fail until a person is asked.
fn until_asked() -> TeamRun {
    let mut run = one_group();
    for _ in 0..3 {
        run.say("A.developer", json!({ "verdict": "READY_FOR_QA" }));
        run.say("A.qa", json!({ "verdict": "FAIL" }));
    }
    run.say("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    assert_eq!((run.status("A").as_str(), run.active()), ("waiting_qa", vec!["A.decision".to_owned()]));
    run
}

#[test]
fn a_turn_beyond_the_limit_asks_once_and_continue_gives_one_more() {
    let mut run = until_asked();
    run.answer("A.decision", "continue").unwrap();
    assert_eq!(run.active(), ["A.qa"]);
    run.say("A.qa", json!({ "verdict": "FAIL" }));
    run.say("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    assert_eq!(run.active(), ["A.decision"]);
}

#[test]
fn a_person_may_skip_fail_or_split_a_group() {
    let mut run = until_asked();
    run.answer("A.decision", "skip").unwrap();
    assert_eq!(run.file("group_status.json")["A"]["closed"], "skipped");
    assert_eq!(run.active(), ["pm.criteria"]);

    let mut run = until_asked();
    run.answer("A.decision", "fail").unwrap();
    assert_eq!(run.state.run.status, RunStatus::Finished(Outcome::Failed));
    assert_eq!(run.file("orchestrator_state.json")["status"], "error");
    assert_eq!(run.state.run.machine.failed_steps(), [StepId::new("A.decision").unwrap()]);

    let mut run = until_asked();
    run.answer("A.decision", "split").unwrap();
    let two = json!({ "verdict": "PLANNING_COMPLETE", "task_groups": [
        { "id": "A1", "name": "one", "tasks": ["TA"], "files_affected": ["a.txt"] },
    ] });
    run.say("pm.plan", two);
    assert_eq!(run.active(), ["A1.developer"]);
    assert_eq!(run.file("group_status.json")["A"]["closed"], "split");
}

#[test]
fn a_review_without_progress_asks() {
    let mut run = one_group();
    let issues = json!([{ "priority": "high", "title": "wrong" }]);
    for asked in [false, true] {
        run.say("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
        let fields = json!({ "verdict": "changes_requested", "feedback": "no", "issues": issues });
        run.say("A.tech_lead", fields);
        assert_eq!(run.active() == ["A.decision"], asked);
    }
}

#[test]
fn completion_is_refused_while_a_criterion_fails() {
    let mut run = one_group();
    run.say("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.say("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.say("A.merge", json!({}));
    run.say("pm.criteria", criteria(1));
    for _ in 0..5 {
        assert!(run.try_say("pm.check", json!({ "verdict": "not BAZINGA yet" }), BTreeMap::new()).is_err());
        run.say("pm.check", json!({ "verdict": "BAZINGA" }));
        assert_eq!(run.file("orchestrator_state.json")["status"], "running");
    }
    assert_eq!(run.active(), ["pm.decision"]);
    run.answer("pm.decision", "accept").unwrap();
    run.say("pm.deliver", json!({}));
    assert_eq!(run.state.run.status, RunStatus::Finished(Outcome::Succeeded));
    assert_eq!(run.document().run.consents, ["completion accepted: because"]);
}

#[test]
fn a_word_of_another_role_costs_an_attempt_and_moves_nothing() {
    let mut run = one_group();
    for verdict in ["PASS", "approved", "READY_FOR_QA or BLOCKED", "", "done"] {
        let refused = run.try_say("A.developer", json!({ "verdict": verdict }), BTreeMap::new());
        assert!(refused.is_err(), "{verdict} should be refused");
    }
    assert_eq!(run.status("A"), "dev_working");
}

#[test]
fn overlapping_and_dependent_groups_start_after_the_merge() {
    let mut run = TeamRun::open(definition());
    run.say(
        "pm.plan",
        plan(&[("A", "a.txt", &[]), ("B", "a.txt", &[]), ("C", "c.txt", &["A"]), ("D", "d.txt", &[])]),
    );
    assert_eq!(run.active(), ["A.developer", "D.developer"]);
    run.say("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.say("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    assert_eq!(run.active(), ["A.merge", "D.developer"]);
    run.say("A.merge", json!({}));
    assert_eq!(run.active(), ["B.developer", "D.developer"], "C is in the second phase");
}

#[test]
fn a_stop_is_an_error_and_retry_reopens() {
    let mut run = one_group();
    let mut stopped = run.state.run.clone();
    let request = protocol::run::Request::Stop;
    let decision = protocol::run::consider(&mut stopped, &request).unwrap();
    run.commit(protocol::entry::Input::Request { request, reason: None }, decision, stopped);
    assert_eq!(run.file("orchestrator_state.json")["status"], "error");
    let attempt = run.attempt("A.developer");
    run.absorb(Fact::Ended { attempt, ending: protocol::run::Ending::Stopped }, Default::default());
    assert_eq!(run.state.run.status, RunStatus::Finished(Outcome::Failed));
    let mut again = run.state.run.clone();
    let request = protocol::run::Request::Retry { step: None };
    let decision = protocol::run::consider(&mut again, &request).unwrap();
    run.commit(protocol::entry::Input::Request { request, reason: None }, decision, again);
    assert_eq!(run.active(), ["A.developer"]);
    assert_eq!(run.file("orchestrator_state.json")["status"], "running");
}

#[test]
fn a_group_without_progress_is_named_after_the_configured_time() {
    let mut run = TeamRun::open(definition());
    run.say("pm.plan", plan(&[("A", "a.txt", &[]), ("B", "b.txt", &["A"])]));
    let stalled = |run: &TeamRun, minutes: i64| {
        let now = Stamp::from_micros(run.at + minutes * 60_000_000);
        let stalled = run.state.run.machine.stalled(now);
        stalled.into_iter().map(|(step, why)| format!("{step}: {why}")).collect::<Vec<_>>()
    };
    assert_eq!(stalled(&run, 14), Vec::<String>::new());
    let named = ["A.developer: group A (dev_working) has had no progress for 15 minutes"];
    assert_eq!(stalled(&run, 15), named, "B waits for A and is not to blame");
    run.say("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    assert_eq!(stalled(&run, 14), Vec::<String>::new(), "a report is progress");
    let run = until_asked();
    assert_eq!(stalled(&run, 60), Vec::<String>::new(), "a question to a person is in the inbox already");
}
