//! The files of `coordination/` keep the schemas of the original, and one turn receives each message. `BAZINGA` is the verdict by
//! which the project manager (`pm`) says that the request is completed.

use serde_json::{Value, json};

use super::*;

#[test]
fn the_decisions_log_iterations_and_first_approvals_follow_from_the_commits() {
    let mut run = TeamRun::open(definition());
    let pm = run.file("pm_state.json");
    assert_eq!((&pm["mode"], &pm["mode_reasoning"]), (&json!("simple"), &json!("not decided yet")));
    let approved = json!({ "verdict": "approved", "feedback": "good" });
    let ready = json!({ "verdict": "READY_FOR_REVIEW", "summary": "done" });
    let steps: Vec<(&str, Value)> = vec![
        ("pm.plan", plan(&[("A", "a.txt", &[]), ("B", "b.txt", &["A"])])),
        ("A.developer", json!({ "verdict": "READY_FOR_QA", "summary": "done" })),
        ("A.qa", json!({ "verdict": "PASS" })),
        ("A.tech_lead", json!({ "verdict": "changes_requested", "feedback": "limit it" })),
        ("A.developer", ready.clone()),
        ("A.tech_lead", approved.clone()),
        ("A.merge", json!({})),
        ("B.developer", ready),
        ("B.tech_lead", approved),
        ("B.merge", json!({})),
        // The command of the success criterion exits with 0.
        ("pm.criteria", criteria_report(0)),
        ("pm.check", json!({ "verdict": "BAZINGA" })),
        ("pm.merge", json!({})),
    ];
    for (step, fields) in steps {
        run.report(step, fields);
    }
    let last = run.file("orchestrator_state.json");
    assert_eq!((&last["status"], &last["current_phase"]), (&json!("completed"), &json!("completed")));
    let decisions = last["decisions_log"].as_array().unwrap().iter();
    let decisions: Vec<_> = decisions.map(|entry| entry["decision"].as_str().unwrap()).collect();
    assert_eq!(
        decisions[..3],
        ["spawn_pm_for_planning", "spawn_developer_group_A", "spawn_qa_expert_group_A"]
    );
    assert_eq!((&last["iteration"], &last["total_spawns"]), (&json!(13), &json!(13)));
    let groups = run.file("group_status.json");
    let first_pass = ["A", "B"].map(|id| &groups[id]["quality_metrics"]["first_pass_approval"]);
    assert_eq!(first_pass, [&json!(false), &json!(true)]);
}

#[test]
fn a_message_is_read_by_the_turn_that_receives_it_and_by_its_retries() {
    let mut run = one_group();
    let is_read = |run: &TeamRun| run.file("messages/dev_to_qa.json")["messages"][0]["read"].clone();
    run.request(protocol::run::Request::Pause);
    run.report("A.developer", json!({ "verdict": "READY_FOR_QA", "summary": "look at the parser" }));
    assert_eq!(is_read(&run), false, "QA has not started");
    run.request(protocol::run::Request::Resume);
    assert_eq!(is_read(&run), true, "the commit that starts QA says that it received the message");
    let prompt = |run: &TeamRun| run.state.run.machine.brief(&StepId::new("A.qa").unwrap(), 1).prompt;
    assert!(prompt(&run).contains("look at the parser"));
    let attempt = run.attempt("A.qa");
    run.absorb(Fact::Ended { attempt, ending: protocol::run::Ending::Interrupted }, Default::default());
    assert!(prompt(&run).contains("look at the parser"), "the next attempt gets it again");
    run.report("A.qa", json!({ "verdict": "FAIL", "findings": ["the parser fails on an empty file"] }));
    let brief = run.state.run.machine.brief(&StepId::new("A.developer").unwrap(), 1);
    assert!(brief.prompt.contains("the parser fails on an empty file"));
    assert!(brief.prompt.contains("Add a login and a logout"), "every role gets the request");
    let ids: Vec<_> = run.document().messages.iter().map(|message| &message.id).collect();
    assert_ne!(ids[0], ids[1]);
}
