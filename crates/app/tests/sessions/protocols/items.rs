//! Every command works for the test protocol `items`. It has approvals, effects, steps that are added during the run, a
//! document of several files and a request of its own. The program is an example that consists of `callboard` and `items`.

use std::time::Duration;

use protocol::checks::{CHECKS_FIELD, CheckResult, CheckSpec};
use protocol::run::Request;
use protocol::{Answer, Protocols, RunId, StepId, Turn, protocol_kind};
use runner::{AgentProfile, AnswerError, Clock, Journal, RequestError};
use serde::Deserialize as _;
use serde_json::{Value, json};
use supervisor::adapter::{Adapter, RehearsalScript};
use testkit::harness::{block_on, run_spec, test_author, wrapper};
use testkit::items::{Definition, Items};
use testkit::{Running, TestEnv};

const PROTOCOLS: Protocols = Protocols(&[protocol_kind::<Items>()]);

// Behaviours of the agent of step `plan`: its plan has one item, or two.
const PLAN_ONE_ITEM: &str = r#"plan * do extra_fields=', "items": [{"id": "lamp", "name": "a lamp"}]'; write_report COMPLETED planned"#;
const PLAN_TWO_ITEMS: &str = r#"plan * do extra_fields=', "items": [{"id": "lamp", "name": "a lamp"}, {"id": "desk"}]'; write_report COMPLETED planned"#;

fn run_id() -> RunId {
    RunId::new("trial").unwrap()
}

/// Opens the run `trial` with the scripted agent.
fn open_with_agents(behaviours: &[&str]) -> TestEnv {
    let test_env = TestEnv::new(crate::items_program());
    test_env.script_agent(behaviours);
    let profile = wrapper(&test_env.agent_path());
    open_run(&test_env, &Definition::new("furnish the room"), profile);
    test_env
}

fn open_run(test_env: &TestEnv, definition: &Definition, profile: AgentProfile) {
    let spec = run_spec(definition, &run_id(), test_env.repo(), Some(profile));
    let store = test_env.open_store();
    block_on(runner::open(&store, &Clock::system(), protocol_kind::<Items>(), test_author(), spec)).unwrap();
}

/// Returns a definition whose step `record` runs this shell line as a check.
fn definition_recording_with(line: &str) -> Definition {
    let command = ["sh", "-c", line].map(str::to_owned).to_vec();
    let commands = vec![CheckSpec { name: "test".to_owned(), command, timeout: Duration::from_mins(5) }];
    Definition { commands, ..Definition::new("furnish the room") }
}

/// Opens the run `trial` and approves an item after its engine was killed, so that step `record` has not started.
fn open_with_approved_item(definition: impl Fn(&str) -> Definition) -> TestEnv {
    let test_env = TestEnv::new(crate::items_program());
    test_env.script_agent(&[PLAN_ONE_ITEM]);
    let shared = test_env.agent_dir().display().to_string();
    open_run(&test_env, &definition(&shared), wrapper(&test_env.agent_path()));
    let engine = resume(&test_env);
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    engine.kill();
    engine.wait();
    answer(&test_env, "lamp.approve", None, "approve").unwrap();
    test_env
}

fn journal(test_env: &TestEnv) -> Journal {
    let store = test_env.open_store();
    block_on(Journal::load(&store, &Clock::system(), PROTOCOLS, &run_id())).unwrap().unwrap()
}

fn answer(test_env: &TestEnv, step: &str, turn: Option<u32>, choice: &str) -> Result<Turn, AnswerError> {
    let step = StepId::new(step).unwrap();
    let answer = match choice {
        "approve" => Answer::Approve { text: None },
        _ => Answer::Reject { reason: "too dark".to_owned() },
    };
    block_on(runner::answer(&mut journal(test_env), test_author(), &step, turn.map(Turn), answer))
}

/// Sends the protocol's own request `reopen` for an item.
fn reopen(test_env: &TestEnv, item: &str) -> Result<(), RequestError> {
    let request = Request::Protocol(json!({ "reopen": item }));
    block_on(runner::request(&mut journal(test_env), test_author(), request, None))
}

fn resume(test_env: &TestEnv) -> Running<'_> {
    test_env.callboard(&["resume", "trial"]).start()
}

/// Waits until a step has this status in the view of its item. The view appears with the plan.
fn wait_for_item(test_env: &TestEnv, item: &str, step: &str, status: &str) -> Value {
    wait_for_item_view(test_env, item, &format!("{step} is {status}"), |view| view[step]["status"] == status)
}

fn wait_for_item_view(
    test_env: &TestEnv,
    item: &str,
    what: &str,
    predicate: impl Fn(&Value) -> bool,
) -> Value {
    let directory = test_env.repo().join(".items/trial");
    std::fs::create_dir_all(&directory).unwrap();
    testkit::wait_until(&directory, what, || {
        let text = std::fs::read_to_string(directory.join(format!("{item}.json"))).ok()?;
        let view: Value = serde_json::from_str(&text).expect("a view is whole");
        predicate(&view).then_some(view)
    })
}

