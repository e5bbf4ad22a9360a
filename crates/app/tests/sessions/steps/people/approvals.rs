//! `human_in_the_loop` and the answer files of `manual_inputs/`.

use std::fs;
use std::num::NonZeroU32;
use std::path::PathBuf;

use protocol::Outcome;
use protocol::run::Change;
use runner::{Clock, EngineExit, Notice};
use serde_json::{Value, json};
use testkit::{Running, TestEnv, harness};

use crate::faults::in_process_run::InProcessRun;
use crate::sessions::{last_error, status, test_env};

/// A person approves the review before `ship` starts, or sends the work back to `code`. The approval is a turn of its own,
/// `review#2`.
const WORKFLOW: &str = "\
name: trial
steps:
  - {id: code, agent: coder, prompt: task.md, human_in_the_loop: false}
  - {id: review, agent: coder, prompt: task.md, needs: [code], loop_back_to: code, human_in_the_loop: true}
  - {id: ship, agent: coder, prompt: task.md, needs: [review]}
";

fn with_workflow(workflow: &str) -> TestEnv {
    let test_env = test_env();
    test_env.write("wf.yaml", workflow);
    test_env
}

/// Starts the run, and waits until the review waits for a person.
fn start_until_question(test_env: &TestEnv) -> Running<'_> {
    let engine = test_env.run(&[]).start();
    wait_for_question(test_env, 0);
    engine
}

/// Waits until the review waits for a person, after this number of loop-backs. Returns the view.
fn wait_for_question(test_env: &TestEnv, loop_backs: u32) -> Value {
    test_env.wait_for_view("trial", "it asks", |view| {
        status(view, "review") == "WAITING_ON_HUMAN"
            && view["steps"]["review"]["iteration_count"] == loop_backs
    })
}

fn answer_path(view: &Value) -> PathBuf {
    PathBuf::from(view["steps"]["review"]["manual_input_path"].as_str().unwrap())
}

#[test]
fn the_agent_works_first_and_then_a_person_approves() {
    let test_env = with_workflow(WORKFLOW);
    let engine = start_until_question(&test_env);
    let view = wait_for_question(&test_env, 0);
    assert_eq!(view["steps"].as_object().unwrap().len(), 3, "no other step is shown: {view:#}");
    assert_eq!(view["steps"]["review"]["artifacts"], json!(["made/review.txt"]));
    assert!(answer_path(&view).ends_with("manual_inputs/trial__review.json"), "{view:#}");
    let inbox = test_env.callboard(&["inbox", "--json"]).run().json();
    assert_eq!(inbox[0]["question"], "Do you approve what `review` did?");
    assert_eq!(inbox[0]["upstream"][0]["artifacts"], json!(["made/review.txt"]));
    let id = inbox[0]["id"].as_str().unwrap();
    let answered = test_env.callboard(&["answer", id, "approve"]).run();
    assert_eq!(answered.code, 0, "{}", answered.transcript());
    assert_eq!(engine.wait().code, 0);
    let view = test_env.document("trial");
    assert_eq!(status(&view, "review"), "COMPLETED");
    assert_eq!(view["steps"]["review"]["manual_input_path"], Value::Null);
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "review#1.1", "ship#1.1"]);
}

