//! A cycle is stopped, and the stopping command is killed.

use protocol::peer::CycleStatus;
use protocol::run::Request;
use protocol::{KINDS, RunId};
use runner::{Clock, Journal};
use testkit::{ProcessHandle, Scene, harness};

use super::{document, peer};
use crate::sessions::scene;

/// What `callboard stop` has committed when it is killed at once.
fn stop_and_die(scene: &Scene, run: &str) {
    let store = scene.open_store();
    harness::wait(async {
        let run = RunId::new(run).unwrap();
        let journal = Journal::load(&store, &Clock::system(), KINDS, &run).await.unwrap();
        runner::request(&mut journal.unwrap(), harness::person(), Request::Stop, None).await.unwrap();
    });
}

#[test]
fn a_stopped_cycle_is_finished_before_the_next_one_starts() {
    let scene = scene();
    scene.plan(&["plan * hang"]);
    let engine = peer(&scene, &["create-spec", "--spec", "x"]).start();
    let agent = ProcessHandle::of(scene.agent_log().wait_for_start("plan#1.1")).expect("at work");
    engine.kill();
    assert_eq!(engine.wait().code, -1);
    stop_and_die(&scene, "peer.spec.x.cycle.1");
    assert!(!agent.has_ended(), "it was not asked to end");
    scene.plan(&["* * ok"]);
    let session = scene.callboard(&["peer", "--continue"]).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(agent.has_ended(), "it worked on in a cycle that was stopped");
    scene.expect_no_orphans();
    let (stopped, next) = (document(&scene, "peer:spec:x:cycle:1"), document(&scene, "peer:spec:x:cycle:2"));
    assert_eq!(stopped.metadata.status, CycleStatus::Failed);
    assert_eq!(next.metadata.status, CycleStatus::Completed);
    let runs = scene.callboard(&["ls", "--json"]).run().json();
    assert_eq!((&runs[0]["status"], &runs[1]["status"]), (&"failed".into(), &"succeeded".into()));
}
