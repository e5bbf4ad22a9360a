//! View files are written from the store; edits of them are quarantined.

use std::fs;
use std::num::NonZeroU32;

use insta::assert_snapshot;
use protocol::Outcome;
use protocol::steps::Definition;
use runner::{Clock, EngineExit, Notice};
use testkit::harness;

use crate::faults::in_process_run::InProcessRun;
use crate::sessions::{status, test_env};

#[test]
fn an_edited_view_is_quarantined_and_rewritten() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.wait_for_view("trial", "the second step", |document| status(document, "b") == "RUNNING");
    fs::write(test_env.view_path("trial"), "mine now").unwrap();
    barrier.open();
    let session = running.wait();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    ✓ a#1.1 finished [TIME]
    ▸ b#1.1 started
    ✓ b#1.1 finished [TIME]
    ! [E017] another program changed [REPO]/.agents/runs/trial/run_state.json: moved it to [STORE]/quarantine/trial/[HEX]-run_state.json and wrote the view again

    run `trial` succeeded: 2 of 2 steps done, [TIME]
    [exit 0]
    ");
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
    let quarantined: Vec<_> =
        fs::read_dir(test_env.store_dir().join("quarantine/trial")).unwrap().flatten().collect();
    assert_eq!(quarantined.len(), 1);
    assert_eq!(fs::read_to_string(quarantined[0].path()).unwrap(), "mine now");
}

#[test]
fn a_view_edited_without_an_engine_is_noticed_by_the_next_one() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    fs::write(test_env.view_path("trial"), "{}").unwrap();
    test_env.script_agent(&[]);
    let session = test_env.callboard(&["resume"]).run();
    assert_eq!(session.code, 0);
    assert!(session.stderr.contains("another program changed"), "{}", session.stderr);
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
}

#[test]
fn a_deleted_view_is_rewritten() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    // One rename instead of many deletions: the engine may be writing there.
    fs::rename(test_env.repo().join(".agents"), test_env.agent_dir().join("removed")).unwrap();
    barrier.open();
    assert_eq!(running.wait().code, 0);
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
}

/// An engine can be killed after its last commit and before it writes the view. A finished run gets no other engine.
#[test]
fn a_refused_resume_rewrites_the_view_of_a_finished_run() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    fs::remove_file(test_env.view_path("trial")).unwrap();
    assert_eq!(test_env.callboard(&["resume", "trial"]).run().code, 3);
    assert_eq!(status(&test_env.document("trial"), "a"), "COMPLETED");
}

/// The format of `run_state.json` promises readers three states: nothing has started, the gate has failed, and both steps
/// are reset. So the engine must write each of them, although it limits how often it writes the view. A reader in another
/// process can be scheduled too late for one. This test reads in the engine's own thread, after each commit and before the
/// view of that commit is written: it sees the view of the commit before.
#[tokio::test]
async fn a_reader_sees_the_start_the_failed_gate_and_the_reset() {
    let test_env = test_env();
    test_env.script_agent(&["review * gate-failure 1"]);
    let max_attempts = NonZeroU32::MIN;
    let mut stored_definition = harness::independent_steps(&["code", "review"], max_attempts);
    let [code, review] = &mut stored_definition.workflow.steps[..] else { panic!("two steps") };
    review.needs = vec![code.id.clone()];
    review.loop_back_to = Some(code.id.clone());
    let run =
        InProcessRun::open_workflow(&test_env, Clock::system(), &Definition::from(stored_definition)).await;
    let (view, mut seen) = (test_env.view_path("trial"), Vec::new());
    let read = |notice: Notice<'_>| {
        if let Notice::Committed { .. } = notice {
            let document: serde_json::Value = serde_json::from_slice(&fs::read(&view).unwrap()).unwrap();
            let [code, review] = ["code", "review"].map(|step| status(&document, step).to_owned());
            let gate = &document["steps"]["review"];
            let error = gate["last_error"].as_str().map(str::to_owned);
            seen.push((code, review, gate["iteration_count"].as_u64().unwrap(), error));
        }
    };
    assert_eq!(run.drive(read).await.unwrap(), EngineExit::Finished(Outcome::Succeeded));
    let both = |status: &str, iteration: u64, error: Option<&str>| {
        (status.to_owned(), status.to_owned(), iteration, error.map(str::to_owned))
    };
    let expected = [
        both("PENDING", 0, None),
        both("COMPLETED", 0, Some("Gate failure: review saw iteration 1")),
        both("PENDING", 1, None),
    ];
    let mut found = seen.iter().filter(|snapshot| expected.contains(snapshot)).collect::<Vec<_>>();
    found.dedup();
    assert_eq!(found, expected.iter().collect::<Vec<_>>(), "{seen:#?}");
}

#[test]
fn the_output_of_each_attempt_is_in_the_logs_directory() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env
        .script_agent(&["a 1 do echo first >&2; exit 1", "a 2 do echo second; write_report COMPLETED did"]);
    let session = test_env.run(&["--log-level", "DEBUG"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stderr.contains(" DEBUG run{id=trial}"), "{}", session.transcript());
    let logs = test_env.repo().join(".agents/runs/trial/logs");
    let log = |name: &str| fs::read_to_string(logs.join(name)).unwrap();
    assert!(log("trial__a__attempt1.stderr.log").contains("first"));
    assert!(log("trial__a__attempt2.log").contains("second"));
}

#[test]
fn a_log_directory_that_cannot_be_written_stops_no_step() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    let spoil =
        r#"a * do rm -r .agents/runs/trial/logs; : >.agents/runs/trial/logs; write_report COMPLETED "did a""#;
    test_env.script_agent(&[spoil]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1"]);
}
