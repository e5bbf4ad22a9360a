//! The transitions of a group, and the end of a run. `docs/protocols/team/group.txt` has every transition of a group. `BAZINGA` is
//! the verdict by which the project manager (`pm`) says that the request is completed.

use protocol::run::RunStatus;
use protocol::{Outcome, StepId, protocol_kind};
use serde_json::json;

use super::*;

#[test]
fn the_status_of_a_group_follows_its_reports() {
    let mut run = one_group();
    assert_eq!(run.status("A"), "dev_working");
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA", "summary": "done" }));
    // The next attempt starts in the same commit.
    assert_eq!(run.status("A"), "qa_testing");
    run.report("A.qa", json!({ "verdict": "FAIL", "findings": ["broken"] }));
    assert_eq!(run.status("A"), "dev_working");
    run.report("A.developer", json!({ "verdict": "Blocked", "blocker": "no key" }));
    assert_eq!(run.status("A"), "dev_blocked");
    assert_eq!(run.active(), ["A.tech_lead"]);
    run.report("A.tech_lead", json!({ "verdict": "unblocked", "feedback": "use this" }));
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    assert_eq!(run.status("A"), "tech_review");
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    let group = &run.file("group_status.json")["A"];
    assert_eq!((&group["status"], &group["current_agent"]), (&json!("tech_review"), &json!("none")));
    run.report("A.merge", json!({ "gate_failure": true, "logs": ["conflict in a.txt"] }));
    assert_eq!(run.status("A"), "dev_working");
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("A.merge", json!({}));
    assert_eq!(run.status("A"), "complete");
}

#[test]
fn flaky_tests_go_to_the_tech_lead_and_then_to_the_developer() {
    let mut run = one_group();
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    run.report("A.qa", json!({ "verdict": "FLAKY" }));
    assert_eq!((run.status("A").as_str(), run.active()), ("qa_testing", vec!["A.tech_lead".to_owned()]));
    run.report("A.tech_lead", json!({ "verdict": "unblocked", "feedback": "wait for the event" }));
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

/// Lets QA fail until it has no turn left and a person is asked.
fn use_up_qa_turns(run: &mut TeamRun) {
    for _ in 0..3 {
        run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
        run.report("A.qa", json!({ "verdict": "FAIL" }));
    }
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
}

/// Returns a run that asks a person about group A, because QA has no turn left.
fn run_with_a_question() -> TeamRun {
    let mut run = one_group();
    use_up_qa_turns(&mut run);
    assert_eq!((run.status("A").as_str(), run.active()), ("waiting_qa", vec!["A.decision".to_owned()]));
    run
}

#[test]
fn a_turn_beyond_the_limit_asks_once_and_continue_gives_one_more() {
    let mut run = run_with_a_question();
    run.answer("A.decision", "continue").unwrap();
    assert_eq!(run.active(), ["A.qa"]);
    // The step is no longer listed, but it is known, so that a second answer gets an error about the first.
    let decision = StepId::new("A.decision").unwrap();
    assert!(!run.state.run.machine.steps().contains(&decision) && run.state.run.machine.has_step(&decision));
    run.report("A.qa", json!({ "verdict": "FAIL" }));
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    assert_eq!(run.active(), ["A.decision"]);
}

/// Returns the first line of the question about group A. The run must do nothing else.
fn first_line_of_question(run: &TeamRun) -> String {
    assert_eq!(run.active(), ["A.decision"]);
    let question = run.state.run.machine.question(&StepId::new("A.decision").unwrap()).unwrap();
    question.text.lines().next().unwrap().to_owned()
}

#[test]
fn a_question_about_a_group_has_its_branch_and_what_was_said_last() {
    let mut run = one_group();
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    run.report("A.qa", json!({ "verdict": "FAIL", "findings": ["login fails", "logout fails"] }));
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "changes_requested", "feedback": "no tests" }));
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.exhaust("A.tech_lead");
    let decision = StepId::new("A.decision").unwrap();
    let text = run.state.run.machine.question(&decision).unwrap().text;
    let said = "QA's last findings: login fails; logout fails\n\
                the tech lead (changes_requested): no tests\n\
                the last error: it crashed";
    assert!(text.ends_with(said), "{text}");
    let worktree = run.state.run.machine.brief(&decision, 1).worktree.unwrap();
    assert_eq!(worktree.branch.as_deref(), Some("feature/group-A-group-a"));
}

