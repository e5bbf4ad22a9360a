//! A peer cycle's document that was damaged in the database.

use testkit::{AgentBarrier, TestEnv};

use super::{SUCCESS_TRANSITIONS, document, peer, transitions};
use crate::sessions::test_env;

const CYCLE: &str = "peer:spec:x:cycle:1";
const RUN: &str = "peer.spec.x.cycle.1";

/// Makes a cycle whose engine was killed while the agent of `execute` waits until the pipe `barrier` is opened.
fn cycle_with_killed_engine() -> (TestEnv, AgentBarrier) {
    let test_env = test_env();
    test_env.script_agent(&["execute * wait barrier"]);
    let barrier = test_env.barrier("barrier");
    let running = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    test_env.agent_log().wait_for_start("execute#1.1");
    running.kill();
    running.wait();
    (test_env, barrier)
}

/// Changes the database directly with an SQL statement.
fn corrupt(test_env: &TestEnv, statement: &str) {
    let database = rusqlite::Connection::open(test_env.store_dir().join("callboard.db")).unwrap();
    assert!(database.execute(statement, []).unwrap() > 0, "{statement}");
}

const DAMAGE_DOCUMENT: &str = "UPDATE parts SET body = '{' WHERE path = 'phases/execute'
    AND revision = (SELECT max(revision) FROM parts WHERE path = 'phases/execute')";

#[test]
fn embedded_the_last_committed_document_is_restored() {
    let (test_env, mut barrier) = cycle_with_killed_engine();
    corrupt(&test_env, DAMAGE_DOCUMENT);
    let refused = test_env.callboard(&["state", "get", CYCLE]).run();
    assert_eq!(refused.code, 4, "{}", refused.transcript());
    assert!(refused.stderr.starts_with("error[E019]"), "{}", refused.stderr);
    let exported = test_env.callboard(&["export", CYCLE]).run();
    assert_eq!(exported.code, 0, "the journal is whole: {}", exported.transcript());
    barrier.open();
    let resumed = test_env.callboard(&["resume", "--all"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("restored the last commit"), "{}", resumed.stderr);
    test_env.wait_for_engine_exit(RUN);
    assert_eq!(
        transitions(&document(&test_env, CYCLE)).len(),
        SUCCESS_TRANSITIONS.len() + 1,
        "and `recovered`"
    );
}

#[test]
fn embedded_a_restore_that_loses_writes_needs_a_flag() {
    let (test_env, mut barrier) = cycle_with_killed_engine();
    corrupt(&test_env, DAMAGE_DOCUMENT);
    corrupt(
        &test_env,
        "UPDATE entries SET body = body || ' ' WHERE revision = (SELECT max(revision) FROM entries)",
    );
    for arguments in [&["resume", CYCLE, "--json"][..], &["state", "get", CYCLE, "--json"]] {
        let refused = test_env.callboard(arguments).run();
        assert_eq!(refused.code, 4, "{}", refused.transcript());
        assert_eq!(refused.json_lines()[0]["kind"], "corrupted_state", "{}", refused.transcript());
    }
    barrier.open();
    let resumed = test_env.callboard(&["resume", CYCLE, "--recover"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
}
