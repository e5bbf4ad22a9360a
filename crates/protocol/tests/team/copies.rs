//! Edits of private copies count as reports: an agent that only edits its state file and exits finishes its turn.

use serde_json::{Value, json};

use super::*;

/// Edits one file as the attempt of the step sees it, and ends the attempt without a report of its own.
fn edit(run: &mut TeamRun, step: &str, file: &str, change: impl FnOnce(&mut Value)) {
    let id = StepId::new(step).unwrap();
    let copies = run.state.run.machine.brief(&id, 1).copies;
    let path = format!("coordination/{file}");
    let copy =
        copies.iter().find(|copy| copy.path == path).unwrap_or_else(|| panic!("{step} should have {path}"));
    let before: Value = serde_json::from_str(&copy.body).unwrap();
    let mut after = before.clone();
    change(&mut after);
    let patch = CopyEdit::Patch(json_patch::diff(&before, &after));
    try_edit(run, step, &path, patch).unwrap_or_else(|why| panic!("{step}: {why}"));
}

fn try_edit(run: &mut TeamRun, step: &str, path: &str, edit: CopyEdit) -> Result<(), String> {
    run.try_report(step, json!({}), BTreeMap::from([(path.to_owned(), edit)]))
}

/// Returns a run in which this role works on group A. `unblocking` is the tech lead who helps a blocked developer.
fn at_work(role: &str) -> TeamRun {
    let mut run = one_group();
    let reports: &[(&str, &str)] = match role {
        "developer" => &[],
        "qa" => &[("A.developer", "READY_FOR_QA")],
        "tech_lead" => &[("A.developer", "READY_FOR_REVIEW")],
        _ => &[("A.developer", "BLOCKED")],
    };
    for (step, verdict) in reports {
        run.report(step, json!({ "verdict": verdict }));
    }
    run
}

/// The table of `docs/team.md`: which edit of which file is which verdict.
#[test]
fn each_edit_in_the_table_is_read_as_its_verdict() {
    let status = "group_status.json";
    let (to_qa, to_lead) = ("messages/dev_to_qa.json", "messages/qa_to_techlead.json");
    let (to_dev, qa_to_dev) = ("messages/techlead_to_dev.json", "messages/qa_to_dev.json");
    let rows = [
        ("developer", status, "waiting_qa", "A.qa"),
        ("developer", status, "waiting_review", "A.tech_lead"),
        ("developer", status, "dev_blocked", "A.tech_lead"),
        ("developer", to_qa, "READY_FOR_QA", "A.qa"),
        ("qa", status, "waiting_review", "A.tech_lead"),
        ("qa", status, "qa_failed", "A.developer"),
        ("qa", to_lead, "PASS", "A.tech_lead"),
        ("qa", qa_to_dev, "FAIL", "A.developer"),
        ("tech_lead", status, "complete", "A.merge"),
        ("tech_lead", status, "changes_requested", "A.developer"),
        ("unblocking", status, "dev_working", "A.developer"),
        ("tech_lead", to_dev, "approved", "A.merge"),
        ("tech_lead", to_dev, "changes_requested", "A.developer"),
        ("unblocking", to_dev, "unblocked", "A.developer"),
    ];
    for (role, file, word, next) in rows {
        let mut run = at_work(role);
        let step = run.active().pop().unwrap();
        edit(&mut run, &step, file, |edited| match file {
            "group_status.json" => edited["A"]["status"] = word.into(),
            _ => {
                let message = json!({ "status": word, "result": word, "decision": word });
                edited["messages"].as_array_mut().unwrap().push(message);
            }
        });
        assert_eq!(run.active(), [next], "{role} writes {word} to {file}");
        assert_eq!(run.refused, Vec::<String>::new(), "{role} writes {word} to {file}");
    }
}

/// The other table of `docs/team.md`: which files each role is given.
#[test]
fn each_role_is_given_its_files() {
    let rows: [(&str, &[&str]); 5] = [
        ("pm.plan", &["pm_state.json"]),
        (
            "A.developer",
            &[
                "group_status.json",
                "messages/dev_to_qa.json",
                "messages/techlead_to_dev.json",
                "messages/qa_to_dev.json",
            ],
        ),
        (
            "A.qa",
            &[
                "group_status.json",
                "messages/dev_to_qa.json",
                "messages/qa_to_techlead.json",
                "messages/qa_to_dev.json",
            ],
        ),
        (
            "A.tech_lead",
            &["group_status.json", "messages/qa_to_techlead.json", "messages/techlead_to_dev.json"],
        ),
        (
            "pm.check",
            &["pm_state.json", "group_status.json", "orchestrator_state.json", "messages/to_pm.json"],
        ),
    ];
    let run = one_group();
    for (step, files) in rows {
        let copies = run.state.run.machine.brief(&StepId::new(step).unwrap(), 1).copies;
        let given: Vec<_> =
            copies.iter().map(|copy| copy.path.strip_prefix("coordination/").unwrap()).collect();
        assert_eq!(given, files, "{step}");
    }
}

