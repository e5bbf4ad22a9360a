//! The server goes away, for a while or for good, or loses what it holds.

use std::time::Duration;

use rustix::process::Signal;
use testkit::nats::Server;
use testkit::{AgentBarrier, ProcessHandle, Running, TestEnv, harness, status};

use crate::nats::{
    client, configure, delete_stream, has_stream, start_cluster_of_three, test_env, test_env_on,
};

/// Starts the run `trial` of three steps, and waits until the agent of the second one runs. That agent waits until the pipe
/// `barrier` is opened.
pub(crate) fn start_run_up_to_second_step(test_env: &TestEnv) -> (Running<'_>, ProcessHandle) {
    test_env.workflow(&["a", "b: a", "c: b"]);
    test_env.script_agent(&["b * wait barrier"]);
    let engine = test_env.run(&[]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("b#1.1")).expect("the agent runs");
    (engine, agent)
}

/// Lets the agent end while the store is unreachable.
fn end_agent_during_outage(test_env: &TestEnv, barrier: &mut AgentBarrier, agent: &ProcessHandle) {
    barrier.open();
    agent.wait();
    let attempt = test_env.attempt_dir("trial", "b", "1.1");
    testkit::wait_until(&attempt, "the exit record", || attempt.join("exit.json").exists().then_some(()));
}

#[track_caller]
fn expect_each_step_once(test_env: &TestEnv) {
    assert_eq!(test_env.agent_log().started(), ["a#1.1", "b#1.1", "c#1.1"]);
    let document = test_env.document("trial");
    assert_eq!(["a", "b", "c"].map(|step| status(&document, step)), ["COMPLETED"; 3]);
    let journal = test_env.journal("trial");
    let changes = journal.iter().flat_map(|line| line["entry"]["changes"].as_array().unwrap());
    let ended = changes.filter(|change| change["change"] == "ended");
    assert_eq!(ended.count(), 3, "each end was committed once: {journal:#?}");
    test_env.expect_no_orphans();
}

#[test]
fn a_server_that_is_killed_and_comes_back_costs_no_step() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    let (engine, agent) = start_run_up_to_second_step(&test_env);
    test_env.backend().server().kill();
    end_agent_during_outage(&test_env, &mut barrier, &agent);
    test_env.backend().server().restart();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_step_once(&test_env);
}

/// Kills the stream leader, then a second server, so that no write succeeds; then both return.
#[test]
fn losing_two_of_three_servers_for_a_while_costs_no_step() {
    let ([first, second, third], addresses) = start_cluster_of_three();
    let (test_env, mut others) = (test_env_on(first), [second, third]);
    let mut on_server = |number: usize, act: fn(&mut Server)| match number {
        0 => act(&mut test_env.backend().server()),
        other => act(&mut others[other - 1]),
    };
    test_env.workflow(&["a", "b: a", "c: b"]);
    test_env.script_agent(&["b * wait barrier", "c * wait second"]);
    let (mut barrier, mut second) = (test_env.barrier("barrier"), test_env.barrier("second"));
    let engine = test_env.run(&["--store", &addresses]).start();
    test_env.agent_log().wait_for_start("b#1.1");
    let journal = harness::block_on(client(&test_env).get_stream("callboard-journal")).unwrap();
    let leader = journal.cached_info().cluster.clone().unwrap().leader.unwrap();
    // The servers are named `n0`, `n1` and `n2`.
    let leader: usize = leader.strip_prefix('n').unwrap().parse().unwrap();
    on_server(leader, Server::kill);
    barrier.open();
    // The remaining two have elected another leader.
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("c#1.1")).expect("the agent runs");
    on_server((leader + 1) % 3, Server::kill);
    second.open();
    agent.wait();
    engine.wait_for_stderr("waiting for the NATS server");
    on_server(leader, Server::restart);
    on_server((leader + 1) % 3, Server::restart);
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_step_once(&test_env);
}

#[test]
fn a_server_that_does_not_answer_for_a_while_costs_no_step() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    let (engine, agent) = start_run_up_to_second_step(&test_env);
    test_env.backend().server().suspend();
    end_agent_during_outage(&test_env, &mut barrier, &agent);
    // A command gives up when the server does not answer in time. The engine reports the outage and retries.
    let listed = test_env.callboard(&["ls"]).run();
    assert_eq!(listed.code, 5, "{}", listed.transcript());
    engine.wait_for_stderr("waiting for the NATS server");
    test_env.backend().server().resume();
    let session = engine.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(session.stderr.contains("answers again, after "), "{}", session.stderr);
    expect_each_step_once(&test_env);
}

#[test]
fn an_engine_gives_up_after_the_outage_timeout_and_resume_collects_its_agents_work() {
    let test_env = test_env();
    configure(&test_env, "outages = \"2s\"");
    let mut barrier = test_env.barrier("barrier");
    let (engine, agent) = start_run_up_to_second_step(&test_env);
    test_env.backend().server().kill();
    barrier.open();
    agent.wait();
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let address = test_env.backend().address().unwrap();
    assert!(session.stderr.contains(&format!("the NATS server `{address}`")), "{}", session.stderr);
    let hint = "run `callboard resume trial` when the servers answer";
    assert!(session.stderr.contains(hint), "the same command would start another run: {}", session.stderr);
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 5, "the server is still away: {}", resumed.transcript());
    assert!(resumed.stderr.contains(&address), "{}", resumed.stderr);
    test_env.backend().server().restart();
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    expect_each_step_once(&test_env);
}