fn show(test_env: &TestEnv) -> Value {
    test_env.callboard(&["show", "trial", "--json"]).run().json()
}

#[test]
fn a_person_approves_what_an_agent_made_and_an_effect_records_it_once() {
    let test_env = open_with_agents(&[PLAN_ONE_ITEM]);
    let engine = resume(&test_env);
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    let shown = show(&test_env);
    assert_eq!(shown["status"], "waiting", "{shown:#}");
    assert_eq!(shown["steps"]["lamp.approve"]["status"], "waiting_for_person", "{shown:#}");
    assert_eq!(shown["steps"]["lamp.approve"]["question"], "Is `a lamp` good?");
    let listed = test_env.callboard(&["ls", "--json", "--status", "waiting"]).run().json();
    assert_eq!(listed[0]["run"], "trial", "{listed:#}");

    answer(&test_env, "lamp.approve", Some(1), "reject").unwrap();
    wait_for_item_view(&test_env, "lamp", "it is made again", |view| {
        view["rejections"] == json!(["too dark"]) && view["approve"]["status"] == "waiting"
    });
    let prompt = test_env.callboard(&["prompt", "trial", "lamp.make"]).run();
    assert!(prompt.stdout.contains("It was rejected: too dark"), "{}", prompt.transcript());
    let late = answer(&test_env, "lamp.approve", Some(1), "approve").unwrap_err();
    assert_eq!(late.to_string(), "`lamp.approve#1` was answered before");
    answer(&test_env, "lamp.approve", None, "approve").unwrap();

    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    // The effect appends its key and the item to the file `ledger`.
    assert_eq!(
        std::fs::read_to_string(test_env.repo().join("ledger")).unwrap(),
        "trial/lamp.record#1 a lamp\n"
    );
    let again = answer(&test_env, "lamp.approve", None, "approve").unwrap_err();
    assert!(matches!(&again, AnswerError::Answered(first) if first.turn == Turn(2)), "{again:?}");
}

#[test]
fn a_question_survives_the_engine_that_asked_it() {
    let test_env = open_with_agents(&[PLAN_ONE_ITEM]);
    let engine = resume(&test_env);
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    engine.kill();
    engine.wait();
    assert_eq!(show(&test_env)["status"], "waiting", "a run that waits for a person needs no engine");
    answer(&test_env, "lamp.approve", None, "approve").unwrap();
    assert_eq!(show(&test_env)["status"], "interrupted");
    let ended = resume(&test_env).wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    let started = test_env.agent_log().started();
    assert_eq!(started, ["plan#1.1", "lamp.make#1.1"], "no agent works twice");
}

#[test]
fn a_request_of_the_protocol_reopens_a_finished_run_or_is_refused() {
    let test_env = open_with_agents(&[PLAN_ONE_ITEM]);
    let unknown = reopen(&test_env, "chair").unwrap_err();
    assert_eq!(unknown.to_string(), "it was refused: there is no item `chair`");
    let engine = resume(&test_env);
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    let early = reopen(&test_env, "lamp").unwrap_err();
    assert_eq!(early.to_string(), "it was refused: `lamp` is not recorded yet");
    answer(&test_env, "lamp.approve", None, "approve").unwrap();
    assert_eq!(engine.wait().code, 0);

    reopen(&test_env, "lamp").unwrap();
    let engine = resume(&test_env);
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    answer(&test_env, "lamp.approve", None, "approve").unwrap();
    assert_eq!(engine.wait().code, 0);
    let ledger = std::fs::read_to_string(test_env.repo().join("ledger")).unwrap();
    assert_eq!(ledger, "trial/lamp.record#1 a lamp\ntrial/lamp.record#2 a lamp\n");
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("reopen lamp"), "{}", log.transcript());
}

