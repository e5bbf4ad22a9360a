//! `import --peer`: cycles of older formats become runs, after a preview, and only once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use insta::assert_snapshot;
use serde_json::{Value, json};
use testkit::Scene;

use crate::sessions::scene;

const G1: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g1.jsonl");
const G3: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g3.jsonl");
const NEVER_EXECUTED: &str = include_str!("../../../protocol/tests/fixtures/peer/old/never-executed.jsonl");
const CURRENT: &str = include_str!("../../../protocol/tests/fixtures/peer/cycle.json");

fn dump(scene: &Scene, text: &str) -> PathBuf {
    let file = scene.kit().join("dump.jsonl");
    fs::write(&file, text).unwrap();
    file
}

fn import(scene: &Scene, dump: &Path, more: &[&str]) -> testkit::Session {
    let arguments = ["import", "--peer", dump.to_str().unwrap()];
    scene.callboard(&arguments.iter().chain(more).copied().collect::<Vec<_>>()).run()
}

/// Waits for the next second: two imports within one second would look alike.
fn wait_for_another_second() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let now = second();
    while second() == now {
        std::thread::yield_now();
    }
}

fn fates(session: &testkit::Session) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let cycles = session.json()["cycles"].as_array().unwrap().clone();
    cycles.iter().map(|cycle| (text(&cycle["cycle"]), text(&cycle["fate"]))).collect()
}

