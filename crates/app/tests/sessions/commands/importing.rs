//! `import --peer`: cycles of older formats become runs, once, and only with `--write`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use insta::assert_snapshot;
use serde_json::{Value, json};
use testkit::TestEnv;

use crate::sessions::test_env;

// G1, G3 and NEVER_EXECUTED are dumps of a key-value store, one key per line. Before its version 2, the format had the
// generations 0 to 3: G1 and G3 have cycles of generations 1 and 3. The cycle of NEVER_EXECUTED is marked as completed,
// although its phase `execute` has no output. CURRENT is one document of version 2.
const G1: &str = include_str!("../../../../protocol/tests/fixtures/peer/old/g1.jsonl");
const G3: &str = include_str!("../../../../protocol/tests/fixtures/peer/old/g3.jsonl");
const NEVER_EXECUTED: &str =
    include_str!("../../../../protocol/tests/fixtures/peer/old/never-executed.jsonl");
const CURRENT: &str = include_str!("../../../../protocol/tests/fixtures/peer/cycle.json");

/// Writes a dump to the directory `shared` beside the repository.
fn write_dump(test_env: &TestEnv, text: &str) -> PathBuf {
    let file = test_env.agent_dir().join("dump.jsonl");
    fs::write(&file, text).unwrap();
    file
}

fn import(test_env: &TestEnv, dump: &Path, extra_args: &[&str]) -> testkit::CallOutput {
    let arguments = ["import", "--peer", dump.to_str().unwrap()];
    test_env.callboard(&arguments.iter().chain(extra_args).copied().collect::<Vec<_>>()).run()
}

/// Waits until the clock shows another second, so that the second import has another time than the first.
fn wait_for_next_second() {
    let unix_second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let now = unix_second();
    while unix_second() == now {
        std::thread::yield_now();
    }
}

/// Returns the id and the result of each cycle in the output of `import --json`.
fn results(session: &testkit::CallOutput) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let cycles = session.json()["cycles"].as_array().unwrap().clone();
    cycles.iter().map(|cycle| (text(&cycle["cycle"]), text(&cycle["result"]))).collect()
}

