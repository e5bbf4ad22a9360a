//! Others write in the place of a cycle's document: what is right is absorbed, all else is kept and put right.

use protocol::entry::{Author, Input};
use protocol::peer::{Event, Peer};
use runner::{Clock, LoadError, rebuild_document};
use serde_json::{Value, json};
use store::{NatsStore, Store as _};

use crate::Scene;
use crate::client::{BUCKET, Client};

/// The planner's output, changed as somebody would who only cares for that.
fn drafted(entry: &Value, draft: &str) -> Value {
    let mut entry = entry.clone();
    entry["phases"]["plan"]["output"]["draft"] = json!(draft);
    entry
}

/// The same as the seed tells its clients to write.
fn written(entry: &Value, draft: &str) -> Value {
    let mut entry = drafted(entry, draft);
    let sequence = entry["sequence"].as_u64().unwrap() + 1;
    entry["sequence"] = json!(sequence);
    let at = entry["metadata"]["updated_at"].clone();
    let own = json!({ "timestamp": at, "phase": "plan", "event": "progress", "sequence": sequence });
    entry["history"].as_array_mut().unwrap().push(own);
    entry
}

#[tokio::test]
async fn a_correct_write_is_absorbed_in_the_name_of_its_writer() {
    for write in [drafted, written] {
        let mut scene = Scene::new().await;
        let before = scene.cycle.document.clone();
        let (sequence, entry) = scene.client.get().await;
        assert_eq!(entry["phases"]["plan"]["status"], "in_progress");
        let theirs = scene.client.update(&write(&entry, "theirs"), sequence).await;
        scene.cycle.reload().await.unwrap();
        let document = &scene.cycle.document;
        assert_eq!(document.phases.plan.output.as_ref().unwrap()["draft"], "theirs");
        assert_eq!(
            (document.sequence, document.history.len()),
            (before.sequence + 1, before.history.len() + 1)
        );
        let own = document.history.last().unwrap();
        assert_eq!(own.event, Event::Progress);
        assert_eq!(own.unknown["by"], format!("another client of the bucket `{BUCKET}`"));
        let absorbing = scene.cycle.entry(scene.cycle.position.revision).await.unwrap().unwrap();
        assert_eq!(absorbing.by, Author::Client { bucket: BUCKET.to_owned(), sequence: theirs });
        assert!(matches!(absorbing.input, Input::Edited { from: None, .. }));
        // And what stands there now is ours again.
        let (_, entry) = scene.client.get().await;
        assert_eq!(
            (&entry["sequence"], &entry["phases"]["plan"]["output"]["draft"]),
            (&json!(before.sequence + 1), &json!("theirs"))
        );
        assert_eq!(scene.another().await.foreign, None);
        assert_eq!(scene.another().await.document, scene.cycle.document);
    }
}

#[tokio::test]
async fn an_error_that_another_client_adds_is_absorbed_and_one_that_it_takes_away_is_put_back() {
    let mut scene = Scene::new().await;
    let (sequence, mut entry) = scene.client.get().await;
    let slow = json!({ "kind": "note", "message": "slow", "timestamp": entry["metadata"]["updated_at"] });
    entry["phases"]["plan"]["errors"] = json!([slow]);
    scene.client.update(&entry, sequence).await;
    scene.cycle.reload().await.unwrap();
    let document = &scene.cycle.document;
    assert_eq!(json!(document.phases.plan.errors), json!([slow]));
    assert_eq!(document.history.last().unwrap().event, Event::Progress);
    let meddle = |now: &Value| {
        let mut entry = now.clone();
        entry["phases"]["plan"]["errors"] = json!([]);
        Some(entry.to_string().into_bytes())
    };
    put_back(&mut scene, "an error taken away", meddle).await;
}

#[tokio::test]
async fn a_client_that_only_writes_it_again_changes_nothing() {
    let mut scene = Scene::new().await;
    let (before, position) = (scene.cycle.document.clone(), scene.cycle.position);
    let (_, entry) = scene.client.get().await;
    scene.client.put(serde_json::to_vec_pretty(&entry).unwrap()).await;
    scene.cycle.reload().await.unwrap();
    assert_eq!((&scene.cycle.document, scene.cycle.position), (&before, position));
}

