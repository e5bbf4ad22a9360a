//! Failed attempts, and how the run continues or fails.

use insta::assert_snapshot;

use crate::sessions::{last_error, status, test_env};

#[test]
fn a_failed_attempt_is_retried() {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&["a 1 failed"]);
    let session = test_env.run(&[]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    ✗ a#1.1 failed, retrying in [TIME]: Agent reported failure: a did not work out
    ▸ a#1.2 started
    ✓ a#1.2 finished [TIME]

    run `trial` succeeded: 1 of 1 steps done, [TIME]
    [exit 0]
    ");
    let document = test_env.document("trial");
    assert_eq!(document["steps"]["a"]["attempts"], 2);
    assert_eq!(document["steps"]["a"]["last_error"], serde_json::Value::Null);
}

#[test]
fn a_failing_agent_ends_the_run_and_other_agents_are_stopped() {
    let test_env = test_env();
    test_env.workflow(&["bad", "slow", "after: bad slow"]);
    test_env.script_agent(&["bad 1 exit 1", "bad 2 wait-and-fail barrier", "slow * hang"]);
    let mut barrier = test_env.barrier("barrier");
    let running = test_env.run(&["--jobs", "2"]).start();
    test_env.agent_log().wait_for_start("slow#1.1");
    barrier.open();
    let session = running.wait();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper [SHARED]/agent.sh --jobs 2
    run trial in [REPO]
    ▸ bad#1.1 started
    ▸ slow#1.1 started
    ✗ bad#1.1 failed, retrying in [TIME]: Agent process exited with code 1 without a report: bad gives up
    ▸ bad#1.2 started
    ✗ bad#1.2 failed: Agent process exited with code 1 without a report: bad gives up
    ■ slow#1.1 was stopped

    note: run `callboard retry trial` to retry the failed steps, or `callboard skip trial STEP --reason WHY` to continue without one
    run `trial` failed: 0 of 3 steps done, [TIME]
      FAILED    bad    Agent process exited with code 1 without a report: bad gives up
      PENDING   slow   Stopped because `bad` failed
      PENDING   after
    [exit 1]
    ");
    let document = test_env.document("trial");
    assert_eq!((status(&document, "bad"), &document["steps"]["bad"]["attempts"]), ("FAILED", &2.into()));
    assert_eq!(
        last_error(&document, "bad"),
        "Agent process exited with code 1 without a report: bad gives up"
    );
    assert_eq!((status(&document, "slow"), status(&document, "after")), ("PENDING", "PENDING"));
    assert_eq!(last_error(&document, "slow"), "Stopped because `bad` failed");
    test_env.expect_no_orphans();
}

#[test]
fn max_attempts_can_be_set_for_the_run_and_for_a_step() {
    let test_env = test_env();
    let step = "agent: coder, prompt: task.md";
    test_env.write(
        "wf.yaml",
        &format!("name: t\nsteps:\n  - {{id: own, {step}, max_attempts: 4}}\n  - {{id: other, {step}}}\n"),
    );
    test_env.script_agent(&[
        "own 1 exit 1",
        "own 2 exit 1",
        "own 3 exit 1",
        "other 1 exit 1",
        "other 2 exit 1",
    ]);
    assert_eq!(test_env.run(&["--max-attempts", "3", "--jobs", "1"]).run().code, 0);
    let document = test_env.document("trial");
    assert_eq!(document["steps"]["own"]["attempts"], 4);
    assert_eq!(document["steps"]["other"]["attempts"], 3);
}

#[test]
fn missing_binary_ends_the_run() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    // The script exists when the run starts; its interpreter does not.
    test_env.write_program("agent.sh", "#!/nowhere/sh\n");
    let session =
        test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--wrapper", "./agent.sh"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper ./agent.sh
    run trial in [REPO]
    ▸ a#1.1 started
    ✗ a#1.1 failed, retrying in [TIME]: Agent process could not be started: program `[REPO]/agent.sh`: No such file or directory (os error 2)
    ▸ a#1.2 started
    ✗ a#1.2 failed: Agent process could not be started: program `[REPO]/agent.sh`: No such file or directory (os error 2)

    note: [E008] run `callboard doctor` to list the installed agents
    note: run `callboard retry trial` to retry the failed steps, or `callboard skip trial STEP --reason WHY` to continue without one
    run `trial` failed: 0 of 2 steps done, [TIME]
      FAILED    a  Agent process could not be started: program `[REPO]/agent.sh`: No such file or directory (os error 2)
      PENDING   b
    [exit 1]
    ");
    let document = test_env.document("trial");
    assert_eq!((status(&document, "a"), &document["steps"]["a"]["attempts"]), ("FAILED", &2.into()));
}

#[test]
fn a_missing_program_is_refused_before_the_run_exists() {
    let test_env = test_env();
    test_env.workflow(&["a", "b: a"]);
    let session =
        test_env.callboard(&["run", "wf.yaml", "--run-id", "trial", "--wrapper", "/nowhere/agent"]).run();
    assert_snapshot!(session.transcript(), @"
    $ callboard run wf.yaml --run-id trial --wrapper /nowhere/agent
    error[E008]: cannot start agent `coder`: program `/nowhere/agent` was not found

    hint: create `/nowhere/agent`, or correct the path
    hint: or use `--rehearse` to run with the built-in scripted agent
    [exit 2]
    ");
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
}

#[test]
fn a_step_that_exceeds_its_timeout_is_ended() {
    let test_env = test_env();
    let text =
        "name: t\nsteps:\n  - {id: a, agent: coder, prompt: task.md, timeout: 50ms, max_attempts: 1}\n";
    test_env.write("wf.yaml", text);
    test_env.script_agent(&["a * hang"]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 1, "{}", session.transcript());
    let error = last_error(&test_env.document("trial"), "a").to_owned();
    // The time varies, because a loaded machine may need more than a second. It is never shown as 0 s.
    assert!(error.starts_with("Agent process timed out after ") && !error.ends_with(" 0 s"), "{error}");
    test_env.expect_no_orphans();
}

/// Returns the error of the first attempt, whose agent has this behaviour; the second one succeeds.
#[track_caller]
fn first_error(behaviour: &str) -> String {
    let test_env = test_env();
    test_env.workflow(&["a"]);
    test_env.script_agent(&[&format!("a 1 {behaviour}")]);
    let session = test_env.run(&[]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    let failed =
        session.stderr.lines().find(|line| line.contains("a#1.1 failed")).expect("the first attempt fails");
    failed.split_once(": ").expect("it says why").1.to_owned()
}

#[test]
fn a_report_that_is_not_json_costs_an_attempt() {
    assert_snapshot!(first_error("garbage"), @"Agent process exited with code 0 and its report was refused: the report file: it is not JSON: EOF while parsing a value at line 1, column 12");
}

#[test]
fn two_contradictory_reports_cost_an_attempt() {
    assert_snapshot!(first_error("contradict"), @"Agent process exited with code 0 and its report was refused: contradictory: the report file says COMPLETED, the report between the markers says FAILED");
}

#[test]
fn an_agent_without_a_report_costs_an_attempt_even_if_it_exits_with_0() {
    assert_snapshot!(first_error("exit 0"), @"Agent process exited with code 0 without a report: a gives up");
}