#[test]
fn files_and_commits_are_updated_by_every_role_and_by_the_merge() {
    let mut run = one_group();
    let git = |file: &str| json!({ "files": [file], "commits": [format!("abc {file}")] });
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW", "git": git("a.txt") }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good", "git": git("b.txt") }));
    assert_eq!(run.file("group_status.json")["A"]["files_modified"], json!(["b.txt"]));
    let nothing = json!({ "files": [], "commits": [] });
    run.report("A.merge", json!({ "gate_failure": true, "git": git("c.txt"), "logs": ["conflict"] }));
    assert_eq!(run.file("group_status.json")["A"]["commits"], json!(["abc c.txt"]));
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW", "git": git("d.txt") }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("A.merge", json!({ "git": nothing }));
    assert_eq!(
        run.file("group_status.json")["A"]["files_modified"],
        json!(["d.txt"]),
        "it is merged already"
    );
}

#[test]
fn five_developer_turns_three_of_qa_and_three_reviews_are_the_limits() {
    let mut run = one_group();
    for _ in 0..5 {
        run.report("A.developer", json!({ "verdict": "BLOCKED" }));
        run.report("A.tech_lead", json!({ "verdict": "unblocked", "feedback": "try this" }));
    }
    assert_eq!(
        first_line_of_question(&run),
        "Group A (dev_blocked): its developer has had all turns. What next?"
    );
    assert_eq!(
        first_line_of_question(&run_with_a_question()),
        "Group A (waiting_qa): QA has had all turns. What next?"
    );
    let mut run = one_group();
    for blocking in [2, 1, 0] {
        run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
        let issues = vec![json!({ "priority": "high", "title": "wrong" }); blocking];
        run.report(
            "A.tech_lead",
            json!({ "verdict": "changes_requested", "feedback": "no", "issues": issues }),
        );
    }
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    assert_eq!(
        first_line_of_question(&run),
        "Group A (waiting_review): the tech lead has had all reviews. What next?"
    );
}

#[test]
fn files_that_are_changed_outside_of_the_plan_are_shown_to_the_tech_lead() {
    let mut run = one_group();
    let git = json!({ "files": ["a.txt", "other.txt"], "commits": ["abc123 add it"] });
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW", "git": git }));
    let prompt = run.state.run.machine.brief(&StepId::new("A.tech_lead").unwrap(), 1).prompt;
    assert!(prompt.contains("These files were changed outside of the plan: other.txt."), "{prompt}");
}

#[test]
fn a_person_may_skip_fail_or_split_a_group() {
    let mut run = run_with_a_question();
    run.answer("A.decision", "skip").unwrap();
    assert_eq!(run.file("group_status.json")["A"]["closed"], "skipped");
    assert_eq!(run.active(), ["pm.criteria"]);

    let mut run = one_group();
    run.report("A.developer", json!({ "verdict": "BLOCKED", "blocker": "no key" }));
    run.exhaust("A.tech_lead");
    run.answer("A.decision", "skip").unwrap();
    let blocker = &run.file("group_status.json")["A"]["blockers"][0];
    assert_eq!(blocker["resolution"], "settled by the skip of the group: because");

    let mut run = run_with_a_question();
    run.answer("A.decision", "fail").unwrap();
    assert_eq!(run.state.run.status, RunStatus::Finished(Outcome::Failed));
    assert_eq!(run.file("orchestrator_state.json")["status"], "error");
    assert_eq!(run.state.run.machine.failed_steps(), [StepId::new("A.decision").unwrap()]);

    let mut run = run_with_a_question();
    run.answer("A.decision", "split").unwrap();
    let replacement = json!({ "verdict": "PLANNING_COMPLETE", "task_groups": [
        { "id": "A1", "name": "one", "tasks": ["TA"], "files_affected": ["a.txt"] },
    ] });
    run.report("pm.plan", replacement);
    assert_eq!(run.active(), ["A1.developer"]);
    assert_eq!(run.file("group_status.json")["A"]["closed"], "split");
}