#[test]
fn a_report_and_an_edit_with_different_verdicts_contradict_each_other() {
    for (said, agrees) in [(json!("READY_FOR_QA"), true), (json!("BLOCKED"), false), (Value::Null, true)] {
        let mut run = at_work("developer");
        let patch = json!([{ "op": "replace", "path": "/A/status", "value": "waiting_qa" }]);
        let edit = CopyEdit::Patch(serde_json::from_value(patch).unwrap());
        let edits = BTreeMap::from([("coordination/group_status.json".to_owned(), edit)]);
        let result = run.try_report("A.developer", json!({ "verdict": said }), edits);
        assert_eq!(result.is_ok(), agrees, "{said}: {result:?}");
        let why = "the report says `BLOCKED`, and the edited files say `READY_FOR_QA`";
        assert!(agrees || result == Err(why.to_owned()));
    }
}

#[test]
fn only_a_developer_changes_the_tree() {
    let run = one_group();
    for step in ["pm.plan", "pm.check", "A.qa", "A.tech_lead", "A.developer"] {
        let brief = run.state.run.machine.brief(&StepId::new(step).unwrap(), 1);
        let changes = brief.tree_use == protocol::brief::TreeUse::Changes;
        assert_eq!(changes, step == "A.developer", "{step}");
        // The project manager has a worktree `pm` too: groups are merged into the integration branch while it splits
        // another one.
        assert_eq!(brief.worktree.unwrap().name.as_str(), step.split_once('.').unwrap().0);
    }
}

#[test]
fn each_role_finishes_its_turn_by_an_edit() {
    let mut run = TeamRun::open(definition());
    edit(&mut run, "pm.plan", "pm_state.json", |state| {
        let plan = plan(&[("A", "a.txt", &[])]);
        for name in ["all_tasks", "task_groups", "success_criteria", "mode"] {
            state[name] = plan[name].clone();
        }
        // A derived value: the edit is dropped.
        state["completion_percentage"] = 100.into();
    });
    assert_eq!(run.file("pm_state.json")["completion_percentage"], 0.0);
    assert_eq!(run.refused, Vec::<String>::new(), "derived values are dropped without a word");
    edit(&mut run, "A.developer", "group_status.json", |status| status["A"]["status"] = "waiting_qa".into());
    assert_eq!(run.active(), ["A.qa"]);
    edit(&mut run, "A.qa", "group_status.json", |status| {
        status["A"]["status"] = "waiting_review".into();
        status["A"]["test_results"]["e2e_tests"] = json!({ "total": 2, "passed": 2, "failed": 0 });
    });
    assert_eq!(run.active(), ["A.tech_lead"]);
    assert_eq!(run.file("group_status.json")["A"]["test_results"]["e2e_tests"]["total"], 2);
    edit(&mut run, "A.tech_lead", "messages/techlead_to_dev.json", |file| {
        file["messages"] = json!([{ "decision": "approved", "feedback": "fine" }]);
    });
    run.report("A.merge", json!({}));
    run.report("pm.criteria", criteria_report(0));
    edit(&mut run, "pm.check", "orchestrator_state.json", |state| state["status"] = "completed".into());
    assert_eq!(run.active(), ["pm.merge"]);
}

#[test]
fn edits_that_a_role_may_not_make_are_refused_and_its_other_edits_count() {
    let mut run = TeamRun::open(definition());
    edit(&mut run, "pm.plan", "pm_state.json", |state| {
        let plan = plan(&[("A", "a.txt", &[])]);
        for name in ["all_tasks", "task_groups", "success_criteria", "mode"] {
            state[name] = plan[name].clone();
        }
        state["original_requirements"] = "Only a login".into();
    });
    assert_eq!(
        run.refused,
        ["`coordination/pm_state.json`: the step may not change `/original_requirements`"]
    );
    assert_eq!(run.file("pm_state.json")["original_requirements"], "Add a login and a logout");
    edit(&mut run, "A.developer", "group_status.json", |status| {
        status["A"]["status"] = "waiting_qa".into();
        status["A"]["branch_name"] = "main".into();
        status["A"]["test_results"]["e2e_tests"] = json!({ "total": 2, "passed": 2, "failed": 0 });
        status["A"]["iterations"]["developer"] = 9.into();
    });
    assert_eq!(
        run.refused,
        [
            "`coordination/group_status.json`: the step may not change `/A/branch_name`",
            "`coordination/group_status.json`: the step may not change `/A/test_results/e2e_tests`",
        ]
    );
    edit(&mut run, "A.qa", "messages/qa_to_techlead.json", |file| {
        file["messages"] = json!([{ "result": "PASS", "subject": "fine" }]);
        file["count"] = 1.into();
    });
    assert_eq!(
        run.refused,
        ["`coordination/messages/qa_to_techlead.json`: the step may not change `/count`"]
    );
    edit(&mut run, "A.tech_lead", "group_status.json", |status| {
        status["A"]["status"] = "changes_requested".into();
        status["A"]["tech_lead_feedback"] = json!([{ "decision": "changes_requested", "feedback": "no" }]);
        status["A"]["branch_name"] = "main".into();
    });
    assert_eq!(run.refused.len(), 1, "{:?}", run.refused);
    assert_eq!(run.active(), ["A.developer"]);
}

