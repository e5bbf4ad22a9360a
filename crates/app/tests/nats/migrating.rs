//! `import --peer nats://…`: cycles of older formats in a bucket that is in use.

use std::collections::BTreeSet;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream;
use futures_util::TryStreamExt as _;
use serde_json::Value;
use testkit::{Scene, stage};

use crate::{client, scene};

const G1: &str = include_str!("../../../protocol/tests/fixtures/peer/old/g1.jsonl");
const NEVER_EXECUTED: &str = include_str!("../../../protocol/tests/fixtures/peer/old/never-executed.jsonl");

const BUCKET: &str = "agent-os-peer-state";

/// Fills the bucket as the programs of old did.
async fn fill_so(client: &Context, lines: &str) {
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

fn fill(scene: &Scene, lines: &str) {
    stage::wait(fill_so(&client(scene), lines));
}

async fn put(client: &Context, key: &str, value: String) {
    client.publish(format!("$KV.{BUCKET}.{key}"), value.into()).await.unwrap().await.unwrap();
}

/// The keys that have a value.
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

fn keys(scene: &Scene) -> BTreeSet<String> {
    stage::wait(keys_of(&client(scene)))
}

fn import(scene: &Scene, more: &[&str]) -> testkit::Session {
    let address = scene.backing().address().unwrap();
    let arguments = ["import", "--peer", &address];
    scene.callboard(&arguments.iter().chain(more).copied().collect::<Vec<_>>()).run()
}

#[test]
fn a_bucket_in_use_is_told_first_then_taken_over_and_its_old_keys_stay() {
    let scene = scene();
    fill(&scene, G1);
    let before = keys(&scene);
    let told = import(&scene, &[]);
    assert_eq!(told.code, 0, "{}", told.transcript());
    assert!(told.stderr.contains("nothing was written: 5 cycles would be entered"), "{}", told.transcript());
    let entered = import(&scene, &["--write"]);
    assert_eq!(entered.code, 0, "{}", entered.transcript());
    assert!(keys(&scene).is_superset(&before), "old keys stay");
    let shown = scene.callboard(&["show", "peer:spec:login:cycle:1"]).run();
    assert!(shown.stdout.contains("delivered"), "{}", shown.transcript());
    let again = import(&scene, &["--write"]);
    assert!(again.stderr.contains("5 cycles already there"), "{}", again.transcript());
}

#[test]
fn delete_old_rids_the_bucket_of_what_was_taken_over_and_of_nothing_else() {
    let scene = scene();
    fill(&scene, G1);
    stage::wait(put(&client(&scene), "somebody.elses", "1".to_owned()));
    let entered = import(&scene, &["--write", "--delete-old"]);
    assert_eq!(entered.code, 0, "{}", entered.transcript());
    let left = keys(&scene);
    assert!(left.contains("somebody.elses") && left.contains("peer.spec.login.cycle.current"), "{left:?}");
    assert!(!left.iter().any(|key| key.starts_with("peer.spec.login.cycle.1.")), "{left:?}");
}

/// The cycle's key of old is the one that it has now.
#[test]
fn a_document_of_old_under_the_very_key_of_its_cycle_is_taken_over_in_its_place() {
    let scene = scene();
    fill(&scene, NEVER_EXECUTED);
    let entered = import(&scene, &["--write", "--delete-old"]);
    assert_eq!(entered.code, 0, "{}", entered.transcript());
    let cycle = scene.callboard(&["state", "get", "peer:spec:committer:cycle:1", "--path", "/version"]).run();
    assert_eq!(cycle.stdout.trim(), "2", "{}", cycle.transcript());
    let again = import(&scene, &["--write"]);
    assert!(again.stderr.contains("1 cycle already there"), "{}", again.transcript());
}

#[test]
fn a_server_without_the_bucket_is_named() {
    let scene = scene();
    let session = import(&scene, &[]);
    assert_eq!(session.code, 2, "{}", session.transcript());
    let none = "error: there is no bucket `agent-os-peer-state` at";
    assert!(session.stderr.starts_with(none), "{}", session.transcript());
    let session = scene.callboard(&["import", "--peer", "x.jsonl", "--write", "--delete-old"]).run();
    assert_eq!(session.code, 2, "{}", session.transcript());
    assert!(session.stderr.contains("`--delete-old` is for a bucket that is in use"), "{}", session.stderr);
}