/// Regression: such a plan was accepted, the groups waited for each other, and the run never went on.
#[test]
fn a_replacement_cannot_depend_on_a_group_that_waits_for_the_replaced_one() {
    let mut run = TeamRun::open(definition());
    let mut planned =
        plan(&[("A", "a.txt", &[]), ("B", "b.txt", &["A"]), ("C", "c.txt", &["B"]), ("D", "d.txt", &[])]);
    planned["execution_phases"] = json!([
        { "phase_number": 1, "group_ids": ["A", "B", "C"] }, { "phase_number": 2, "group_ids": ["D"] },
    ]);
    run.report("pm.plan", planned);
    use_up_qa_turns(&mut run);
    run.answer("A.decision", "split").unwrap();
    for needed in ["B", "C", "D"] {
        let fields = json!({ "verdict": "PLANNING_COMPLETE", "task_groups": [
            { "id": "A1", "name": "one", "tasks": ["TA"], "files_affected": ["a.txt"], "depends_on": [needed] },
        ] });
        let report = run.make_report("pm.plan", fields, BTreeMap::new());
        let parsed = run.state.run.machine.parse_report(&StepId::new("pm.plan").unwrap(), &report);
        let ParsedReport::Invalid(refused) = parsed else { panic!("{needed}: {parsed:?}") };
        let expected = format!(
            "group `A1` would depend on `{needed}`, which waits for group `A`, which this plan replaces"
        );
        assert!(refused.contains(&expected), "{refused}");
    }
}

