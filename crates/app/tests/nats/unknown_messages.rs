//! Another client publishes on a run's subject: that stops this run alone, and `recover` sets the message aside.

use testkit::{TestEnv, harness, status};

use crate::nats::{client, test_env};

/// Makes one run that succeeded, and one that was interrupted before its second step.
fn two_runs(test_env: &TestEnv) {
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run_named("well").run().code, 0);
    test_env.workflow(&["a", "b: a"]);
    test_env.script_agent(&["b 1 hang"]);
    let engine = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    engine.interrupt();
    let session = engine.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    test_env.script_agent(&[]);
}

fn publish(test_env: &TestEnv, run: &str, bytes: &'static str) {
    let subject = format!("callboard.run.{run}");
    let client = client(test_env);
    harness::block_on(async { client.publish(subject, bytes.into()).await.unwrap().await.unwrap() });
}

#[test]
fn garbage_on_a_runs_subject_stops_that_run_alone_until_recover_sets_it_aside() {
    let test_env = test_env();
    two_runs(&test_env);
    publish(&test_env, "trial", "hello");
    for command in [&["show", "trial"][..], &["resume", "trial"], &["stop", "trial"], &["log", "trial"]] {
        let session = test_env.callboard(command).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let error = "error[E003]: the journal of run `trial` at the NATS server `";
        assert!(session.stderr.starts_with(error), "{}", session.transcript());
        assert!(session.stderr.contains("` cannot be parsed\n"), "{}", session.transcript());
        assert!(session.stderr.contains("was not written by callboard"), "{}", session.transcript());
        assert!(session.stderr.contains("hint: run `callboard recover`"), "{}", session.transcript());
    }
    let listed = test_env.callboard(&["ls"]).run();
    assert_eq!(listed.code, 0, "{}", listed.transcript());
    assert!(listed.stdout.contains("trial  cannot be read"), "{}", listed.transcript());
    assert!(listed.stdout.contains("well   succeeded"), "{}", listed.transcript());
    assert!(listed.stdout.contains("run `callboard show trial` to see why"), "{}", listed.transcript());
    let listed = test_env.callboard(&["ls", "--json"]).run().json();
    let expected =
        serde_json::json!({"run": "trial", "protocol": "", "revision": 0, "problem": "cannot be read"});
    assert!(listed.as_array().unwrap().contains(&expected), "{listed:#}");
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(test_env.callboard(&["show", "well"]).run().code, 0);
    let doctor = test_env.callboard(&["doctor"]).run();
    assert_eq!(doctor.code, 1, "{}", doctor.transcript());
    assert!(doctor.stdout.contains("the journal of run `trial` at "), "{}", doctor.transcript());
    assert!(doctor.stdout.contains("$ callboard recover\n"), "{}", doctor.transcript());

    let dry = test_env.callboard(&["recover", "--dry-run"]).run();
    assert!(dry.stdout.contains("of run `trial` was not written by callboard"), "{}", dry.transcript());
    assert!(!dry.stderr.contains("it makes a backup first"), "{}", dry.transcript());
    assert_eq!(test_env.callboard(&["show", "trial"]).run().code, 5, "nothing was changed");
    let recovered = test_env.callboard(&["recover"]).run();
    assert_eq!(recovered.code, 0, "{}", recovered.transcript());
    assert!(
        recovered.stderr.contains("was moved to the object `recovery.trial."),
        "{}",
        recovered.transcript()
    );
    let again = test_env.callboard(&["recover"]).run();
    assert!(again.stdout.contains("is intact"), "{}", again.transcript());
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert_eq!(status(&test_env.document("trial"), "b"), "COMPLETED");
}

#[test]
fn an_engine_that_reads_garbage_leaves_its_agents_for_adoption() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let engine = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    publish(&test_env, "trial", "{}");
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("`callboard recover`"), "{}", session.transcript());
    assert_eq!(test_env.callboard(&["recover"]).run().code, 0);
    let resumed = test_env.callboard(&["resume", "trial"]).start();
    resumed.wait_for_stderr("a#1.1 is still running: adopted");
    barrier.open();
    assert_eq!(resumed.wait().code, 0);
    assert_eq!(test_env.agent_log().started(), ["a#1.1"]);
}
