//! Private copies: agents that edit a file of their worktree instead of reporting.

use std::fs;
use std::path::PathBuf;

use protocol::{Answer, Protocols, RunId, StepId, protocol_kind};
use runner::{Clock, Journal};
use serde_json::{Value, json};
use testkit::harness::{block_on, run_spec, test_author, worktrees, wrapper};
use testkit::items::{Definition, Items};
use testkit::{CallOutput, Running, TestEnv};

const PROTOCOLS: Protocols = Protocols(&[protocol_kind::<Items>()]);

/// A line of the scripted agent: STEP ATTEMPT BEHAVIOUR ARGUMENT. With the behaviour `do`, the argument is shell code.
const PLAN: &str = r#"plan * do extra_fields=', "items": [{"id": "lamp", "name": "a lamp"}]'; write_report COMPLETED planned"#;

/// The file of the item, in the worktree and in the repository.
const FILE: &str = ".items/trial/lamp.json";

/// The directory in which the agents of the run work.
#[derive(Clone, Copy)]
enum AgentDirectory {
    Worktree,
    Repository,
}

fn run() -> RunId {
    RunId::new("trial").unwrap()
}

/// Opens a run of the test protocol `items` with one item, `lamp`. `make` says what the agent of step `lamp.make` does.
fn open_run(agent_directory: AgentDirectory, make: &str) -> TestEnv {
    let test_env = TestEnv::new(crate::items_program());
    test_env.script_agent(&[PLAN, make]);
    let definition = Definition::new("furnish the room");
    let mut spec = run_spec(&definition, &run(), test_env.repo(), Some(wrapper(&test_env.agent_path())));
    spec.options.worktrees = match agent_directory {
        AgentDirectory::Worktree => Some(worktrees(&test_env, &run())),
        AgentDirectory::Repository => None,
    };
    let store = test_env.open_store();
    block_on(runner::open(&store, &Clock::system(), protocol_kind::<Items>(), test_author(), spec)).unwrap();
    test_env
}

fn resume(test_env: &TestEnv) -> Running<'_> {
    test_env.callboard(&["resume", "trial"]).start()
}

fn integration_worktree(test_env: &TestEnv) -> PathBuf {
    test_env.repo().with_file_name("trees/trial/integration")
}

/// Waits until the item waits for its approval, approves it, and returns the item and the session of the engine.
fn approve(test_env: &TestEnv, engine: Running<'_>) -> (Value, CallOutput) {
    let directory = test_env.repo().join(".items/trial");
    fs::create_dir_all(&directory).unwrap();
    let item = testkit::wait_until(&directory, "the item waits for a person", || {
        let text = fs::read_to_string(test_env.repo().join(FILE)).ok()?;
        let item: Value = serde_json::from_str(&text).expect("a view is whole");
        (item["approve"]["status"] == "waiting").then_some(item)
    });
    let mut journal = block_on(Journal::load(&test_env.open_store(), &Clock::system(), PROTOCOLS, &run()))
        .unwrap()
        .unwrap();
    let step = StepId::new("lamp.approve").unwrap();
    block_on(runner::answer(&mut journal, test_author(), &step, None, Answer::Approve { text: None }))
        .unwrap();
    (item, engine.wait())
}

/// Returns the evidence of the end of an attempt.
fn evidence(test_env: &TestEnv, attempt: &str) -> Value {
    let log = test_env.callboard(&["log", "trial", "--json"]).run();
    let mut facts = log.stdout.lines().map(|line| {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        entry["entry"]["input"]["fact"].take()
    });
    let mut end = facts.find(|fact| fact["fact"] == "ended" && fact["attempt"] == attempt).unwrap();
    end["evidence"].take()
}