#[test]
fn a_status_of_another_role_is_refused() {
    let mut run = one_group();
    let path = "coordination/group_status.json";
    let patch = json!([{ "op": "replace", "path": "/A/status", "value": "complete" }]);
    let patch = CopyEdit::Patch(serde_json::from_value(patch).unwrap());
    let refused = try_edit(&mut run, "A.developer", path, patch);
    assert_eq!(refused, Err("the field `verdict` is missing".to_owned()));
    assert_eq!(run.refused, [format!("`{path}`: the step may not set `/A/status` to \"complete\"")]);
    assert_eq!((run.status("A").as_str(), run.active()), ("dev_working", vec!["A.developer".to_owned()]));
}

#[test]
fn criteria_and_earlier_groups_are_fixed_with_the_first_plan() {
    let mut run = one_group();
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "good" }));
    run.report("A.merge", json!({}));
    // The criterion is not met, so the project manager plans again.
    run.report("pm.criteria", criteria_report(1));
    edit(&mut run, "pm.check", "pm_state.json", |state| {
        let plan = plan(&[("B", "b.txt", &[])]);
        state["success_criteria"] = json!([]);
        state["task_groups"][0]["files_affected"] = json!(["all.txt"]);
        for name in ["all_tasks", "task_groups"] {
            let new = plan[name][0].clone();
            state[name].as_array_mut().unwrap().push(new);
        }
    });
    assert_eq!(run.refused.len(), 2, "{:?}", run.refused);
    assert_eq!(run.active(), ["B.developer"]);
    assert_eq!(run.file("pm_state.json")["success_criteria"].as_array().unwrap().len(), 1);
}

#[test]
fn every_message_that_a_turn_adds_is_appended_in_order() {
    let mut run = at_work("qa");
    let path = "coordination/messages/qa_to_techlead.json";
    let messages = json!([
        { "id": "mine", "read": true, "from": "ceo", "subject": "Slow", "result": "so so", "seconds": 9 },
        { "id": "mine", "subject": "Look at the retry", "test_results": "none" },
        { "id": "mine", "result": "PASS", "seconds": 2 },
    ]);
    let to_dev = json!([{ "subject": "Well done" }]);
    let add = |messages: &Value| {
        let add = json!([{ "op": "add", "path": "/messages", "value": messages }]);
        CopyEdit::Patch(serde_json::from_value(add).unwrap())
    };
    let edits = BTreeMap::from([
        (path.to_owned(), add(&messages)),
        ("coordination/messages/qa_to_dev.json".to_owned(), add(&to_dev)),
    ]);
    run.try_report("A.qa", json!({}), edits).unwrap();
    assert_eq!(run.active(), ["A.tech_lead"]);

    let file = run.file("messages/qa_to_techlead.json");
    let sent = file["messages"].as_array().unwrap();
    let subjects: Vec<_> = sent.iter().map(|message| message["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects, ["Slow", "Look at the retry", "group A QA results: all tests passed"]);
    let seconds: Vec<_> = sent.iter().map(|message| message["seconds"].as_u64()).collect();
    assert_eq!(seconds, [Some(9), None, Some(2)], "members that the original does not have are kept");
    let results: Vec<_> = sent.iter().map(|message| message["result"].as_str()).collect();
    assert_eq!(results, [None, None, Some("PASS")], "what the schema refuses is left out");
    for message in sent {
        let sender_recipient_group = (&message["from"], &message["to"], &message["group_id"]);
        assert_eq!(
            sender_recipient_group,
            (&json!("qa_expert"), &json!("tech_lead"), &json!("A")),
            "{message}"
        );
        assert_eq!(message["read"], true, "the tech lead has received it");
    }
    let file = run.file("messages/qa_to_dev.json");
    assert_eq!(
        (&file["messages"][0]["subject"], &file["messages"][0]["read"]),
        (&json!("Well done"), &json!(false))
    );
    let ids: std::collections::BTreeSet<_> =
        run.document().messages.iter().map(|message| &message.id).collect();
    assert_eq!(ids.len(), run.document().messages.len(), "{ids:?}");
    assert!(!ids.contains(&"mine".to_owned()), "ids are the engine's");
    let prompt = run.state.run.machine.brief(&StepId::new("A.tech_lead").unwrap(), 1).prompt;
    assert!(prompt.contains("Slow") && prompt.contains("Look at the retry"), "{prompt}");
}
