//! `import --peer nats://…`: cycles of older formats in a bucket that is in use.

use std::collections::BTreeSet;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream;
use futures_util::TryStreamExt as _;
use serde_json::Value;
use testkit::{TestEnv, harness};

use crate::nats::{client, test_env};

// The keys and values of a bucket in each generation of the format, from the oldest (G0) to the last before version 2.
const G0: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g0.jsonl");
const G1: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g1.jsonl");
const G2: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g2.jsonl");
const G3: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g3.jsonl");
/// Keys that belong to no cycle, such as locks and counters.
const KEYS_OF_NO_CYCLE: &str = include_str!("../../../protocol/tests/fixtures/peer/old/transient.jsonl");
/// A cycle that is marked as completed, although its phase `execute` has no output.
const NEVER_EXECUTED: &str = include_str!("../../../protocol/tests/fixtures/peer/old/never-executed.jsonl");

const BUCKET: &str = "agent-os-peer-state";

/// Creates the bucket as earlier programs did, and puts the key and value of each line into it.
async fn fill_bucket_async(client: &Context, lines: &str) {
    let config = stream::Config {
        name: format!("KV_{BUCKET}"),
        subjects: vec![format!("$KV.{BUCKET}.>")],
        max_messages_per_subject: 50,
        allow_rollup: true,
        ..stream::Config::default()
    };
    client.create_stream(config).await.unwrap();
    for line in lines.lines() {
        let item: Value = serde_json::from_str(line).unwrap();
        let value = item["value"].as_str().map_or_else(|| item["value"].to_string(), str::to_owned);
        put(client, item["key"].as_str().unwrap(), value).await;
    }
}

fn fill_bucket(test_env: &TestEnv, lines: &str) {
    harness::block_on(fill_bucket_async(&client(test_env), lines));
}

async fn put(client: &Context, key: &str, value: String) {
    client.publish(format!("$KV.{BUCKET}.{key}"), value.into()).await.unwrap().await.unwrap();
}

/// Returns the keys that have a value.
async fn keys_of(client: &Context) -> BTreeSet<String> {
    let bucket = client.get_stream(format!("KV_{BUCKET}")).await.unwrap();
    let subjects: Vec<_> = bucket.info_with_subjects(">").await.unwrap().try_collect().await.unwrap();
    let mut keys = BTreeSet::new();
    for (subject, _) in subjects {
        let last = bucket.get_last_raw_message_by_subject(&subject).await.unwrap();
        if !last.payload.is_empty() {
            keys.insert(subject.strip_prefix(&format!("$KV.{BUCKET}.")).unwrap().to_owned());
        }
    }
    keys
}

fn keys(test_env: &TestEnv) -> BTreeSet<String> {
    harness::block_on(keys_of(&client(test_env)))
}

fn import(test_env: &TestEnv, flags: &[&str]) -> testkit::CallOutput {
    let address = test_env.backend().address().unwrap();
    let arguments = ["import", "--peer", &address];
    test_env.callboard(&arguments.iter().chain(flags).copied().collect::<Vec<_>>()).run()
}

#[test]
fn import_lists_a_bucket_first_then_imports_it_and_keeps_its_old_keys() {
    let test_env = test_env();
    fill_bucket(&test_env, G1);
    let before = keys(&test_env);
    let listed = import(&test_env, &[]);
    assert_eq!(listed.code, 0, "{}", listed.transcript());
    assert!(listed.stderr.contains("nothing was written: 5 cycles to import"), "{}", listed.transcript());
    let imported = import(&test_env, &["--write"]);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(keys(&test_env).is_superset(&before), "old keys stay");
    let shown = test_env.callboard(&["show", "peer:spec:login:cycle:1"]).run();
    assert!(shown.stdout.contains("succeeded"), "{}", shown.transcript());
    let again = import(&test_env, &["--write"]);
    assert!(again.stderr.contains("5 cycles already imported"), "{}", again.transcript());
}

#[test]
fn delete_old_deletes_only_the_keys_that_were_imported() {
    let test_env = test_env();
    fill_bucket(&test_env, G1);
    harness::block_on(put(&client(&test_env), "somebody.elses", "1".to_owned()));
    let imported = import(&test_env, &["--write", "--delete-old"]);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let left = keys(&test_env);
    assert!(left.contains("somebody.elses") && left.contains("peer.spec.login.cycle.current"), "{left:?}");
    assert!(!left.iter().any(|key| key.starts_with("peer.spec.login.cycle.1.")), "{left:?}");
}