#[test]
fn an_edited_file_is_a_report_also_if_the_engine_is_killed_meanwhile() {
    let test_env = open_run(
        AgentDirectory::Worktree,
        r#"lamp.make * do sed -i 's/"description": ""/"description": "of brass"/; s/"running"/"done"/' .items/trial/lamp.json; echo >brass.txt; echo >"$shared/edited"; read -r _ <"$shared/go"; log_event end "$CALLBOARD_ATTEMPT""#,
    );
    let mut go = test_env.barrier("go");
    let engine = resume(&test_env);
    test_env.wait_for_file("edited");
    let prompt =
        fs::read_to_string(test_env.attempt_dir("trial", "lamp.make", "1.1").join("prompt.md")).unwrap();
    assert!(prompt.contains(&format!("- `{FILE}`")), "{prompt}");
    engine.kill();
    engine.wait();
    let engine = resume(&test_env);
    engine.wait_for_stderr("adopted");
    go.open();
    let (item, ended) = approve(&test_env, engine);
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(item["description"], "of brass");
    assert_eq!(test_env.agent_log().started(), ["plan#1.1", "lamp.make#1.1"], "no agent works twice");
    // Statuses in the file are derived, so the agent's change of one is dropped without a refusal.
    let log = test_env.callboard(&["log", "trial", "--full"]).run();
    assert!(!log.stdout.contains("! refused"), "{}", log.transcript());
    assert!(log.stdout.contains("from the files that it edited"), "{}", log.transcript());
    // The edited copy is kept in the attempt's directory; git has the agent's other files only.
    let left =
        fs::read_to_string(test_env.attempt_dir("trial", "lamp.make", "1.1").join("copies-left").join(FILE));
    assert!(left.unwrap().contains("of brass"));
    let committed = test_env.git(&["ls-tree", "-r", "--name-only", "callboard/trial"]);
    assert_eq!(committed, "brass.txt\ntask.md\n");
    assert!(!integration_worktree(&test_env).join(FILE).exists());
    test_env.expect_no_orphans();
}

#[test]
fn an_edit_outside_the_rights_of_a_step_is_refused_and_named() {
    let test_env = open_run(
        AgentDirectory::Worktree,
        r#"lamp.make * do sed -i 's/"description": ""/"description": "of brass"/; s/a lamp/a throne/' .items/trial/lamp.json; log_event end "$CALLBOARD_ATTEMPT""#,
    );
    let engine = resume(&test_env);
    let (item, ended) = approve(&test_env, engine);
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!((&item["name"], &item["description"]), (&json!("a lamp"), &json!("of brass")));
    let refusal = format!("`{FILE}`: the step may not change `/name`");
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains(&format!("! refused: {refusal}")), "{}", log.transcript());
    assert_eq!(evidence(&test_env, "lamp.make#1.1")["refused_edits"], json!([refusal]));
    assert!(!test_env.callboard(&["show", "trial"]).run().stdout.contains("may not change"));
}

#[test]
fn edits_that_are_all_refused_cost_an_attempt() {
    let test_env = open_run(
        AgentDirectory::Worktree,
        r#"lamp.make 1 do sed -i 's/a lamp/a throne/' .items/trial/lamp.json; log_event end "$CALLBOARD_ATTEMPT""#,
    );
    let engine = resume(&test_env);
    let (item, ended) = approve(&test_env, engine);
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!((&item["name"], &item["make"]["attempts"]), (&json!("a lamp"), &json!(2)));
    let evidence = evidence(&test_env, "lamp.make#1.1");
    assert_eq!(evidence["kind"], "invalid_report", "{evidence:#}");
    let error = evidence["error"].as_str().unwrap();
    assert!(error.contains("without a report, and its edits were refused"), "{error}");
    assert!(error.contains("the step may not change `/name`"), "{error}");
}

#[test]
fn a_torn_a_deleted_and_an_unchanged_file_are_no_report() {
    let make =
        r#"lamp.make 1 do printf '{"name": ' >.items/trial/lamp.json; log_event end "$CALLBOARD_ATTEMPT""#;
    let test_env = open_run(AgentDirectory::Worktree, make);
    assert_eq!(approve(&test_env, resume(&test_env)).1.code, 0);
    let torn = evidence(&test_env, "lamp.make#1.1");
    assert_eq!(torn["kind"], "invalid_report", "{torn:#}");
    assert!(torn["error"].as_str().unwrap().contains("it is not JSON"), "{torn:#}");
    for change in ["rm .items/trial/lamp.json", ":"] {
        let make = format!(r#"lamp.make 1 do {change}; log_event end "$CALLBOARD_ATTEMPT""#);
        let test_env = open_run(AgentDirectory::Worktree, &make);
        assert_eq!(approve(&test_env, resume(&test_env)).1.code, 0);
        assert_eq!(evidence(&test_env, "lamp.make#1.1")["kind"], "no_report", "{change}");
    }
}

#[test]
fn a_run_in_the_repository_has_no_private_copies() {
    let make = r#"lamp.make * do cat .items/trial/lamp.json >"$shared/seen"; write_report COMPLETED made"#;
    let test_env = open_run(AgentDirectory::Repository, make);
    let (_, ended) = approve(&test_env, resume(&test_env));
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let attempt = test_env.attempt_dir("trial", "lamp.make", "1.1");
    assert!(!attempt.join("copies.json").exists());
    assert!(!fs::read_to_string(attempt.join("prompt.md")).unwrap().contains("private copies"));
}
