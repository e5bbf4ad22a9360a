//! The six files keep the schemas of the seed, and messages are delivered once.

use serde_json::{Value, json};

use super::*;

const SCHEMAS: [(&str, &str); 6] = [
    ("pm_state.json", include_str!("../../../../docs/schema/team/pm_state.schema.json")),
    ("group_status.json", include_str!("../../../../docs/schema/team/group_status.schema.json")),
    ("orchestrator_state.json", include_str!("../../../../docs/schema/team/orchestrator_state.schema.json")),
    ("messages/dev_to_qa.json", include_str!("../../../../docs/schema/team/dev_to_qa.schema.json")),
    ("messages/qa_to_techlead.json", include_str!("../../../../docs/schema/team/qa_to_techlead.schema.json")),
    (
        "messages/techlead_to_dev.json",
        include_str!("../../../../docs/schema/team/techlead_to_dev.schema.json"),
    ),
];

/// Checks all files and collects which properties are not empty.
fn check(run: &TeamRun, filled: &mut std::collections::BTreeSet<String>) {
    for (name, schema) in SCHEMAS {
        let schema: Value = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        let file = run.file(name);
        let wrong: Vec<_> = validator.iter_errors(&file).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{name}: {wrong:?}");
        collect(&schema, &file, name, filled);
    }
}

fn collect(schema: &Value, value: &Value, path: &str, filled: &mut std::collections::BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let found = &value[name];
        let is_empty = match found {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !is_empty {
            filled.insert(format!("{path}/{name}"));
        }
        collect(inner, found, &format!("{path}/{name}"), filled);
    }
    if let Some(inner) = schema.get("additionalProperties") {
        value
            .as_object()
            .into_iter()
            .flatten()
            .for_each(|(_, value)| collect(inner, value, &format!("{path}/*"), filled));
    }
    if let Some(inner) = schema.get("items") {
        value
            .as_array()
            .into_iter()
            .flatten()
            .for_each(|value| collect(inner, value, &format!("{path}[]"), filled));
    }
}

fn all(schema: &Value, path: &str, names: &mut std::collections::BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        names.insert(format!("{path}/{name}"));
        all(inner, &format!("{path}/{name}"), names);
    }
    if let Some(inner) = schema.get("additionalProperties") {
        all(inner, &format!("{path}/*"), names);
    }
    if let Some(inner) = schema.get("items") {
        all(inner, &format!("{path}[]"), names);
    }
}

#[test]
fn every_file_fits_its_schema_after_every_commit_and_every_property_is_filled() {
    let mut filled = std::collections::BTreeSet::new();
    let mut run = TeamRun::open(definition());
    check(&run, &mut filled);
    let pm = run.file("pm_state.json");
    assert_eq!((&pm["mode"], &pm["mode_reasoning"]), (&json!("simple"), &json!("not decided yet")));
    let counts = |n: u32| json!({ "total": n, "passed": n, "failed": 0 });
    let git = json!({ "files": ["a.txt", "other.txt"], "commits": ["abc123 add it"] });
    let steps: Vec<(&str, Value)> = vec![
        ("pm.plan", plan(&[("A", "a.txt", &[]), ("B", "b.txt", &["A"])])),
        (
            "A.developer",
            json!({ "verdict": "READY_FOR_QA", "summary": "done", "unit_tests": counts(3), "git": git }),
        ),
        ("A.qa", json!({ "verdict": "BLOCKED", "blocker": "no database" })),
        ("A.tech_lead", json!({ "verdict": "unblocked", "feedback": "use the file" })),
        (
            "A.qa",
            json!({
                "verdict": "PASS", "integration_tests": counts(2), "contract_tests": counts(1), "e2e_tests": counts(1),
            }),
        ),
        (
            "A.tech_lead",
            json!({
                "verdict": "changes_requested", "feedback": "limit it", "actionable_items": ["add a limit"],
                "issues": [{
                    "priority": "high", "title": "no limit", "location": "a.txt:1", "description": "there is none",
                    "fix_suggestion": "add one",
                }],
            }),
        ),
        ("A.developer", json!({ "verdict": "READY_FOR_REVIEW", "summary": "limited", "git": git })),
        (
            "A.tech_lead",
            json!({ "verdict": "approved", "feedback": "good", "code_quality_score": 8.5, "security_issues_count": 0 }),
        ),
        ("A.merge", json!({ "logs": ["merged"] })),
        ("B.developer", json!({ "verdict": "READY_FOR_REVIEW", "summary": "done" })),
        ("B.tech_lead", json!({ "verdict": "approved", "feedback": "good" })),
        ("B.merge", json!({ "logs": ["merged"] })),
    ];
    for (step, fields) in steps {
        run.say(step, fields);
        check(&run, &mut filled);
    }
    let passed = json!({ "name": "C1", "command": ["true"], "exit_code": 0, "duration_ms": 1, "output_digest": "", "output": "" });
    run.say("pm.criteria", json!({ "checks": [passed] }));
    run.say("pm.check", json!({ "verdict": "BAZINGA" }));
    run.say("pm.deliver", json!({}));
    check(&run, &mut filled);
    let mut names = std::collections::BTreeSet::new();
    for (name, schema) in SCHEMAS {
        all(&serde_json::from_str(schema).unwrap(), name, &mut names);
    }
    let empty: Vec<_> = names.difference(&filled).collect();
    assert!(empty.is_empty(), "never filled: {empty:?}");
    let last = run.file("orchestrator_state.json");
    assert_eq!((&last["status"], &last["current_phase"]), (&json!("completed"), &json!("completed")));
    let decisions: Vec<_> = last["decisions_log"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["decision"].as_str().unwrap())
        .collect();
    assert_eq!(
        decisions[..3],
        ["spawn_pm_for_planning", "spawn_developer_group_A", "spawn_qa_expert_group_A"]
    );
    assert_eq!(run.file("group_status.json")["A"]["quality_metrics"]["first_pass_approval"], false);
    assert_eq!(run.file("group_status.json")["B"]["quality_metrics"]["first_pass_approval"], true);
}

