//! A cycle's document that a stranger has written into, as its user meets it.

use testkit::{Gate, Scene, embedded_only};

use super::{ALL, document, peer, transitions};
use crate::scene;

const CYCLE: &str = "peer:spec:x:cycle:1";
const RUN: &str = "peer.spec.x.cycle.1";

/// A cycle whose engine was killed while its executor works, until the gate is opened.
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

/// What a stranger does to the store.
fn meddle(scene: &Scene, statement: &str) {
    let database = rusqlite::Connection::open(scene.store().join("callboard.db")).unwrap();
    assert!(database.execute(statement, []).unwrap() > 0, "{statement}");
}

const SPOIL_THE_DOCUMENT: &str = "UPDATE parts SET body = '{' WHERE path = 'phases/execute'
    AND revision = (SELECT max(revision) FROM parts WHERE path = 'phases/execute')";

#[test]
fn what_was_committed_last_is_put_back_for_all_runs_after_a_reboot_and_can_be_kept_before() {
    embedded_only!("a document that was changed in its file");
    let (scene, mut gate) = cut_off();
    meddle(&scene, SPOIL_THE_DOCUMENT);
    let met = scene.callboard(&["state", "get", CYCLE]).run();
    assert_eq!(met.code, 4, "{}", met.transcript());
    assert!(met.stderr.starts_with("error[E019]"), "{}", met.stderr);
    let kept = scene.callboard(&["export", CYCLE]).run();
    assert_eq!(kept.code, 0, "the journal is whole: {}", kept.transcript());
    gate.open();
    let resumed = scene.callboard(&["resume", "--all"]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    assert!(resumed.stderr.contains("what was committed last is put back"), "{}", resumed.stderr);
    scene.wait_for_engine(RUN);
    assert_eq!(transitions(&document(&scene, CYCLE)).len(), ALL.len() + 1, "and `recovered`");
}

#[test]
fn what_would_be_lost_is_for_a_person_to_decide_and_programs_are_told_the_kind() {
    embedded_only!("a document that was changed in its file");
    let (scene, mut gate) = cut_off();
    meddle(&scene, SPOIL_THE_DOCUMENT);
    meddle(
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