#[test]
fn an_agent_that_outlives_engine_and_server_is_adopted_when_both_are_back() {
    let test_env = test_env();
    configure(&test_env, "outages = \"2s\"");
    let mut barrier = test_env.barrier("barrier");
    let (engine, agent) = start_run_up_to_second_step(&test_env);
    engine.kill();
    engine.wait();
    test_env.backend().server().kill();
    assert!(!agent.has_ended());
    test_env.backend().server().restart();
    let resumed = test_env.callboard(&["resume"]).start();
    resumed.wait_for_stderr("b#1.1 is still running: adopted");
    barrier.open();
    let session = resumed.wait();
    assert_eq!(session.code, 0, "{}", session.transcript());
    expect_each_step_once(&test_env);
}

/// The engine waits for an answer and cannot commit the interrupt.
#[test]
fn three_interrupts_end_an_engine_whose_server_does_not_answer() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    let (engine, agent) = start_run_up_to_second_step(&test_env);
    test_env.backend().server().suspend();
    // An interrupt that is sent while another one is pending is lost, so three may not be enough.
    while !engine.ends_within(Duration::from_millis(100)) {
        engine.interrupt();
    }
    let session = engine.wait();
    assert_eq!(session.code, 130, "{}", session.transcript());
    assert!(session.stderr.contains("its store does not answer"), "{}", session.transcript());
    assert!(!agent.has_ended());
    test_env.backend().server().resume();
    barrier.open();
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    test_env.expect_no_orphans();
}

#[test]
fn a_journal_deleted_under_an_engine_ends_it_and_is_not_recreated() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    let (engine, _agent) = start_run_up_to_second_step(&test_env);
    let address = test_env.backend().address().unwrap();
    delete_stream(&test_env, "callboard-journal");
    barrier.open();
    let session = engine.wait();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let expected = format!("the stream `callboard-journal` at the NATS server `{address}`");
    assert!(session.stderr.contains(&expected), "{}", session.stderr);
    let resumed = test_env.callboard(&["resume", "trial"]).run();
    assert_eq!(resumed.code, 5, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("callboard-journal"), "{}", resumed.stderr);
    assert!(!has_stream(&test_env, "callboard-journal"), "the journal was recreated");
}

/// The server was restarted with an empty directory, and a command created a store in it.
#[test]
fn a_server_that_returns_with_another_store_ends_the_engine() {
    let test_env = test_env();
    let mut barrier = test_env.barrier("barrier");
    let (engine, agent) = start_run_up_to_second_step(&test_env);
    let watching = test_env.callboard(&["watch", "trial"]).start();
    watching.wait_for_stderr("b#1.1");
    test_env.backend().server().kill();
    let old_directory = test_env.backend().server().restart_empty();
    let listed = test_env.callboard(&["ls"]).run();
    assert!(listed.stderr.contains("note: created a new store at"), "{}", listed.transcript());
    barrier.open();
    agent.wait();
    for session in [engine.wait(), watching.wait()] {
        assert_eq!(session.code, 5, "{}", session.transcript());
        assert!(session.stderr.contains("error[E024]: the NATS server `"), "{}", session.transcript());
        assert!(session.stderr.contains("has another store now"), "{}", session.transcript());
    }
    assert_eq!(test_env.callboard(&["ls", "--json"]).run().json(), serde_json::json!([]));
    test_env.backend().server().kill();
    let _empty_directory = test_env.backend().server().restart_in(old_directory);
    let resumed = test_env.callboard(&["resume"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    expect_each_step_once(&test_env);
}

#[test]
fn an_engine_interrupted_during_an_outage_says_what_is_not_committed() {
    for signal in [Signal::TERM, Signal::INT] {
        let test_env = test_env();
        configure(&test_env, "outages = \"2s\"");
        let mut barrier = test_env.barrier("barrier");
        let (engine, agent) = start_run_up_to_second_step(&test_env);
        test_env.backend().server().kill();
        engine.signal(signal);
        let session = engine.wait();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let address = test_env.backend().address().unwrap();
        assert!(session.stderr.contains(&format!("the NATS server `{address}`")), "{}", session.stderr);
        assert!(session.stderr.contains("the interrupt was not recorded"), "{}", session.stderr);
        assert_eq!(session.stderr.matches("callboard resume").count(), 1, "{}", session.stderr);
        assert!(!agent.has_ended(), "it can be adopted");
        test_env.backend().server().restart();
        let resumed = test_env.callboard(&["resume"]).start();
        resumed.wait_for_stderr("b#1.1 is still running: adopted");
        barrier.open();
        let session = resumed.wait();
        assert_eq!(session.code, 0, "{}", session.transcript());
        expect_each_step_once(&test_env);
    }
}