/// Everything that is not a correct write: it is kept, and what was committed last is put back.
#[tokio::test]
async fn whatever_else_is_written_there_is_kept_and_the_document_put_back() {
    let mut scene = Scene::new().await;
    let (_, old) = scene.client.get().await;
    let patch = protocol::edit::Patch::Set(vec![("/phases/plan/output/draft".to_owned(), json!("ours"))]);
    let expected = scene.cycle.document.sequence;
    runner::edit(&mut scene.cycle, testkit::harness::person(), None, expected, &patch).await.unwrap();
    type Meddle = fn(&Value) -> Option<Vec<u8>>;
    let cases: [(&str, Meddle); 7] = [
        ("no JSON object", |_| Some(b"rubbish \xff".to_vec())),
        ("illegal transition", |now| {
            let mut entry = now.clone();
            entry["phases"]["plan"]["status"] = json!("completed");
            Some(entry.to_string().into_bytes())
        }),
        ("broken rule", |now| {
            let mut entry = written(now, "x");
            entry["metadata"]["status"] = json!("perfect");
            Some(entry.to_string().into_bytes())
        }),
        ("changed engine part", |now| {
            let mut entry = drafted(now, "x");
            entry["callboard"]["head"]["summary"] = json!("mine");
            Some(entry.to_string().into_bytes())
        }),
        ("missing engine part", |now| {
            let mut entry = drafted(now, "x");
            entry.as_object_mut().unwrap().shift_remove("callboard");
            Some(entry.to_string().into_bytes())
        }),
        ("truncated", |now| {
            let text = now.to_string();
            Some(text.as_bytes()[..text.len() / 2].to_vec())
        }),
        ("deleted", |_| None),
    ];
    for (case, meddle) in cases {
        put_back(&mut scene, case, meddle).await;
    }
    // A put of what was read long ago, unchanged or not.
    for stale in [old.clone(), drafted(&old, "late")] {
        put_back(&mut scene, "stale", |_| Some(stale.to_string().into_bytes())).await;
    }
    runner::verify::<Peer, _>(&scene.store, &Clock::system(), &scene.cycle.run).await.unwrap();
}

#[tokio::test]
async fn a_sequence_beyond_all_reason_is_part_of_the_damage() {
    let mut scene = Scene::new().await;
    for claimed in [u64::MAX, u64::MAX - 1, 1 << 40] {
        let before = scene.cycle.document.sequence;
        scene.client.put(json!({ "sequence": claimed }).to_string()).await;
        scene.cycle.reload().await.unwrap();
        assert_eq!(scene.cycle.document.sequence, before + 1);
    }
}

async fn put_back(scene: &mut Scene, case: &str, meddle: impl Fn(&Value) -> Option<Vec<u8>>) {
    let before = scene.cycle.document.clone();
    let (_, entry) = scene.client.get().await;
    let bytes = meddle(&entry);
    let sequence = match &bytes {
        Some(bytes) => scene.client.put(bytes.clone()).await,
        None => scene.client.delete().await,
    };
    scene.cycle.reload().await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let document = &scene.cycle.document;
    assert_eq!(document.phases, before.phases, "{case}");
    let own = document.history.last().unwrap();
    assert_eq!((&own.event, own.sequence), (&Event::Recovered, document.sequence), "{case}");
    assert!(document.sequence > before.sequence, "{case}");
    if let Some(bytes) = bytes {
        let claimed =
            serde_json::from_slice::<Value>(&bytes).ok().and_then(|entry| entry["sequence"].as_u64());
        assert!(claimed.is_none_or(|claimed| document.sequence > claimed), "{case}");
        let kept = scene.client.bytes(&format!("recovery.{}.{sequence}", scene.cycle.run)).await.1;
        assert_eq!(kept, bytes, "{case}");
    }
    let (_, entry) = scene.client.get().await;
    assert_eq!(entry["sequence"], document.sequence, "{case}");
    assert_eq!(entry["phases"], json!(document.phases), "{case}");
}