/// Events 6 and 7 in the documentation of the original: the answer makes the step `RUNNING`, and then it is `COMPLETED`.
#[test]
fn an_answered_step_runs_before_it_is_completed() {
    let test_env = with_workflow(WORKFLOW);
    let engine = start_until_question(&test_env);
    fs::write(answer_path(&wait_for_question(&test_env, 0)), r#"{"approved": true, "text": "looks good"}"#)
        .unwrap();
    assert_eq!(engine.wait().code, 0);
    let revisions = test_env.callboard(&["show", "trial", "--json"]).run().json()["newest"].as_u64().unwrap();
    let statuses: Vec<_> = (1..=revisions)
        .map(|revision| {
            let at =
                test_env.callboard(&["show", "trial", "--json", "--at", &revision.to_string()]).run().json();
            at["document"]["steps"]["review"]["status"].as_str().unwrap_or("?").to_owned()
        })
        .collect();
    let mut distinct = statuses.clone();
    distinct.dedup();
    assert_eq!(distinct, ["PENDING", "RUNNING", "WAITING_ON_HUMAN", "RUNNING", "COMPLETED"], "{statuses:?}");
}

#[test]
fn the_answer_file_rejects_and_approves_and_reaches_the_next_step() {
    let test_env = with_workflow(WORKFLOW);
    test_env.script_agent(&[
        "ship * do echo \"$DEP_REVIEW_APPROVED:$DEP_REVIEW_ANSWER\" >\"$shared/env\"; cat \"$MANUAL_RESULT_PATH\" >\"$shared/file\"; write_report COMPLETED shipped",
    ]);
    let engine = start_until_question(&test_env);
    let path = answer_path(&wait_for_question(&test_env, 0));
    fs::write(&path, r#"{"approved": false, "reason": "the tests are missing"}"#).unwrap();
    let view = wait_for_question(&test_env, 1);
    assert!(!path.exists(), "an answer is taken once");
    assert_eq!(view["steps"]["code"]["iteration_count"], 1);
    let prompt = test_env.callboard(&["prompt", "trial", "code"]).run();
    assert!(prompt.stdout.contains("the tests are missing"), "{}", prompt.transcript());
    fs::write(&path, r#"{"approved": true, "text": "ship it"}"#).unwrap();
    assert_eq!(engine.wait().code, 0);
    assert_eq!(fs::read_to_string(test_env.agent_dir().join("env")).unwrap(), "true:ship it\n");
    let file: Value =
        serde_json::from_str(&fs::read_to_string(test_env.agent_dir().join("file")).unwrap()).unwrap();
    assert_eq!((&file["approved"], &file["text"]), (&json!(true), &json!("ship it")), "{file:#}");
    let prompt = test_env.callboard(&["prompt", "trial", "ship"]).run();
    assert!(
        prompt.stdout.contains("Approved by the file trial__review.json: ship it"),
        "{}",
        prompt.transcript()
    );
}

/// Regression: the file that had approved `ship` was then the answer file of `ship.1`.
#[test]
fn an_answer_file_that_was_taken_answers_no_other_step() {
    let test_env = with_workflow(
        "name: trial\nsteps:\n  - {id: ship, agent: person, prompt: task.md}\n  - {id: ship.1, agent: person, prompt: task.md}\n",
    );
    assert_eq!(test_env.run(&["--exit-when-waiting"]).run().code, 4);
    let view = test_env.document("trial");
    let path = view["steps"]["ship"]["manual_input_path"].as_str().unwrap();
    fs::write(path, r#"{"approved": true}"#).unwrap();
    for _ in 0..2 {
        let session = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
        assert_eq!(session.code, 4, "{}", session.transcript());
    }
    let view = test_env.document("trial");
    assert_eq!((status(&view, "ship"), status(&view, "ship.1")), ("COMPLETED", "WAITING_ON_HUMAN"));
}

/// A scenario in which the original tool failed: a truncated file with `approved: false` approved the step.
#[test]
fn malformed_answer_file_does_not_approve() {
    let test_env = with_workflow(WORKFLOW);
    let first = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(first.code, 4, "{}", first.transcript());
    let path = answer_path(&test_env.document("trial"));
    for (text, reason) in [
        ("{\"approved\": fal", "it is not JSON"),
        ("", "it is not JSON"),
        ("{}", "it has no field `approved`"),
        ("{\"approved\": \"true\"}", "its field `approved` is neither `true` nor `false`"),
    ] {
        fs::write(&path, text).unwrap();
        let again = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
        assert_eq!(again.code, 4, "{text}: {}", again.transcript());
        let note = format!("does not answer trial/review#2: {reason}");
        assert!(again.stderr.contains(&note), "{}", again.transcript());
        assert!(path.exists(), "it stays for its author to correct");
    }
    fs::write(&path, "{\"approved\": true}").unwrap();
    let last = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
    assert_eq!(last.code, 0, "{}", last.transcript());
}

#[test]
fn a_rejection_without_a_loop_back_fails_the_step_and_a_retry_starts_the_agent_again() {
    let test_env = with_workflow(&WORKFLOW.replace(", loop_back_to: code", ""));
    let engine = start_until_question(&test_env);
    fs::write(answer_path(&wait_for_question(&test_env, 0)), r#"{"approved": false, "reason": "too dark"}"#)
        .unwrap();
    assert_eq!(engine.wait().code, 1);
    let view = test_env.document("trial");
    assert_eq!(status(&view, "review"), "FAILED");
    assert!(last_error(&view, "review").ends_with(": too dark"), "{view:#}");
    let retried = test_env.with_agent(&["retry", "trial", "--exit-when-waiting"]).run();
    assert_eq!(retried.code, 4, "{}", retried.transcript());
    let prompt = test_env.callboard(&["prompt", "trial", "review", "--attempt", "3.1"]).run();
    assert!(prompt.stdout.contains(": too dark"), "{}", prompt.transcript());
    assert_eq!(test_env.agent_log().started(), ["code#1.1", "review#1.1", "review#3.1"]);
}

#[test]
fn no_pause_skips_the_wait_and_says_so() {
    let test_env = with_workflow(WORKFLOW);
    let session = test_env.run(&["--no-pause", "--pause-for-human-input"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(
        session.stderr.contains("`review` does not wait for a person (`--no-pause`)"),
        "{}",
        session.transcript()
    );
    assert!(session.stderr.contains("`--pause-for-human-input` has no effect"), "{}", session.transcript());
}

/// Otherwise an agent that writes the answer file would approve its own work.
#[test]
fn a_file_that_is_there_before_the_question_is_no_answer() {
    let test_env = with_workflow(WORKFLOW);
    let write = r#"inputs=.agents/runs/trial/manual_inputs; mkdir -p $inputs; echo '{"approved": true}' | tee $inputs/trial__review.json >$inputs/'trial__review#2.json'"#;
    test_env.script_agent(&[&format!("review * do {write}; write_report COMPLETED reviewed")]);
    let session = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(session.stderr.contains("written before the question"), "{}", session.transcript());
    let again = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
    assert_eq!(again.code, 4, "{}", again.transcript());
    let approved = test_env.callboard(&["answer", "trial/review", "approve", "--text", "ship it"]).run();
    assert_eq!(approved.code, 0, "{}", approved.transcript());
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("review#2 was answered: approve: ship it"), "{}", log.transcript());
}

/// Regression: the file was taken as the answer, because the engine had already committed an entry when it looked.
#[test]
fn a_file_that_is_there_before_the_run_is_no_answer() {
    let test_env = with_workflow(
        "name: trial\nsteps:\n  - {id: ship.early, agent: person}\n  - {id: ship, agent: person}\n",
    );
    let inputs = test_env.repo().join(".agents/runs/trial/manual_inputs");
    fs::create_dir_all(&inputs).unwrap();
    fs::write(inputs.join("trial__ship.json"), r#"{"approved": true}"#).unwrap();
    let session = test_env.run(&["--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert!(session.stderr.contains("written before the question"), "{}", session.transcript());
    // The file that was moved aside answers no other step.
    let again = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
    assert_eq!(again.code, 4, "{}", again.transcript());
    assert_eq!(test_env.callboard(&["inbox", "--json"]).run().json().as_array().map_or(0, Vec::len), 2);
}

/// Regression: the file was taken, because the engine looked for early files of its own questions only.
#[test]
fn a_file_that_is_there_before_another_command_asks_the_question_is_no_answer() {
    let test_env = with_workflow(
        "name: trial\nsteps:\n  - {id: slow, agent: coder, prompt: task.md}\n  - {id: code, agent: coder, prompt: task.md, max_attempts: 1}\n  - {id: ship, agent: person, needs: [code]}\n",
    );
    test_env.script_agent(&["slow * hang", "code * exit 1"]);
    let engine = test_env.run(&["--jobs", "2", "--on-failure", "continue"]).start();
    test_env.wait_for_view("trial", "it fails", |view| status(view, "code") == "FAILED");
    let inputs = test_env.repo().join(".agents/runs/trial/manual_inputs");
    fs::create_dir_all(&inputs).unwrap();
    fs::write(inputs.join("trial__ship.json"), r#"{"approved": true}"#).unwrap();
    let skipped = test_env.callboard(&["skip", "trial", "code", "--reason", "not needed"]).run();
    assert_eq!(skipped.code, 0, "{}", skipped.transcript());
    assert!(skipped.stderr.contains("written before the question"), "{}", skipped.transcript());
    test_env.wait_for_view("trial", "it asks", |view| status(view, "ship") == "WAITING_ON_HUMAN");
    assert!(inputs.join("trial__ship#early-1.json").exists());
    test_env.callboard(&["stop", "trial"]).run();
    engine.wait();
}

#[test]
fn a_rejection_needs_a_reason_and_is_named_to_the_step_that_it_sends_back() {
    let test_env = with_workflow(WORKFLOW);
    test_env.script_agent(&[
        r#"code * do echo "$LOOP_BACK_FROM:$LOOP_BACK_REPORT" >"$shared/env"; write_report COMPLETED coded"#,
    ]);
    assert_eq!(test_env.run(&["--exit-when-waiting"]).run().code, 4);
    for blank in [&["reject", "--reason", " "][..], &["workaround", "--text", ""], &["--text", " "]] {
        let refused = test_env.callboard(&[&["answer", "trial/review"], blank].concat()).run();
        assert_eq!(refused.code, 2, "{}", refused.transcript());
        assert!(refused.stderr.contains("the answer is incomplete"), "{}", refused.transcript());
    }
    assert_eq!(
        test_env.callboard(&["answer", "trial/review", "reject", "--reason", "too dark"]).run().code,
        0
    );
    let session = test_env.callboard(&["resume", "trial", "--exit-when-waiting"]).run();
    assert_eq!(session.code, 4, "{}", session.transcript());
    assert_eq!(fs::read_to_string(test_env.agent_dir().join("env")).unwrap(), "review:\n");
}

#[test]
fn a_step_of_a_person_takes_the_answer_file_too() {
    let test_env = with_workflow(
        "name: trial\nsteps:\n  - {id: review, agent: person}\n  - {id: ship, agent: coder, prompt: task.md, needs: [review]}\n",
    );
    let engine = start_until_question(&test_env);
    fs::write(answer_path(&wait_for_question(&test_env, 0)), r#"{"approved": true}"#).unwrap();
    assert_eq!(engine.wait().code, 0);
}

/// Regression: the file was moved aside, because the engine looked for early files after the commit of the question.
#[tokio::test]
async fn an_answer_that_is_written_at_once_when_the_question_is_committed_counts() {
    let test_env = test_env();
    let mut definition = harness::one_step("a", NonZeroU32::MIN);
    definition.workflow.steps[0].human_in_the_loop = true;
    let mut run = InProcessRun::open_workflow(&test_env, Clock::system(), &definition.into()).await;
    run.engine_config.overrides.exit_when_waiting = true;
    let inputs = test_env.repo().join(".agents/runs/trial/manual_inputs");
    let exit = run.drive(|notice| {
        if let Notice::Committed { entry, .. } = notice
            && entry.changes.iter().any(|change| matches!(change, Change::Waiting { .. }))
        {
            fs::create_dir_all(&inputs).unwrap();
            fs::write(inputs.join("trial__a.json"), r#"{"approved": true}"#).unwrap();
        }
    });
    assert_eq!(exit.await.unwrap(), EngineExit::Finished(Outcome::Succeeded));
}