/// Every older format of the original, and keys with colons, which the server accepts.
#[test]
fn a_live_bucket_is_read_like_a_dump_of_it() {
    let test_env = test_env();
    let formats = [G0, G1, G2, G3, NEVER_EXECUTED, KEYS_OF_NO_CYCLE].concat();
    let of_login = G1.lines().filter(|line| line.contains("peer.spec.login.cycle.1"));
    let with_colons: String = of_login
        .map(|line| {
            let mut item: Value = serde_json::from_str(line).unwrap();
            let key = item["key"].as_str().unwrap().replace("login", "colons").replace('.', ":");
            item["key"] = key.into();
            format!("{item}\n")
        })
        .collect();
    assert!(!with_colons.is_empty());
    let lines = formats + &with_colons;
    test_env.write("dump.jsonl", &lines);
    fill_bucket(&test_env, &lines);
    let cycles = |session: testkit::CallOutput| {
        assert_eq!(session.code, 0, "{}", session.transcript());
        let report = session.json();
        assert_eq!(report["unreadable"], serde_json::json!([]), "{report:#}");
        let cycles = report["cycles"].as_array().unwrap().clone();
        cycles.into_iter().map(|cycle| (cycle["run"].clone(), cycle["status"].clone())).collect::<Vec<_>>()
    };
    let of_dump = cycles(test_env.callboard(&["import", "--peer", "dump.jsonl", "--json"]).run());
    let of_bucket = cycles(import(&test_env, &["--json"]));
    assert_eq!(of_bucket, of_dump);
    assert!(of_bucket.iter().any(|(run, _)| run == "peer.spec.colons.cycle.1"), "{of_bucket:?}");
    let imported = import(&test_env, &["--write", "--json"]);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let again = import(&test_env, &["--write", "--json"]).json();
    let exists = |cycle: &Value| cycle["result"] == "exists";
    assert!(again["cycles"].as_array().unwrap().iter().all(exists), "{again:#}");
}

#[test]
fn the_old_keys_of_an_imported_cycle_can_be_deleted_after_it_was_changed() {
    let test_env = test_env();
    fill_bucket(&test_env, G1);
    assert_eq!(import(&test_env, &["--write"]).code, 0);
    let cycle = "peer:spec:login:cycle:2";
    let read = test_env.callboard(&["state", "get", cycle, "--path", "/sequence"]).run();
    let patch = ["state", "patch", cycle, "--expect", read.stdout.trim(), "--set", "/note=1"];
    let patched = test_env.callboard(&patch).run();
    assert_eq!(patched.code, 0, "{}", patched.transcript());
    let again = import(&test_env, &["--write", "--delete-old"]);
    assert_eq!(again.code, 0, "{}", again.transcript());
    assert!(again.stderr.contains("5 cycles already imported"), "{}", again.transcript());
    let left = keys(&test_env);
    assert!(!left.iter().any(|key| key.starts_with("peer.spec.login.cycle.2.")), "{left:?}");
    let note = test_env.callboard(&["state", "get", cycle, "--path", "/note"]).run();
    assert_eq!(note.stdout.trim(), "1", "{}", note.transcript());
}

/// The bucket has only the digest of a large output; the output itself is a blob.
#[test]
fn a_cycle_with_a_large_output_is_imported_whole_into_another_store() {
    let test_env = test_env();
    let agent = r#"#!/bin/sh
case $STEP_ID in
    plan) output="{\"phases\": [{\"phase\": \"$(printf %0150000d 7)\"}], \"success_criteria\": \"it works\"}" ;;
    execute) output='{"execution_status": "success"}' ;;
    express) output='{"summary": "done"}' ;;
    *) output='{"quality_score": 90}' ;;
esac
printf '{"schema":"run_report@v0","run_id":"%s","step_id":"%s","agent":"%s","status":"COMPLETED","started_at":"x","ended_at":"y","output":%s}' \
    "$RUN_ID" "$STEP_ID" "$AGENT_ID" "$output" > "$REPORT_PATH"
"#;
    let agent = test_env.write_program(test_env.agent_dir().join("agent.sh"), agent);
    let created = ["peer", "create-spec", "--spec", "login", "x", "--wrapper", agent.to_str().unwrap()];
    let created = test_env.callboard(&created).run();
    assert_eq!(created.code, 0, "{}", created.transcript());
    let get = ["state", "get", "peer:spec:login:cycle:1", "--path", "/phases"];
    let before = test_env.callboard(&get).run().json();
    assert!(before["plan"]["output"].to_string().len() > 150_000);
    let same_store = import(&test_env, &["--write"]);
    assert_eq!(same_store.code, 0, "{}", same_store.transcript());
    assert!(same_store.stderr.contains("1 cycle already imported"), "{}", same_store.transcript());
    let other = test_env.agent_dir().join("other");
    let other_store = ["--store", other.to_str().unwrap()];
    let imported = import(&test_env, &[&["--write"], &other_store[..]].concat());
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    assert!(!imported.stdout.contains("converted"), "{}", imported.transcript());
    assert_eq!(test_env.callboard(&[&get[..], &other_store].concat()).run().json(), before);
}

/// The cycle's old key equals its new one.
#[test]
fn an_old_document_under_the_cycles_own_key_is_migrated_in_place() {
    let test_env = test_env();
    fill_bucket(&test_env, NEVER_EXECUTED);
    let imported = import(&test_env, &["--write", "--delete-old"]);
    assert_eq!(imported.code, 0, "{}", imported.transcript());
    let cycle =
        test_env.callboard(&["state", "get", "peer:spec:committer:cycle:1", "--path", "/version"]).run();
    assert_eq!(cycle.stdout.trim(), "2", "{}", cycle.transcript());
    let again = import(&test_env, &["--write"]);
    assert!(again.stderr.contains("1 cycle already imported"), "{}", again.transcript());
}

#[test]
fn a_server_without_the_bucket_is_named() {
    let test_env = test_env();
    let session = import(&test_env, &[]);
    assert_eq!(session.code, 2, "{}", session.transcript());
    let expected = "error: there is no bucket `agent-os-peer-state` at";
    assert!(session.stderr.starts_with(expected), "{}", session.transcript());
    let session = test_env.callboard(&["import", "--peer", "x.jsonl", "--write", "--delete-old"]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.stderr.contains("`--delete-old` needs a bucket, not a dump"), "{}", session.stderr);
}