#[tokio::test]
async fn whoever_edits_settles_first_what_others_wrote() {
    let mut scene = Scene::new().await;
    let (sequence, entry) = scene.client.get().await;
    scene.client.update(&drafted(&entry, "theirs"), sequence).await;
    // Read before that: the edit is about another field, so both are kept.
    let expected = scene.cycle.document.sequence;
    let note = protocol::edit::Patch::Set(vec![("/note".to_owned(), json!("ours"))]);
    let edited =
        runner::edit(&mut scene.cycle, testkit::harness::person(), None, expected, &note).await.unwrap();
    assert_eq!(edited.sequence, expected + 2);
    let (_, entry) = scene.client.get().await;
    assert_eq!(
        (&entry["note"], &entry["phases"]["plan"]["output"]["draft"]),
        (&json!("ours"), &json!("theirs"))
    );
    // About the same field: a conflict, as with anybody.
    let (sequence, entry) = scene.client.get().await;
    scene.client.update(&drafted(&entry, "again"), sequence).await;
    let ours = protocol::edit::Patch::Set(vec![("/phases/plan/output/draft".to_owned(), json!("ours"))]);
    let error =
        runner::edit(&mut scene.cycle, testkit::harness::person(), None, edited.sequence, &ours).await;
    let Err(runner::EditError::Conflict(conflict)) = error else { panic!("{error:?}") };
    assert_eq!((conflict.expected, conflict.found), (edited.sequence, edited.sequence + 1));
}

#[tokio::test]
async fn a_request_does_not_overwrite_what_others_wrote() {
    let scene = Scene::new().await;
    let (sequence, entry) = scene.client.get().await;
    scene.client.update(&drafted(&entry, "theirs"), sequence).await;
    let mut cycle = scene.another().await;
    assert!(cycle.foreign.is_some(), "it has been read");
    runner::request(&mut cycle, testkit::harness::person(), protocol::run::Request::Pause, None)
        .await
        .unwrap();
    let (_, entry) = scene.client.get().await;
    assert_eq!(entry["phases"]["plan"]["output"]["draft"], "theirs");
    assert_eq!(scene.another().await.document, cycle.document);
}

#[tokio::test]
async fn a_deleted_bucket_is_rebuilt_from_the_journal() {
    let scene = Scene::new().await;
    let before = scene.cycle.document.clone();
    let (last, _) = scene.client.get().await;
    scene.client.delete_bucket().await;
    assert!(scene.store.load(&scene.cycle.run).await.is_err(), "it is missed");
    let store = NatsStore::new(scene.settings());
    assert_eq!(store.rebuild_buckets().await.unwrap(), [BUCKET]);
    let rebuilt = rebuild_document::<Peer, _>(&store, &Clock::system(), &scene.cycle.run).await;
    assert_eq!(rebuilt.unwrap().unwrap().unwrap().sequence, 0);
    let (sequence, entry) = scene.client.get().await;
    assert!(sequence > last, "its numbers go on");
    assert_eq!(entry["phases"], json!(before.phases));
    assert_eq!(entry["history"].as_array().unwrap().last().unwrap()["event"], "recovered");
    assert_eq!(scene.another().await.foreign, None);
    // A second time there is nothing to be done.
    assert_eq!(store.rebuild_buckets().await.unwrap(), Vec::<String>::new());
    let again = rebuild_document::<Peer, _>(&store, &Clock::system(), &scene.cycle.run).await.unwrap();
    assert_eq!(again, Some(None));
}

#[tokio::test]
async fn a_client_that_writes_there_without_pause_is_not_raced_for_ever() {
    let mut scene = Scene::new().await;
    let client = Client::of(&scene.server, &scene.cycle.run).await;
    let hammering = tokio::spawn(async move {
        loop {
            client.put("rubbish").await;
        }
    });
    let error = loop {
        if let Err(error) = scene.cycle.reload().await {
            break error;
        }
    };
    assert!(matches!(error, LoadError::Outrun { .. }), "{error:?}");
    hammering.abort();
    scene.cycle.reload().await.unwrap();
    assert_eq!(scene.another().await.foreign, None);
}