#[test]
fn without_a_flag_import_only_previews() {
    let scene = scene();
    let session = import(&scene, &dump(&scene, NEVER_EXECUTED), &[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_snapshot!(session.stdout, @"
    peer:spec:committer:cycle:1  execute failed  new
      failed: `execute` never ran: `express` came after it, and the cycle says that it is completed, but the output of `execute` is missing
      peer.spec.committer.cycle.1 → /context/peer_mode, /context/spec_aware, /context/user_requirements, /metadata/created_at, /metadata/cycle_number, 8 more, the rest in /migrated_from
    ");
    assert_snapshot!(session.stderr, @"note: nothing was written: 1 cycle would be entered; the same with `--write` does it");
    assert!(!scene.repo().join(".git/callboard").exists(), "a look leaves no store");
}

#[test]
fn an_imported_cycle_is_a_run_and_is_not_imported_twice() {
    let scene = scene();
    let file = dump(&scene, &format!("{G1}{G3}{NEVER_EXECUTED}"));
    let session = import(&scene, &file, &["--write", "--json"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(fates(&session).iter().all(|(_, fate)| fate == "entered"), "{}", session.transcript());
    let rows = scene.callboard(&["ls", "--json"]).run().json();
    let row = |name: &str| rows.as_array().unwrap().iter().find(|row| row["run"] == name).unwrap().clone();
    assert_eq!(row("peer.spec.login.cycle.1")["status"], "succeeded");
    assert_eq!(row("peer.spec.committer.cycle.1")["status"], "failed");
    assert_eq!(row("peer.spec.user-auth.cycle.3")["status"], "paused");

    wait_for_another_second();
    let again = import(&scene, &file, &["--write", "--json"]);
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(fates(&again).iter().all(|(_, fate)| fate == "there"), "{}", again.transcript());
    let look = import(&scene, &file, &[]);
    assert!(look.stderr.contains("nothing was written: 11 cycles already there"), "{}", look.transcript());
}

/// Reports a valid output for its phase.
const AGENT: &str = r#"#!/bin/sh
case "$STEP_ID" in
    review) output='{"quality_score": 85}' ;;
    *) output='{"summary": "gone on"}' ;;
esac
printf '{"schema":"run_report@v0","run_id":"%s","step_id":"%s","agent":"%s","status":"COMPLETED","started_at":"x","ended_at":"y","output":%s}' \
    "$RUN_ID" "$STEP_ID" "$AGENT_ID" "$output" > "$REPORT_PATH"
"#;

#[test]
fn an_imported_cycle_that_was_in_progress_waits_for_resume() {
    let scene = scene();
    assert_eq!(import(&scene, &dump(&scene, G3), &["--write"]).code, 0);
    let cycle = "peer:spec:user-auth:cycle:3";
    assert_eq!(scene.callboard(&["resume", "--all"]).run().code, 0, "nobody has asked for it yet");
    assert_snapshot!(scene.callboard(&["show", cycle]).run().transcript(), @"
    $ callboard show peer:spec:user-auth:cycle:3
    peer.spec.user-auth.cycle.3 execute-tasks  paused  1/4 phases  revision 2
      execute-tasks peer:spec:user-auth:cycle:3, in_progress, sequence 5
      revision 2: migrated from the dump `[KIT]/dump.jsonl`
    no engine: run `callboard resume peer.spec.user-auth.cycle.3` to continue it
      succeeded (completed) plan     [TIME]  output 68 bytes
      running (in_progress) execute    output 21 bytes  one attempt timed out
      pending               express  waits for execute
      pending               review   waits for express
    [exit 0]
    ");
    let alone = scene.callboard(&["resume", cycle]).run();
    assert_eq!(alone.code, 2, "{}", alone.transcript());
    assert!(
        alone.stderr.starts_with("error[E007]: no command is configured for agent `executor`"),
        "{}",
        alone.stderr
    );
    assert_eq!(scene.journal("peer.spec.user-auth.cycle.3").len(), 2, "nothing has begun");
    let agent = scene.write_program(scene.kit().join("peer.sh"), AGENT);
    let resumed = scene.callboard(&["resume", cycle, "--wrapper", agent.to_str().unwrap()]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let started: Vec<_> = resumed.stderr.lines().filter(|line| line.ends_with("started")).collect();
    assert_eq!(started, ["▸ execute#1.1 started", "▸ express#1.1 started", "▸ review#1.1 started"]);
    let checked = scene.callboard(&["recover", "--dry-run"]).run();
    assert!(checked.stdout.contains("is intact"), "{}", checked.transcript());
    // The document has changed since, and still counts as imported.
    assert_eq!(
        fates(&import(&scene, &dump(&scene, G3), &["--json"]))[2],
        (cycle.to_owned(), "there".to_owned())
    );
}

#[test]
fn a_cycle_that_exists_with_other_content_is_left_alone() {
    let scene = scene();
    assert_eq!(import(&scene, &dump(&scene, NEVER_EXECUTED), &["--write"]).code, 0);
    let changed = NEVER_EXECUTED.replace("All is done", "Most is done");
    let session = import(&scene, &dump(&scene, &format!("{changed}{G3}")), &["--write", "--json"]);
    assert_eq!(session.code, 3, "{}", session.transcript());
    let fates = fates(&session);
    assert!(fates.contains(&("peer:spec:committer:cycle:1".to_owned(), "differs".to_owned())), "{fates:?}");
    assert_eq!(fates.iter().filter(|(_, fate)| fate == "entered").count(), 5, "{fates:?}");
    let told = import(&scene, &dump(&scene, &changed), &[]);
    assert_snapshot!(told.stderr, @"
    note: `peer:spec:committer:cycle:1` is there with other content and is left alone: `callboard show peer.spec.committer.cycle.1`; `--store DIR` imports elsewhere
    note: nothing was written: 1 cycle different
    ");
}

#[test]
fn bad_lines_are_named_and_the_rest_is_imported() {
    let scene = scene();
    let text = format!("{NEVER_EXECUTED}{{\"key\": \"peer.x\", \"value\": }}\nnot JSON\n");
    let session = import(&scene, &dump(&scene, &text), &["--write"]);
    assert_eq!(session.code, 2, "{}", session.transcript());
    let kit = scene.kit().to_str().unwrap().to_owned();
    assert_snapshot!(session.stderr.replace(&kit, "KIT"), @"
    unread: KIT/dump.jsonl:2:28: expected value
    unread: KIT/dump.jsonl:3:2: expected ident
    note: 1 cycle entered
    ");
    assert!(session.stdout.contains("execute failed  entered"), "{}", session.stdout);
}

#[test]
fn a_directory_and_the_temp_files_beside_it_are_read() {
    let scene = scene();
    let keys = scene.kit().join("keys");
    fs::create_dir_all(keys.join("peer/spec/login/cycle/7")).unwrap();
    fs::write(keys.join("peer/spec/login/cycle/7/status"), "planning\n").unwrap();
    fs::write(keys.join("peer:spec:login:cycle:8:status"), "EXECUTION_FAILED").unwrap();
    let temp = scene.kit().join("temp");
    fs::create_dir_all(&temp).unwrap();
    let none = import(&scene, &keys, &["--temp-files", temp.to_str().unwrap()]);
    assert_eq!(none.code, 2, "{}", none.transcript());
    fs::write(temp.join("peer_args.txt"), "INSTRUCTION=refine-spec\nEVIL=$(touch pwned)\n").unwrap();
    fs::write(temp.join("peer_cycle.txt"), "CURRENT_CYCLE=7\nKEY_PREFIX=peer.spec.login\n").unwrap();
    let session = import(&scene, &keys, &["--temp-files", temp.to_str().unwrap(), "--json"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let told = session.json();
    assert_eq!(told["cycles"][0]["document"]["metadata"]["instruction"], "refine-spec");
    assert_eq!(told["cycles"][0]["document"]["phases"]["plan"]["status"], "in_progress");
    assert_eq!(told["cycles"][1]["document"]["phases"]["plan"]["status"], "failed");
    assert_eq!(told["ignored"][0]["why"], "it was read for cycle 7 of `peer:spec:login`");
    assert!(!scene.repo().join("pwned").exists() && !temp.join("pwned").exists());
}

#[test]
fn a_document_of_version_2_is_imported_unchanged() {
    let scene = scene();
    let keys = scene.kit().join("keys");
    fs::create_dir_all(&keys).unwrap();
    fs::write(keys.join("cycle.json"), CURRENT).unwrap();
    let session = import(&scene, &keys, &["--write", "--json"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let told = session.json();
    assert_eq!(told["cycles"][0]["origin"], "current");
    let current: Value = serde_json::from_str(CURRENT).unwrap();
    assert_eq!(told["cycles"][0]["document"], current);
    assert_eq!(scene.callboard(&["state", "get", "peer:spec:feature-name:cycle:1"]).run().json(), current);
    assert_eq!(fates(&import(&scene, &keys, &["--write", "--json"]))[0].1, "there");
}

#[test]
fn a_file_that_is_not_a_dump_is_refused_with_the_expected_form() {
    let scene = scene();
    let file = dump(&scene, CURRENT);
    let session = import(&scene, &file, &["--json"]);
    assert_eq!((session.code, session.json()["cycles"].clone()), (2, json!([])), "{}", session.transcript());
    let told = import(&scene, &file, &[]);
    assert!(
        told.stderr.contains("give a directory if your files are named by keys"),
        "{}",
        told.transcript()
    );
    let nowhere = import(&scene, &scene.kit().join("nowhere"), &[]);
    assert_eq!(nowhere.code, 2);
    assert!(nowhere.stderr.contains("cannot read the dump"), "{}", nowhere.transcript());
    for wrong in [&["import"][..], &["import", "--write", "x.tar"], &["import", "x.tar", "--peer", "y"]] {
        assert_eq!(scene.callboard(wrong).run().code, 2, "{wrong:?}");
    }
}
