//! A cycle's document that was changed in the database.

use testkit::{Gate, Scene};

use super::{ALL, document, peer, transitions};
use crate::sessions::scene;

const CYCLE: &str = "peer:spec:x:cycle:1";
const RUN: &str = "peer.spec.x.cycle.1";

/// Makes a cycle whose engine was killed while its executor waits at the gate.
fn cut_off() -> (Scene, Gate) {
    let scene = scene();
    scene.plan(&["execute * wait gate"]);
    let gate = scene.gate("gate");
    let running = peer(&scene, &["create-spec", "--spec", "x"]).start();
    scene.agent_log().wait_for_start("execute#1.1");
    running.kill();
    running.wait();
    (scene, gate)
}

/// Changes the store behind Callboard's back.
fn corrupt(scene: &Scene, statement: &str) {
    let database = rusqlite::Connection::open(scene.store().join("callboard.db")).unwrap();
    assert!(database.execute(statement, []).unwrap() > 0, "{statement}");
}

const SPOIL_THE_DOCUMENT: &str = "UPDATE parts SET body = '{' WHERE path = 'phases/execute'
    AND revision = (SELECT max(revision) FROM parts WHERE path = 'phases/execute')";

#[test]
fn embedded_the_last_committed_document_is_restored() {
    let (scene, mut gate) = cut_off();
    corrupt(&scene, SPOIL_THE_DOCUMENT);
    let met = scene.callboard(&["state", "get", CYCLE]).run();
    assert_eq!(met.code, 4, "{}", met.transcript());
    assert!(met.stderr.starts_with("error[E019]"), "{}", met.stderr);
    let kept = scene.callboard(&["export", CYCLE]).run();
    assert_eq!(kept.code, 0, "the journal is whole: {}", kept.transcript());
    gate.open();
    let resumed = scene.callboard(&["resume", "--all"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("restored the last commit"), "{}", resumed.stderr);
    scene.wait_for_engine(RUN);
    assert_eq!(transitions(&document(&scene, CYCLE)).len(), ALL.len() + 1, "and `recovered`");
}

#[test]
fn embedded_a_restore_that_loses_writes_needs_a_flag() {
    let (scene, mut gate) = cut_off();
    corrupt(&scene, SPOIL_THE_DOCUMENT);
    corrupt(
        &scene,
        "UPDATE entries SET body = body || ' ' WHERE revision = (SELECT max(revision) FROM entries)",
    );
    for arguments in [&["resume", CYCLE, "--json"][..], &["state", "get", CYCLE, "--json"]] {
        let refused = scene.callboard(arguments).run();
        assert_eq!(refused.code, 4, "{}", refused.transcript());
        assert_eq!(refused.events()[0]["kind"], "corrupted_state", "{}", refused.transcript());
    }
    gate.open();
    let resumed = scene.callboard(&["resume", CYCLE, "--recover"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
}