#[test]
fn a_message_is_read_by_the_turn_that_receives_it_and_by_its_retries() {
    let mut run = one_group();
    run.say("A.developer", json!({ "verdict": "READY_FOR_QA", "summary": "look at the parser" }));
    let messages = run.file("messages/dev_to_qa.json");
    assert_eq!(messages["messages"][0]["read"], true, "QA started in the same commit");
    let prompt = |run: &TeamRun| run.state.run.machine.brief(&StepId::new("A.qa").unwrap(), 1).prompt;
    assert!(prompt(&run).contains("look at the parser"));
    let attempt = run.attempt("A.qa");
    run.absorb(Fact::Ended { attempt, ending: protocol::run::Ending::Interrupted }, Default::default());
    assert!(prompt(&run).contains("look at the parser"), "the next attempt gets it again");
    run.say("A.qa", json!({ "verdict": "FAIL", "findings": ["the parser fails on an empty file"] }));
    let brief = run.state.run.machine.brief(&StepId::new("A.developer").unwrap(), 1);
    assert!(brief.prompt.contains("the parser fails on an empty file"));
    assert!(brief.prompt.contains("Add a login and a logout"), "every role gets the request");
    let ids: Vec<_> = run.document().messages.iter().map(|message| &message.id).collect();
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn four_workers_with_a_hundred_updates_each_lose_none() {
    let most = std::num::NonZeroU8::MAX;
    let limits = Limits { developer: most, qa: most, ..Limits::default() };
    let mut run = TeamRun::open(Definition { limits, ..definition() });
    run.say("pm.plan", plan(&[("A", "a", &[]), ("B", "b", &[]), ("C", "c", &[]), ("D", "d", &[])]));
    let mut left = BTreeMap::from([("A", 100), ("B", 100), ("C", 100), ("D", 100)]);
    // In an order that no group can foresee: a linear congruential generator.
    let mut random = 17_u32;
    while !left.is_empty() {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let group = *left.keys().nth((random >> 16) as usize % left.len()).unwrap();
        let is_development = left[group] % 2 == 0;
        let (role, verdict) = if is_development { ("developer", "READY_FOR_QA") } else { ("qa", "FAIL") };
        run.say(
            &format!("{group}.{role}"),
            json!({ "verdict": verdict, "summary": left[group].to_string() }),
        );
        *left.get_mut(group).unwrap() -= 1;
        left.retain(|_, left| *left > 0);
    }
    let status = run.file("group_status.json");
    for group in ["A", "B", "C", "D"] {
        assert_eq!(
            status[group]["iterations"],
            json!({ "developer": 51, "qa": 50, "tech_lead": 0 }),
            "{group}"
        );
    }
    let (to_qa, to_dev) = (run.file("messages/dev_to_qa.json"), run.file("messages/qa_to_dev.json"));
    let messages: Vec<_> =
        [&to_qa, &to_dev].iter().flat_map(|file| file["messages"].as_array().unwrap()).collect();
    let ids: std::collections::BTreeSet<_> = messages.iter().map(|message| message["id"].as_str()).collect();
    assert_eq!((messages.len(), ids.len()), (400, 400), "each update has left its message");
    assert!(
        messages.iter().all(|message| message["read"] == true),
        "each was delivered to the attempt that it started"
    );
    assert_eq!(
        run.file("orchestrator_state.json")["total_spawns"],
        405,
        "the plan, 204 developers, 200 of QA"
    );
}
