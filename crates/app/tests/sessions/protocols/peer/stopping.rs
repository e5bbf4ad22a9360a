//! A cycle is stopped, and the stopping command is killed.

use protocol::peer::PeerCycleStatus;
use protocol::run::Request;
use protocol::{PROTOCOLS, RunId};
use runner::{Clock, Journal};
use testkit::{ProcessHandle, TestEnv, harness};

use super::{document, peer};
use crate::sessions::test_env;

/// Commits the request to stop and does nothing else, like a `callboard stop` that is killed right after its commit.
fn commit_stop_request(test_env: &TestEnv, run: &str) {
    let store = test_env.open_store();
    harness::block_on(async {
        let run = RunId::new(run).unwrap();
        let journal = Journal::load(&store, &Clock::system(), PROTOCOLS, &run).await.unwrap();
        runner::request(&mut journal.unwrap(), harness::test_author(), Request::Stop, None).await.unwrap();
    });
}

#[test]
fn a_stopped_cycle_is_finished_before_the_next_one_starts() {
    let test_env = test_env();
    test_env.script_agent(&["plan * hang"]);
    let engine = peer(&test_env, &["create-spec", "--spec", "x"]).start();
    let agent = ProcessHandle::of(test_env.agent_log().wait_for_start("plan#1.1")).expect("at work");
    engine.kill();
    assert_eq!(engine.wait().code, -1);
    commit_stop_request(&test_env, "peer.spec.x.cycle.1");
    assert!(!agent.has_ended(), "it was not asked to end");
    test_env.script_agent(&["* * ok"]);
    let session = test_env.callboard(&["peer", "--continue"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(agent.has_ended(), "it worked on in a cycle that was stopped");
    test_env.expect_no_orphans();
    let (stopped, next) =
        (document(&test_env, "peer:spec:x:cycle:1"), document(&test_env, "peer:spec:x:cycle:2"));
    assert_eq!(stopped.metadata.status, PeerCycleStatus::Failed);
    assert_eq!(next.metadata.status, PeerCycleStatus::Completed);
    let runs = test_env.callboard(&["ls", "--json"]).run().json();
    assert_eq!((&runs[0]["status"], &runs[1]["status"]), (&"failed".into(), &"succeeded".into()));
}