#[test]
fn without_write_it_only_prints_what_it_would_import() {
    let test_env = test_env();
    let session = import(&test_env, &write_dump(&test_env, NEVER_EXECUTED), &[]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert_snapshot!(session.stdout, @"
    peer:spec:committer:cycle:1  execute failed  new
      failed: the cycle is marked completed, but `execute` has no output
      from peer.spec.committer.cycle.1, the rest is preserved in /migrated_from
    ");
    assert_snapshot!(session.stderr, @"note: nothing was written: 1 cycle to import; add `--write` to import");
    assert!(!test_env.repo().join(".git/callboard").exists(), "no store is created");
}

#[test]
fn an_imported_cycle_is_a_run_and_is_not_imported_twice() {
    let test_env = test_env();
    let file = write_dump(&test_env, &format!("{G1}{G3}{NEVER_EXECUTED}"));
    let session = import(&test_env, &file, &["--write", "--json"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    assert!(results(&session).iter().all(|(_, result)| result == "imported"), "{}", session.transcript());
    let rows = test_env.callboard(&["ls", "--json"]).run().json();
    let row = |name: &str| rows.as_array().unwrap().iter().find(|row| row["run"] == name).unwrap().clone();
    assert_eq!(row("peer.spec.login.cycle.1")["status"], "succeeded");
    assert_eq!(row("peer.spec.committer.cycle.1")["status"], "failed");
    assert_eq!(row("peer.spec.user-auth.cycle.3")["status"], "paused");

    wait_for_next_second();
    let again = import(&test_env, &file, &["--write", "--json"]);
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(results(&again).iter().all(|(_, result)| result == "exists"), "{}", again.transcript());
    let without_write = import(&test_env, &file, &[]);
    assert!(
        without_write.stderr.contains("nothing was written: 11 cycles already imported"),
        "{}",
        without_write.transcript()
    );
}

/// Reports a valid output for every phase.
const AGENT: &str = r#"#!/bin/sh
case "$STEP_ID" in
    review) output='{"quality_score": 85}' ;;
    *) output='{"summary": "gone on"}' ;;
esac
printf '{"schema":"run_report@v0","run_id":"%s","step_id":"%s","agent":"%s","status":"COMPLETED","started_at":"x","ended_at":"y","output":%s}' \
    "$RUN_ID" "$STEP_ID" "$AGENT_ID" "$output" > "$REPORT_PATH"
"#;

#[test]
fn an_unfinished_cycle_is_paused_and_resumes_in_its_phase() {
    let test_env = test_env();
    assert_eq!(import(&test_env, &write_dump(&test_env, G3), &["--write"]).code, 0);
    let cycle = "peer:spec:user-auth:cycle:3";
    assert_eq!(test_env.callboard(&["resume", "--all"]).run().code, 0, "a paused run is not resumed");
    assert_snapshot!(test_env.callboard(&["show", cycle]).run().transcript(), @"
    $ callboard show peer:spec:user-auth:cycle:3
    peer.spec.user-auth.cycle.3 execute-tasks  paused  1/4 phases  revision 2
      execute-tasks peer:spec:user-auth:cycle:3, in_progress, sequence 5
      revision 2: migrated from the dump `[SHARED]/dump.jsonl`
    no engine: run `callboard resume peer.spec.user-auth.cycle.3` to continue it
      succeeded (completed) plan     [TIME]  output 68 bytes
      running (in_progress) execute    output 21 bytes  one attempt timed out
      pending               express  waits for execute
      pending               review   waits for express
    [exit 0]
    ");
    let without_agent = test_env.callboard(&["resume", cycle]).run();
    assert_eq!(without_agent.code, 2, "{}", without_agent.transcript());
    assert!(
        without_agent.stderr.starts_with("error[E007]: no command is configured for agent `executor`"),
        "{}",
        without_agent.stderr
    );
    assert_eq!(test_env.journal("peer.spec.user-auth.cycle.3").len(), 2, "nothing has begun");
    let agent = test_env.write_program(test_env.agent_dir().join("peer.sh"), AGENT);
    let resumed = test_env.callboard(&["resume", cycle, "--wrapper", agent.to_str().unwrap()]).run();
    assert_eq!(resumed.code, 0, "{}", resumed.transcript());
    let started: Vec<_> = resumed.stderr.lines().filter(|line| line.ends_with("started")).collect();
    assert_eq!(started, ["▸ execute#1.1 started", "▸ express#1.1 started", "▸ review#1.1 started"]);
    let checked = test_env.callboard(&["recover", "--dry-run"]).run();
    assert!(checked.stdout.contains("is intact"), "{}", checked.transcript());
    // The document has changed since, and still counts as imported.
    assert_eq!(
        results(&import(&test_env, &write_dump(&test_env, G3), &["--json"]))[2],
        (cycle.to_owned(), "exists".to_owned())
    );
}

#[test]
fn a_run_with_other_content_is_left_alone_and_the_rest_is_imported() {
    let test_env = test_env();
    assert_eq!(import(&test_env, &write_dump(&test_env, NEVER_EXECUTED), &["--write"]).code, 0);
    let changed = NEVER_EXECUTED.replace("All is done", "Most is done");
    let session =
        import(&test_env, &write_dump(&test_env, &format!("{changed}{G3}")), &["--write", "--json"]);
    assert_eq!(session.code, 3, "{}", session.transcript());
    let results = results(&session);
    assert!(
        results.contains(&("peer:spec:committer:cycle:1".to_owned(), "differs".to_owned())),
        "{results:?}"
    );
    assert_eq!(results.iter().filter(|(_, result)| result == "imported").count(), 5, "{results:?}");
    let without_write = import(&test_env, &write_dump(&test_env, &changed), &[]);
    assert_snapshot!(without_write.stderr, @"
    note: `peer:spec:committer:cycle:1` was not imported: its run exists with other content; see `callboard show peer.spec.committer.cycle.1`, or import into another store with `--store DIR`
    note: nothing was written: 1 cycle different
    ");
}

#[test]
fn bad_lines_are_reported_and_the_rest_is_imported() {
    let test_env = test_env();
    let text = format!("{NEVER_EXECUTED}{{\"key\": \"peer.x\", \"value\": }}\nnot JSON\n");
    let session = import(&test_env, &write_dump(&test_env, &text), &["--write"]);
    assert_eq!(session.code, 2, "{}", session.transcript());
    let shared = test_env.agent_dir().to_str().unwrap().to_owned();
    assert_snapshot!(session.stderr.replace(&shared, "SHARED"), @"
    unreadable: SHARED/dump.jsonl:2:28: expected value
    unreadable: SHARED/dump.jsonl:3:2: expected ident
    note: 1 cycle imported
    ");
    assert!(session.stdout.contains("execute failed  imported"), "{}", session.stdout);
}

#[test]
fn a_directory_with_one_file_per_key_is_imported() {
    let test_env = test_env();
    let keys = test_env.agent_dir().join("keys");
    fs::create_dir_all(keys.join("peer/spec/login/cycle/7")).unwrap();
    fs::write(keys.join("peer/spec/login/cycle/7/status"), "planning\n").unwrap();
    fs::write(keys.join("peer:spec:login:cycle:8:status"), "EXECUTION_FAILED").unwrap();
    let session = import(&test_env, &keys, &["--json"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let output = session.json();
    assert_eq!(output["cycles"][0]["document"]["phases"]["plan"]["status"], "in_progress");
    assert_eq!(output["cycles"][1]["document"]["phases"]["plan"]["status"], "failed");
}

#[test]
fn a_document_of_version_2_is_imported_unchanged() {
    let test_env = test_env();
    let keys = test_env.agent_dir().join("keys");
    fs::create_dir_all(&keys).unwrap();
    fs::write(keys.join("cycle.json"), CURRENT).unwrap();
    let session = import(&test_env, &keys, &["--write", "--json"]);
    assert_eq!(session.code, 0, "{}", session.transcript());
    let output = session.json();
    assert_eq!(output["cycles"][0]["origin"], "current");
    let current: Value = serde_json::from_str(CURRENT).unwrap();
    assert_eq!(output["cycles"][0]["document"], current);
    assert_eq!(test_env.callboard(&["state", "get", "peer:spec:feature-name:cycle:1"]).run().json(), current);
    assert_eq!(results(&import(&test_env, &keys, &["--write", "--json"]))[0].1, "exists");
}

#[test]
fn a_file_that_is_no_dump_is_refused_with_a_hint() {
    let test_env = test_env();
    let file = write_dump(&test_env, CURRENT);
    let session = import(&test_env, &file, &["--json"]);
    assert_eq!((session.code, session.json()["cycles"].clone()), (2, json!([])), "{}", session.transcript());
    let refused = import(&test_env, &file, &[]);
    assert!(
        refused.stderr.contains("give a directory if your files are named by keys"),
        "{}",
        refused.transcript()
    );
    let missing = import(&test_env, &test_env.agent_dir().join("missing"), &[]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("cannot read the dump"), "{}", missing.transcript());
    for invalid_arguments in
        [&["import"][..], &["import", "--write", "x.tar"], &["import", "x.tar", "--peer", "y"]]
    {
        assert_eq!(test_env.callboard(invalid_arguments).run().code, 2, "{invalid_arguments:?}");
    }
}