#[test]
fn the_model_of_a_role_may_be_set_before_its_step_exists() {
    let test_env = open_with_agents(&[PLAN_ONE_ITEM]);
    let unknown = test_env.callboard(&["resume", "trial", "--model", "makr=large"]).run();
    assert_eq!(unknown.code, 2, "{}", unknown.transcript());
    assert!(unknown.stderr.contains("did you mean `maker`?"), "{}", unknown.transcript());
    let session =
        test_env.callboard(&["resume", "trial", "--model", "maker=large", "--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    let context = test_env.attempt_dir("trial", "lamp.make", "1.1").join("context.json");
    let context: Value = serde_json::from_str(&std::fs::read_to_string(context).unwrap()).unwrap();
    assert_eq!(context["model"], "large");
}

#[test]
fn every_command_works_for_a_protocol_that_was_added() {
    let test_env = open_with_agents(&[PLAN_TWO_ITEMS, "desk.make * exit 1"]);
    let failed = resume(&test_env).wait();
    assert_eq!(failed.code, 1, "{}", failed.transcript());
    let expect_exit = |arguments: &[&str], code: i32| {
        let session = test_env.callboard(arguments).run();
        assert_eq!(session.code, code, "{}", session.transcript());
        session
    };
    let skipped = expect_exit(&["skip", "trial", "desk.make", "--reason", "no"], 3);
    assert!(skipped.stderr.contains("cannot be skipped"), "{}", skipped.transcript());
    for arguments in [
        &["show", "trial"][..],
        &["show", "trial", "--at", "2"],
        &["log", "trial", "--full"],
        &["log", "trial", "--step", "lamp.make", "--json"],
        &["diff", "trial", "2"],
        &["graph", "trial"],
        &["graph", "trial", "--format", "mermaid"],
        &["prompt", "trial", "desk.make", "--next"],
        &["prompt", "trial", "plan"],
        &["ls", "--protocol", "items"],
        &["doctor"],
        &["export", "trial"],
        &["recover"],
    ] {
        expect_exit(arguments, 0);
    }
    test_env.script_agent(&[PLAN_TWO_ITEMS]);
    let engine = test_env.callboard(&["retry", "trial"]).start();
    wait_for_item(&test_env, "desk", "approve", "waiting");
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    expect_exit(&["pause", "trial"], 0);
    testkit::wait_until(&test_env.repo().join(".items/trial"), "a pause shows in the document", || {
        let plan = std::fs::read_to_string(test_env.repo().join(".items/trial/plan.json")).ok()?;
        plan.contains(r#""status": "paused""#).then_some(())
    });
    expect_exit(&["resume", "trial", "--at-once"], 0);
    expect_exit(&["stop", "trial"], 0);
    engine.wait();
    for step in ["lamp.approve", "desk.approve"] {
        answer(&test_env, step, None, "approve").unwrap();
    }
    assert_eq!(resume(&test_env).wait().code, 0);
    let watched = expect_exit(&["watch", "trial"], 0);
    assert!(watched.stdout.contains("succeeded"), "{}", watched.transcript());
    test_env.expect_no_orphans();
}

#[test]
fn a_check_that_outlives_its_engine_is_adopted_and_runs_once() {
    let test_env = open_with_approved_item(|shared| {
        definition_recording_with(&format!(
            "cd '{shared}'; echo $CALLBOARD_ATTEMPT >>ran; touch started; read go <barrier"
        ))
    });
    let mut barrier = test_env.barrier("barrier");
    let engine = resume(&test_env);
    test_env.wait_for_file("started");
    engine.kill();
    engine.wait();
    let engine = resume(&test_env);
    engine.wait_for_stderr("lamp.record#1.1 is still running: adopted");
    barrier.open();
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert_eq!(std::fs::read_to_string(test_env.agent_dir().join("ran")).unwrap(), "lamp.record#1.1\n");
    test_env.expect_no_orphans();
}

#[test]
fn a_failing_check_is_evidence_of_a_failed_step() {
    let test_env = open_with_approved_item(|_| definition_recording_with("echo 3 tests failed; exit 101"));
    let ended = resume(&test_env).wait();
    assert_eq!(ended.code, 1, "{}", ended.transcript());
    let log = test_env.callboard(&["log", "trial", "--step", "lamp.record"]).run();
    assert!(log.stdout.contains("test failed: exit code 101"), "{}", log.transcript());
    let attempt = test_env.attempt_dir("trial", "lamp.record", "1.1");
    let report: Value = serde_json::from_slice(&std::fs::read(attempt.join("report.json")).unwrap()).unwrap();
    let result = CheckResult::deserialize(&report[CHECKS_FIELD][0]).unwrap();
    assert_eq!((result.exit_code, result.output.as_str()), (Some(101), "3 tests failed\n"));
    assert!(result.tree.is_some(), "the repository has a tree: {result:?}");
    assert_eq!(result.log, Some(attempt.join("check-1-test.log").display().to_string()));
}

#[test]
fn a_rehearsed_check_passes_without_being_run() {
    let test_env = TestEnv::new(crate::items_program());
    let plan = json!({ "items": [{ "id": "lamp" }] });
    let by_default = [(StepId::new("plan").unwrap(), plan.as_object().unwrap().clone())];
    let rehearsal = RehearsalScript { default_fields: by_default.into(), ..RehearsalScript::default() };
    let profile = AgentProfile { adapter: Adapter::Rehearsal(rehearsal), ..wrapper(&test_env.agent_path()) };
    open_run(&test_env, &definition_recording_with("touch ran; exit 1"), profile);
    let engine = resume(&test_env);
    wait_for_item(&test_env, "lamp", "approve", "waiting");
    answer(&test_env, "lamp.approve", None, "approve").unwrap();
    let ended = engine.wait();
    assert_eq!(ended.code, 0, "{}", ended.transcript());
    assert!(!test_env.repo().join("ran").exists());
}
