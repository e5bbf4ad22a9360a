//! Which run `resume` continues.

use insta::assert_snapshot;

use crate::sessions::test_env;

#[test]
fn without_an_unfinished_run_there_is_nothing_to_resume() {
    let test_env = test_env();
    assert_snapshot!(test_env.callboard(&["resume"]).run().transcript(), @"
    $ callboard resume
    error: there is no unfinished run

    hint: run `callboard run WORKFLOW` to start one, or `callboard ls` to list all runs
    [exit 2]
    ");
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_eq!(test_env.callboard(&["resume"]).run().code, 2);
}

#[test]
fn a_succeeded_run_is_not_resumed() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    assert_eq!(test_env.run(&[]).run().code, 0);
    assert_snapshot!(test_env.callboard(&["resume", "trial"]).run().transcript(), @"
    $ callboard resume trial
    error[E013]: cannot continue run `trial`
      caused by: it has succeeded

    hint: run `callboard log trial` to see its journal, or `callboard run` to start a new run
    [exit 3]
    ");
}

#[test]
fn the_only_unfinished_run_is_found_and_two_must_be_named() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let mut started = 0;
    let mut interrupt = |run: &str| {
        let running = test_env.run_named(run).start();
        testkit::wait_until(&test_env.agent_dir(), "another begin", || {
            (test_env.agent_log().started().len() > started).then_some(())
        });
        started = test_env.agent_log().started().len();
        running.interrupt();
        assert_eq!(running.wait().code, 130);
    };
    interrupt("first");
    interrupt("second");
    assert_snapshot!(test_env.callboard(&["resume"]).run().transcript(), @"
    $ callboard resume
    error: 2 runs are unfinished; name one of them

    hint: `callboard resume first`  trial
    hint: `callboard resume second`  trial
    [exit 2]
    ");
    test_env.script_agent(&[]);
    assert_eq!(test_env.callboard(&["resume", "second"]).run().code, 0);
    let session = test_env.callboard(&["resume"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stdout.contains("run `first`"), "{}", session.stdout);
}

#[test]
fn a_second_engine_is_refused_with_the_pid_of_the_first() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    let refused = test_env.callboard(&["resume"]).run();
    assert!(refused.stderr.contains(&running.pid().to_string()), "{}", refused.stderr);
    assert_snapshot!(refused.transcript(), @"
    $ callboard resume
    error[E001]: run `trial` already has an engine: process [PID] on `[HOST]`

    hint: run `callboard watch trial` to follow it, or `callboard stop trial` to stop it
    [exit 5]
    ");
    barrier.open();
    assert_eq!(running.wait().code, 0);
}

#[test]
fn resume_needs_no_flags_but_takes_them() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&["--env", "COLOUR=red"]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    test_env.script_agent(&["a * save-input"]);
    let template = format!("{} from-the-template", test_env.agent_path().display());
    assert_eq!(test_env.callboard(&["resume", "--command-template", &template]).run().code, 0);
    let arguments = std::fs::read_to_string(test_env.agent_dir().join("arguments")).unwrap();
    assert_eq!(arguments, "from-the-template\n");
    let environment = std::fs::read_to_string(test_env.agent_dir().join("environment")).unwrap();
    assert!(environment.contains("COLOUR=red\n"), "what `run` was given holds");
}

#[test]
fn the_journal_shows_who_resumed_a_run_and_why() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * hang"]);
    let running = test_env.run(&[]).start();
    test_env.agent_log().wait_for_start("a#1.1");
    running.interrupt();
    assert_eq!(running.wait().code, 130);
    test_env.script_agent(&[]);
    let resumed = test_env.callboard(&["resume", "trial", "--reason", "after lunch"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let log = test_env.callboard(&["log", "trial"]).run();
    assert!(log.stdout.contains("resume: requested by tester: after lunch"), "{}", log.stdout);
}

#[test]
fn a_failed_run_is_retried_not_resumed() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * exit 1"]);
    assert_eq!(test_env.run(&[]).run().code, 1);
    assert_snapshot!(test_env.callboard(&["resume", "trial"]).run().transcript(), @"
    $ callboard resume trial
    error[E013]: cannot continue run `trial`
      caused by: it has failed

    hint: run `callboard retry trial` to retry the failed steps, or `callboard skip trial STEP --reason WHY` to continue without one
    [exit 3]
    ");
}

#[test]
fn resume_all_resumes_interrupted_runs_and_leaves_stopped_ones() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a * wait barrier"]);
    let mut barrier = test_env.barrier("barrier");
    let open = |name| test_env.with_agent(&["run", "wf.yaml", "--detach", "--run-id", name]).run();
    for name in ["killed", "stopped", "working"] {
        assert_eq!(open(name).code, 0);
    }
    testkit::wait_until(&test_env.agent_dir(), "three at work", || {
        (test_env.agent_log().started().len() == 3).then_some(())
    });
    assert_eq!(test_env.callboard(&["stop", "stopped"]).run().code, 0);
    let engine = test_env.engine("killed").and_then(testkit::ProcessHandle::of).expect("it has an engine");
    engine.kill();
    engine.wait();
    let all = test_env.callboard(&["resume", "--all"]).run();
    assert_eq!((all.code, all.stdout.as_str()), (0, "killed\n"), "{}", all.transcript());
    barrier.open();
    for name in ["killed", "working"] {
        test_env.wait_for_engine_exit(name);
    }
    let runs = test_env.callboard(&["ls", "--json"]).run().json();
    let status = |run: &str| {
        runs.as_array().unwrap().iter().find(|row| row["run"] == run).unwrap()["status"].to_string()
    };
    assert!(status("killed").contains("succeeded") && status("working").contains("succeeded"), "{runs}");
    assert!(status("stopped").contains("stopped"), "{runs}");
    test_env.expect_no_orphans();
    let nothing = test_env.callboard(&["resume", "--all"]).run();
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{}", nothing.transcript());
    assert!(nothing.stderr.starts_with("note: no interrupted runs"), "{}", nothing.transcript());
}

#[test]
fn run_and_resume_report_errors_as_json_events() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    let session = test_env.callboard(&["run", "wf.yaml", "--json"]).run();
    assert_eq!(session.code, 2);
    let [event] = session.json_lines().try_into().unwrap();
    assert_eq!((&event["event"], &event["code"]), (&"failed".into(), &"E007".into()), "{event}");
    assert_eq!(event["error"], "no command is configured for agent `coder` (used by step `a`)");
    assert!(session.stderr.starts_with("error[E007]: "), "people are told as well: {}", session.stderr);
    let ghost = test_env.callboard(&["resume", "ghost", "--json"]).run();
    assert_eq!(ghost.json_lines()[0]["code"], "E011");
}
