//! The import of `CoordinationFiles`, in which the original system keeps its state: the original's examples come back equal,
//! deviations are noted. A group that is complete by the files is only claimed to be complete: the tech lead verifies it.

use protocol::team::{CoordinationFiles, Stage};

use super::*;

const EXAMPLES: [(&str, &str); 6] = [
    ("pm_state.json", include_str!("../fixtures/team/pm_state.json")),
    ("group_status.json", include_str!("../fixtures/team/group_status.json")),
    ("orchestrator_state.json", include_str!("../fixtures/team/orchestrator_state.json")),
    ("messages/dev_to_qa.json", include_str!("../fixtures/team/dev_to_qa.json")),
    ("messages/qa_to_techlead.json", include_str!("../fixtures/team/qa_to_techlead.json")),
    ("messages/techlead_to_dev.json", include_str!("../fixtures/team/techlead_to_dev.json")),
];

fn examples() -> BTreeMap<String, String> {
    EXAMPLES.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

/// Imports the files into a new run. No step has started.
fn import(files: &CoordinationFiles) -> TeamRun {
    let document = serde_json::to_value(files).unwrap();
    let mut run = TeamRun::blank(definition());
    run.append(
        protocol::entry::Input::Opened { spec_digest: "none".to_owned() },
        protocol::run::Decision::nothing(),
    );
    let imported = run.state.run.machine.import(&document).unwrap();
    let decision = protocol::run::import(&mut run.state.run.clone(), imported, BTreeMap::new());
    let source = protocol::entry::RecoverySource::View { path: "coordination".to_owned(), document };
    run.append(protocol::entry::Input::Recovered { source }, decision);
    run
}

/// Starts the queued steps, as `resume` does.
fn start(run: &mut TeamRun) {
    let mut decided = run.state.run.clone();
    let decision = protocol::run::start_queued(&mut decided, 8);
    run.append(
        protocol::entry::Input::Request { request: protocol::run::Request::Resume, reason: None },
        decision,
    );
}

fn coordination_files(files: Value) -> CoordinationFiles {
    let texts =
        files.as_object().unwrap().iter().map(|(name, file)| (name.clone(), file.to_string())).collect();
    CoordinationFiles::read(&texts).coordination_files
}

#[test]
fn each_original_example_comes_back_equal() {
    let salvaged = CoordinationFiles::read(&examples());
    assert_eq!((salvaged.notes, salvaged.lost), (Vec::new(), Vec::new()));
    let run = import(&salvaged.coordination_files);
    for (name, text) in EXAMPLES {
        assert_eq!(run.file(name), serde_json::from_str::<Value>(text).unwrap(), "{name}");
    }
}

#[test]
fn the_document_of_an_import_survives_being_stored() {
    let run = import(&CoordinationFiles::read(&examples()).coordination_files);
    let machine = &run.state.run.machine;
    let paths =
        ["run", "plan", "imported", "group/A", "group/B", "group/C", "message/0", "message/1", "message/2"];
    let decisions = (0..run.document().decisions.len()).map(|number| format!("decision/{number}"));
    let parts: Vec<_> = paths
        .map(str::to_owned)
        .into_iter()
        .chain(decisions)
        .map(|path| (path.clone(), machine.part(&path)))
        .collect();
    let again = machine.assemble(&parts).expect("every part is there");
    assert_eq!(again.to_value(), machine.document().to_value());
}

#[test]
fn claimed_work_is_verified_before_it_is_merged() {
    let mut run = import(&CoordinationFiles::read(&examples()).coordination_files);
    start(&mut run);
    assert_eq!(run.active(), ["A.tech_lead", "B.tech_lead"], "C depends on A and is in a later phase");
    let group = &run.file("group_status.json")["A"];
    assert_eq!((&group["status"], &group["claimed_complete"]), (&json!("tech_review"), &json!(true)));
    assert_eq!(run.file("pm_state.json")["completion_percentage"], 0.0, "percentages are derived");
    let prompt = run.state.run.machine.brief(&StepId::new("A.tech_lead").unwrap(), 1).prompt;
    assert!(prompt.contains("claim it is complete"), "{prompt}");
    for group in ["A", "B"] {
        run.report(&format!("{group}.tech_lead"), json!({ "verdict": "approved", "feedback": "verified" }));
        run.report(&format!("{group}.merge"), json!({}));
    }
    assert_eq!(run.file("group_status.json")["A"]["status"], "complete");
    assert!(run.file("group_status.json")["A"].get("claimed_complete").is_none());
    assert_eq!(run.active(), ["C.developer"]);
}

#[test]
fn unknown_keys_are_given_back_after_the_run_has_changed() {
    let mut files: BTreeMap<String, Value> =
        examples().into_iter().map(|(name, text)| (name, serde_json::from_str(&text).unwrap())).collect();
    files.get_mut("pm_state.json").unwrap()["velocity"] = json!({ "per_day": 3 });
    files.get_mut("pm_state.json").unwrap()["task_groups"][1]["reviewers"] = json!(["kim"]);
    files.get_mut("group_status.json").unwrap()["A"]["last_message"] = "done".into();
    files.get_mut("group_status.json").unwrap()["_comment"] = "by hand".into();
    files.get_mut("orchestrator_state.json").unwrap()["decisions_log"][0]["cost"] = 7.into();
    let mut run = import(&coordination_files(serde_json::to_value(&files).unwrap()));
    start(&mut run);
    let pm = run.file("pm_state.json");
    assert_eq!(pm["velocity"]["per_day"], 3);
    assert_eq!(pm["task_groups"][1]["reviewers"], json!(["kim"]));
    let status = run.file("group_status.json");
    assert_eq!((&status["A"]["last_message"], &status["_comment"]), (&json!("done"), &json!("by hand")));
    let orchestrator = run.file("orchestrator_state.json");
    assert_eq!(orchestrator["decisions_log"][0]["cost"], 7);
    assert_eq!(orchestrator["end_time"], Value::Null, "an imported null stays");
    assert!(
        pm.get("estimated_time_remaining_minutes").is_none(),
        "an imported estimate does not take the place of a derived value"
    );
}

/// Regression: the task got the id of another one.
#[test]
fn a_task_without_an_id_gets_one_that_is_free() {
    let mut run = import(&coordination_files(json!({ "pm_state.json": {
        "session_id": "v4_1", "original_requirements": "Do it",
        "all_tasks": [{ "id": "T2", "description": "first" }],
        "task_groups": [{ "id": "A", "name": "A", "tasks": ["do it all"] }],
    } })));
    start(&mut run);
    let groups = &run.file("pm_state.json")["task_groups"];
    assert_eq!(groups[0]["tasks"], json!(["T3"]));
}

/// Files with every deviation that was found in real ones.
fn deviating_files() -> CoordinationFiles {
    coordination_files(json!({
        "pm_state.json": {
            "session_id": "bazinga_1", "mode": null, "original_requirements": "Do it", "iteration": 3, "last_update": "soon",
            "all_tasks": ["T1: Make the parser (DONE)", "Write the docs"],
            "task_groups": {
                "A": { "name": "Parser", "tasks": ["T1"], "status": "COMPLETED", "depends_on": ["nowhere"] },
                "feasible fixes": { "group_name": "Fixes", "tasks": ["Write the docs"], "status": "IN_PROGRESS_LATE" },
                "C": { "status": "SKIPPED_BY_PM" },
                "D": { "status": "AWAITING_USER_DECISION" },
                "E": { "depends_on": ["F"] },
                "F": { "depends_on": ["E"], "status": "qa_failed" },
            },
            "phases": [{ "phase": 1, "groups": ["A", "ghost"], "parallelism": 1 }],
            "completed_groups": ["F"], "burndown": [3, 2],
        },
        "group_status.json": {
            "_comment": "by hand", "A": "done", "G": { "status": "Waiting-QA", "group_name": "Late" }, "H": 7,
        },
        "orchestrator_state.json": { "session_id": "v4_2", "status": "running" },
        "messages/dev_to_qa.json": { "messages": [{ "group_id": "feasible fixes", "subject": "look" }] },
    }))
}

#[test]
fn deviating_files_are_imported_and_every_deviation_is_noted() {
    let files = deviating_files();
    let preview = files.preview_import();
    let groups: Vec<String> = preview.groups.iter().map(|(id, what)| format!("{id}: {what}")).collect();
    assert_eq!(
        groups,
        [
            "A: a person decides: its dependency `nowhere` does not exist",
            "feasible-fixes: the developer continues",
            "C: a person decides: the imported files say that it was skipped",
            "D: a person decides: its imported status `AWAITING_USER_DECISION` is not known",
            "E: pending",
            "F: a person decides: its dependency `E` depends on it in turn",
            "G: QA tests it again",
        ]
    );
    assert_eq!(
        preview.notes,
        [
            "`task_groups` is a map: its keys are the ids",
            "`all_tasks` has texts instead of objects",
            "group `G` is in `group_status.json` and not in the plan: it is added to it",
            "group `H` in `group_status.json` is `7`: not used",
            "the group `feasible fixes` gets the id `feasible-fixes`",
            "group `A` depends on `nowhere`, which does not exist: the group waits for a person",
            "group `F` depends on `E`, which depends on it in turn: the group waits for a person",
            "phase 1 names the group `ghost`, which does not exist",
            "the phases do not fit the groups: they follow from the dependencies",
            "the mode `null` is not known: it follows from the groups",
            "group `E` has no status: it is pending",
            "group `F`: the plan says \"the developer continues\", the list says \"claimed complete, the tech lead verifies it\": the plan counts",
            "the session ids differ: `v4_2` counts, not `bazinga_1`",
        ]
    );
    let mut run = import(&files);
    start(&mut run);
    assert_eq!(run.active(), ["A.decision", "C.decision", "D.decision", "feasible-fixes.developer"]);
    let question = run.state.run.machine.question(&StepId::new("D.decision").unwrap()).unwrap();
    assert!(question.text.contains("`AWAITING_USER_DECISION` is not known"), "{}", question.text);
    run.answer("A.decision", "continue").unwrap();
    assert_eq!(run.active(), ["A.tech_lead", "C.decision", "D.decision", "feasible-fixes.developer"]);
    let pm = run.file("pm_state.json");
    assert_eq!(
        pm["all_tasks"][0],
        json!({ "id": "T1", "description": "Make the parser (DONE)", "group_id": "A", "status": "in_progress" })
    );
    assert_eq!(pm["burndown"], json!([3, 2]));
    let message = &run.file("messages/dev_to_qa.json")["messages"][0];
    assert_eq!((&message["group_id"], &message["read"]), (&json!("feasible-fixes"), &json!(false)));
}

#[test]
fn every_possible_status_leads_to_a_state_that_goes_on() {
    let words = [
        "pending",
        "dev_working",
        "dev_blocked",
        "waiting_qa",
        "qa_testing",
        "qa_failed",
        "waiting_review",
        "tech_review",
        "changes_requested",
        "complete",
        "SKIPPED",
        "??",
    ];
    let next = [
        "developer",
        "developer",
        "tech_lead",
        "qa",
        "qa",
        "developer",
        "tech_lead",
        "tech_lead",
        "developer",
        "tech_lead",
        "decision",
        "decision",
    ];
    for (word, next) in words.into_iter().zip(next) {
        let mut run = import(&coordination_files(
            json!({ "pm_state.json": { "task_groups": [{ "id": "A", "status": word }] } }),
        ));
        start(&mut run);
        assert_eq!(run.active(), [format!("A.{next}")], "{word}");
    }
    let blocked = coordination_files(
        json!({ "pm_state.json": { "task_groups": [{ "id": "A", "status": "dev_blocked" }] } }),
    );
    // The tech lead helps the developer.
    assert_eq!(
        import(&blocked).typed().state.groups.values().next().unwrap().stage,
        Stage::Unblock(protocol::team::Blocked::Developer)
    );
}

/// An imported group can have an open blocker although its developer works. No role is blocked then, so no tech lead
/// unblocks it, and only the tech lead's approval resolves the blocker.
#[test]
fn an_old_blocker_of_an_imported_group_does_not_stay_open_after_the_merge() {
    let blocker = json!({ "description": "no database here", "resolved": false });
    let mut run = import(&coordination_files(json!({
        "pm_state.json": { "task_groups": [{ "id": "A" }] },
        "group_status.json": { "A": { "status": "dev_working", "blockers": [blocker] } },
    })));
    start(&mut run);
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    let prompt = run.state.run.machine.brief(&StepId::new("A.tech_lead").unwrap(), 1).prompt;
    assert!(prompt.contains("`approved` says that these blockers are settled, too"), "{prompt}");
    run.report("A.tech_lead", json!({ "verdict": "changes_requested", "issues": [] }));
    assert_eq!(run.file("group_status.json")["A"]["blockers"][0]["resolved"], false);
    run.report("A.developer", json!({ "verdict": "READY_FOR_REVIEW" }));
    run.report("A.tech_lead", json!({ "verdict": "approved", "feedback": "It has one now." }));
    run.report("A.merge", json!({}));
    let blocker = &run.file("group_status.json")["A"]["blockers"][0];
    let resolution = "settled by the tech lead's approval: It has one now.";
    assert_eq!((&blocker["resolved"], &blocker["resolution"]), (&json!(true), &json!(resolution)));
    assert_eq!(run.active(), ["pm.check"]);
}

#[test]
fn what_is_left_of_damaged_files_is_imported() {
    let mut texts = examples();
    let torn = texts["pm_state.json"].split("\"execution_phases\"").next().unwrap().to_owned();
    texts.insert("pm_state.json".to_owned(), torn);
    texts.remove("group_status.json");
    let salvaged = CoordinationFiles::read(&texts);
    assert_eq!(salvaged.lost.len(), 2, "{:?}", salvaged.lost);
    let run = import(&salvaged.coordination_files);
    assert_eq!(run.file("pm_state.json")["task_groups"].as_array().unwrap().len(), 3);
    assert_eq!(run.file("group_status.json")["A"]["claimed_complete"], true, "the lost file is written anew");
    assert_eq!(run.file("pm_state.json")["execution_phases"][1]["group_ids"], json!(["C"]));
    let nothing = import(&CoordinationFiles::read(&BTreeMap::new()).coordination_files);
    assert_eq!(
        nothing.state.run.active_turns.keys().map(|step| step.to_string()).collect::<Vec<_>>(),
        ["pm.plan"]
    );
}

#[test]
fn a_merge_needs_commits_unless_the_work_of_a_claimed_group_may_be_there_already() {
    let needs = |run: &TeamRun| {
        let effect = run.state.run.machine.effect(&StepId::new("A.merge").unwrap()).unwrap();
        effect.arguments["needs_commits"].as_bool()
    };
    assert_eq!(needs(&one_group()), Some(true));
    let mut run = import(&CoordinationFiles::read(&examples()).coordination_files);
    assert_eq!(needs(&run), Some(false));
    start(&mut run);
    run.report("A.tech_lead", json!({ "verdict": "changes_requested", "feedback": "it is not there" }));
    assert_eq!(needs(&run), Some(true));
}