#[test]
fn a_skipped_group_excuses_a_criterion_only_if_all_its_tasks_are_of_such_groups() {
    for (tasks, accepted) in [(json!(["TA"]), true), (json!(["TA", "TB"]), false)] {
        let mut run = TeamRun::open(definition());
        let mut planned = plan(&[("A", "a.txt", &[]), ("B", "b.txt", &[])]);
        planned["success_criteria"][0]["tasks"] = tasks;
        run.report("pm.plan", planned);
        run.report("B.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
        run.report("B.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
        run.report("B.merge", json!({}));
        use_up_qa_turns(&mut run);
        run.answer("A.decision", "skip").unwrap();
        run.report("pm.criteria", criteria_report(1));
        run.report("pm.check", json!({ "verdict": "BAZINGA" }));
        assert_eq!(run.active() == ["pm.merge"], accepted);
    }
}

/// Regression: the refusal named criteria that skipped groups excuse.
#[test]
fn a_refused_completion_names_only_criteria_that_no_skipped_group_excuses() {
    let mut run = TeamRun::open(definition());
    let mut planned = plan(&[("A", "a.txt", &[]), ("B", "b.txt", &[])]);
    let criterion = planned["success_criteria"][0].clone();
    planned["success_criteria"] = json!([criterion, criterion]);
    for (index, task) in ["TA", "TB"].iter().enumerate() {
        planned["success_criteria"][index]["id"] = format!("C-{task}").into();
        planned["success_criteria"][index]["tasks"] = json!([task]);
    }
    run.report("pm.plan", planned);
    run.report("B.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("B.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("B.merge", json!({}));
    use_up_qa_turns(&mut run);
    run.answer("A.decision", "skip").unwrap();
    let mut results = criteria_report(1);
    let result = results["checks"][0].clone();
    results["checks"] = json!([result, result]);
    run.report("pm.criteria", results);
    run.report("pm.check", json!({ "verdict": "BAZINGA" }));
    assert_eq!(run.document().run.refusal.as_deref(), Some("these success criteria fail: C-TB"));
}

#[test]
fn groups_that_replace_another_wait_for_groups_at_work_that_change_the_same_files() {
    let mut run = TeamRun::open(definition());
    run.report("pm.plan", plan(&[("A", "a.txt", &[]), ("B", "b.txt", &[])]));
    use_up_qa_turns(&mut run);
    run.answer("A.decision", "split").unwrap();
    let replaced = json!({ "verdict": "PLANNING_COMPLETE", "task_groups": [
        { "id": "A1", "name": "one", "tasks": ["TA"], "files_affected": ["b.txt"] },
    ] });
    run.report("pm.plan", replaced);
    assert_eq!(run.active(), ["B.developer"]);
    let rows = run.state.run.machine.step_table().unwrap().rows;
    let note = rows.iter().find(|row| row.name == "A1").unwrap().note.clone();
    assert_eq!(note.as_deref(), Some("pending: waits for B: both change b.txt"));
    let state = run.file("pm_state.json");
    assert_eq!((&state["in_progress_groups"], &state["pending_groups"]), (&json!(["B"]), &json!(["A1"])));
    assert_eq!(
        run.state.run.machine.about()[0],
        "parallel mode, 0 of 2 groups merged, phase developer_working"
    );
    run.report("B.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("B.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("B.merge", json!({}));
    assert_eq!(run.active(), ["A1.developer"]);
}

#[test]
fn a_review_without_progress_asks_a_person() {
    let mut run = one_group();
    let issues = json!([{ "priority": "high", "title": "wrong" }]);
    for asked in [false, true] {
        run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
        let fields = json!({ "verdict": "changes_requested", "feedback": "no", "issues": issues });
        run.report("A.tech_lead", fields);
        assert_eq!(run.active() == ["A.decision"], asked);
    }
}

#[test]
fn completion_is_refused_while_a_criterion_fails() {
    let mut run = one_group();
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("A.merge", json!({}));
    run.report("pm.criteria", criteria_report(1));
    for _ in 0..5 {
        assert!(
            run.try_report("pm.check", json!({ "verdict": "not BAZINGA yet" }), BTreeMap::new()).is_err()
        );
        run.report("pm.check", json!({ "verdict": "BAZINGA" }));
        assert_eq!(run.file("orchestrator_state.json")["status"], "running");
    }
    assert_eq!(run.active(), ["pm.decision"]);
    run.answer("pm.decision", "accept").unwrap();
    run.report("pm.merge", json!({}));
    assert_eq!(run.state.run.status, RunStatus::Finished(Outcome::Succeeded));
    assert_eq!(run.document().run.consents, ["completion accepted: because"]);
}

#[test]
fn a_verdict_of_another_role_is_refused() {
    let mut run = one_group();
    for verdict in ["PASS", "approved", "READY_FOR_QA or BLOCKED", "", "done"] {
        let refused = run.try_report("A.developer", json!({ "verdict": verdict }), BTreeMap::new());
        assert!(refused.is_err(), "{verdict} should be refused");
        let report = run.make_report("A.developer", json!({ "verdict": verdict }), BTreeMap::new());
        let at_once = protocol_kind::<Team>().check_report(&report.step_id, &report);
        assert!(at_once.is_err(), "`callboard report` refuses {verdict}");
    }
    assert_eq!(run.status("A"), "dev_working");
}

#[test]
fn overlapping_and_dependent_groups_start_after_the_merge() {
    let mut run = TeamRun::open(definition());
    run.report(
        "pm.plan",
        plan(&[("A", "a.txt", &[]), ("B", "a.txt", &[]), ("C", "c.txt", &["A"]), ("D", "d.txt", &[])]),
    );
    assert_eq!(run.active(), ["A.developer", "D.developer"]);
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    assert_eq!(run.active(), ["A.merge", "D.developer"]);
    run.report("A.merge", json!({}));
    assert_eq!(run.active(), ["B.developer", "D.developer"], "C is in the second phase");
}

#[test]
fn a_stop_is_an_error_and_retry_reopens() {
    let mut run = one_group();
    run.request(protocol::run::Request::Stop);
    assert_eq!(run.file("orchestrator_state.json")["status"], "error");
    let attempt = run.attempt("A.developer");
    run.absorb(Fact::Ended { attempt, ending: protocol::run::Ending::Stopped }, Default::default());
    assert_eq!(run.state.run.status, RunStatus::Finished(Outcome::Failed));
    run.request(protocol::run::Request::Retry { step: None });
    assert_eq!(run.active(), ["A.developer"]);
    assert_eq!(run.file("orchestrator_state.json")["status"], "running");
}

#[test]
fn a_group_without_progress_is_named_after_the_configured_time() {
    let mut run = TeamRun::open(definition());
    run.report("pm.plan", plan(&[("A", "a.txt", &[]), ("B", "b.txt", &["A"])]));
    let stalled = |run: &TeamRun, minutes: i64| {
        let now = Timestamp::from_micros(run.at + minutes * 60_000_000);
        let stalled = run.state.run.machine.stalled(now);
        stalled.into_iter().map(|(step, why)| format!("{step}: {why}")).collect::<Vec<_>>()
    };
    assert_eq!(stalled(&run, 14), Vec::<String>::new());
    let named = ["A.developer: group A (dev_working) has had no progress for 15 min 00 s"];
    assert_eq!(stalled(&run, 15), named, "B waits for A and is not to blame");
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    assert_eq!(stalled(&run, 14), Vec::<String>::new(), "a report is progress");
    let run = run_with_a_question();
    assert_eq!(stalled(&run, 60), Vec::<String>::new(), "a question to a person is in the inbox already");
}

/// The table of groups and roles that people see.
#[test]
fn the_step_table_says_why_a_group_waits() {
    let limits = Limits { groups: std::num::NonZeroU8::new(2).unwrap(), ..Limits::default() };
    let mut run = TeamRun::open(Definition { limits, ..definition() });
    let mut groups = plan(&[
        ("A", "a.txt", &[]),
        ("B", "a.txt", &[]),
        ("C", "c.txt", &["A"]),
        ("D", "d.txt", &[]),
        ("E", "e.txt", &[]),
    ]);
    groups["execution_phases"] = json!([
        { "phase_number": 1, "group_ids": ["A", "B"] },
        { "phase_number": 2, "group_ids": ["C", "D"] },
        { "phase_number": 3, "group_ids": ["E"] },
    ]);
    run.report("pm.plan", groups);
    let notes = |run: &TeamRun| -> Vec<String> {
        let rows = run.state.run.machine.step_table().unwrap().rows;
        rows.into_iter().map(|row| format!("{}: {}", row.name, row.note.unwrap_or_default())).collect()
    };
    assert_eq!(
        notes(&run),
        [
            "A: dev_working",
            "B: pending: waits for A: both change a.txt",
            "C: pending: waits for A: depends on it; waits for the end of phase 1",
            "D: pending: waits for the end of phase 1",
            "E: pending: waits for the end of phase 1",
        ]
    );
    run.request(protocol::run::Request::Stop);
    assert_eq!(notes(&run)[4], "E: pending: the run has ended");

    let mut run = run_with_a_question();
    assert_eq!(notes(&run), ["A: waiting_qa: a person decides: see `callboard inbox`"]);
    run.answer("A.decision", "split").unwrap();
    assert_eq!(notes(&run), ["A: waiting_qa: the project manager splits it"]);

    let mut run = run_with_a_question();
    run.answer("A.decision", "skip").unwrap();
    assert_eq!(notes(&run), ["A: waiting_qa: skipped: because"]);

    let mut run = one_group();
    run.request(protocol::run::Request::Pause);
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA" }));
    assert_eq!(notes(&run), ["A: waiting_qa: the run is paused or stopped"]);
    let now = Timestamp::from_micros(run.at + 3_600_000_000);
    assert_eq!(run.state.run.machine.stalled(now), [], "a paused run is not expected to go on");
}

#[test]
fn completion_is_refused_while_a_blocker_is_unresolved() {
    let mut run = one_group();
    let check = StepId::new("pm.check").unwrap();
    let refused = |run: &TeamRun| {
        let report = run.make_report("pm.check", json!({ "verdict": "BAZINGA" }), BTreeMap::new());
        match run.state.run.machine.parse_report(&check, &report) {
            ParsedReport::Verdict(_) => None,
            ParsedReport::Failed(why) | ParsedReport::Invalid(why) => Some(why),
        }
    };
    assert_eq!(refused(&run), None);
    run.report("A.developer", json!({ "verdict": "BLOCKED", "blocker": "no key" }));
    assert_eq!(refused(&run).as_deref(), Some("completion is refused: blockers are unresolved in A"));
}
