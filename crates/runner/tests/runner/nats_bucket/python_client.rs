//! A client written in Python (`nats-py`) reads the document, updates it, and gets a conflict when it is late.
//!
//! The `revision` of this client is that of `nats-py`: the stream sequence of the KV entry, not a revision of the run.

use std::path::{Path, PathBuf};
use std::process::Command;

use protocol::edit::Patch;
use protocol::peer::Event;
use serde_json::{Value, json};
use testkit::harness::test_author;

use super::Fixture;
use super::client::BUCKET;
use crate::peer_document;

/// Returns the directory in which `scripts/tools` has installed `nats-py`.
fn nats_py_dir() -> PathBuf {
    let build = std::env::current_exe().unwrap();
    let tools = build.ancestors().nth(3).unwrap().join("tools");
    let found =
        std::fs::read_dir(&tools).into_iter().flatten().map_while(Result::ok).map(|entry| entry.path());
    let is_nats_py =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("nats-py-"));
    found.into_iter().find(is_nats_py).unwrap_or_else(|| {
        panic!("no nats-py in `{}`: run scripts/tools, or scripts/verify --no-nats", tools.display())
    })
}

/// Runs the client and returns the JSON that it prints.
fn run_client(fixture: &Fixture, arguments: &[&str]) -> Value {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runner/nats_bucket/python_client.py");
    let mut client = Command::new("python3");
    client.arg(program).arg(format!("nats://{}", fixture.server.address()));
    client.args([BUCKET, fixture.cycle.run.as_str()]).args(arguments).env("PYTHONPATH", nats_py_dir());
    let answer = client.output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    serde_json::from_slice(&answer.stdout).unwrap()
}

#[tokio::test]
async fn a_python_client_reads_updates_and_gets_a_conflict() {
    let mut fixture = Fixture::new().await;
    let expected = peer_document(&fixture.cycle).sequence;

    let found = run_client(&fixture, &["read"]);
    assert_eq!(found["document"]["phases"]["plan"]["status"], "in_progress");
    assert_eq!(found["document"]["sequence"], expected);
    assert_eq!(found["document"]["history"].as_array().unwrap().len() as u64, expected);

    let revision = found["revision"].to_string();
    let updated = run_client(&fixture, &["update", &revision, "theirs"]);
    assert_eq!(updated["sequence"], expected + 1);
    fixture.cycle.reload().await.unwrap();
    let document = peer_document(&fixture.cycle);
    assert_eq!(document.phases.plan.output.as_ref().unwrap()["draft"], "theirs");
    assert_eq!(document.sequence, expected + 1);
    let history_entry = document.history.last().unwrap();
    assert_eq!((&history_entry.event, history_entry.sequence), (&Event::Progress, expected + 1));

    // After an edit, an update on the old revision is refused.
    let patch = Patch::Set(vec![("/phases/plan/output/draft".to_owned(), json!("ours"))]);
    runner::edit(&mut fixture.cycle, test_author(), None, expected + 1, &patch).await.unwrap();
    let late = run_client(&fixture, &["update", &updated["revision"].to_string(), "late"]);
    assert!(late["conflict"].as_str().unwrap().contains("wrong last sequence"), "{late}");
    assert_eq!(fixture.load_again().await.external_write, None, "nothing of it has landed");
    let again = run_client(&fixture, &["read"]);
    assert_eq!(again["document"]["phases"]["plan"]["output"]["draft"], "ours");
    run_client(&fixture, &["update", &again["revision"].to_string(), "in time"]);
    fixture.cycle.reload().await.unwrap();
    assert_eq!(peer_document(&fixture.cycle).phases.plan.output.as_ref().unwrap()["draft"], "in time");

    // The history contains every write, including the client's own.
    let history = run_client(&fixture, &["history"]);
    let seen: Vec<u64> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["document"]["sequence"].as_u64().unwrap())
        .collect();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!((seen[0], *seen.last().unwrap()), (1, expected + 3));
    let newest = history.as_array().unwrap().last().unwrap()["document"].clone();
    let by = format!("another client of the bucket `{BUCKET}`");
    let authors: Vec<&Value> = newest["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|history_entry| &history_entry["by"])
        .filter(|by| !by.is_null())
        .collect();
    assert_eq!(authors, [&json!(by), &json!("tester"), &json!(by)]);
}
