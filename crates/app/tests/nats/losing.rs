//! Streams that somebody deletes: named, never made again, and what was in them told as far as it is known.

use testkit::Scene;

use crate::{block_on, client, scene};

const WORKFLOW: &str = "
name: notes
steps:
  - { id: collect, agent: scribe, prompt: task.md }
";

fn delivered(scene: &Scene) {
    scene.write("wf.yaml", WORKFLOW);
    let agent = scene.agent();
    let run = ["run", "wf.yaml", "--run-id", "notes", "--wrapper", agent.to_str().unwrap()];
    let session = scene.callboard(&run).run();
    assert_eq!(session.code, 0, "{}", session.transcript());
}

fn delete(scene: &Scene, stream: &str) {
    block_on(async { client(scene).await.delete_stream(stream).await.unwrap() });
}

#[test]
fn a_deleted_journal_is_never_made_again_and_recover_names_what_was_in_it() {
    let scene = scene();
    delivered(&scene);
    delete(&scene, "callboard-journal");
    for command in [&["ls"][..], &["show", "notes"], &["resume", "notes"]] {
        let session = scene.callboard(command).run();
        assert_eq!(session.code, 5, "{}", session.transcript());
        let gone = "error[E024]: the stream `callboard-journal` at the NATS server";
        assert!(session.stderr.starts_with(gone), "{}", session.transcript());
    }
    let session = scene.callboard(&["recover"]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    let known = "run `notes` was in it; left: 1 attempts on this machine, its `run_state.json`";
    assert!(session.stderr.contains(known), "{}", session.transcript());
    let made = block_on(async { client(&scene).await.get_stream("callboard-journal").await });
    assert!(made.is_err());
    let doctor = scene.callboard(&["doctor"]).run();
    assert_eq!(doctor.code, 1, "{}", doctor.transcript());
    assert!(doctor.stdout.contains("`callboard-journal`"), "{}", doctor.transcript());
}

#[test]
fn deleted_blobs_are_missed() {
    let scene = scene();
    delivered(&scene);
    delete(&scene, "OBJ_callboard-blobs");
    let session = scene.callboard(&["ls"]).run();
    assert_eq!(session.code, 5, "{}", session.transcript());
    assert!(session.stderr.contains("`OBJ_callboard-blobs`"), "{}", session.transcript());
}
