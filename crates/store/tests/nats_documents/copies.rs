//! The entry is the commit: whatever happens between it and its copy, nothing is lost and nothing is doubled.

use std::time::Duration;

use protocol::{Epoch, Revision, RunId};
use store::{
    Commit, CommitError, Digest, NatsSettings, NatsStore, Patience, Position, ReadError, Store as _,
    StoredEntry, Unavailable, ViewMark,
};
use testkit::nats::{Proxy, Server, deliver};

use crate::client::{BUCKET, Client};
use crate::contract::{change, run};
use crate::showing::Showing;

fn bodies(entries: &[StoredEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.body.as_str()).collect()
}

fn direct(server: &Server) -> Showing {
    Showing(testkit::nats::any(NatsStore::new(server.settings())))
}

/// A store that writes entries and no copies, until it gives up: so far a process gets that is killed in between.
async fn stops_between(wire: &Proxy) -> Showing {
    let store = wire.store(Duration::from_millis(300));
    store.open().await.unwrap();
    wire.refuse(u32::MAX);
    Showing(testkit::nats::any(store))
}

async fn stop_between(wire: &Proxy, run: &RunId, expected: Position, entry: &str) {
    let stopped = stops_between(wire).await.commit(change(run, expected, entry)).await.unwrap_err();
    assert!(matches!(stopped, CommitError::Unknown { .. }), "{stopped:?}");
}

#[tokio::test]
async fn a_run_whose_first_commit_has_no_copy_is_there_for_everybody() {
    let server = Server::start();
    let (wire, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    stop_between(&wire, &run, Position::absent(), "1").await;
    let client = Client::of(&server).await;
    assert_eq!(client.messages(&run).await, 0, "there is no copy");
    let listed = direct(&server).runs().await.unwrap();
    assert_eq!(listed.iter().map(|row| (&row.run, row.revision)).collect::<Vec<_>>(), [(&run, Revision(1))]);
    assert_eq!(client.messages(&run).await, 1, "whoever looked has made it");
    assert_eq!(direct(&server).runs_beginning("peer.", 9).await.unwrap(), std::slice::from_ref(&run));
    let again = direct(&server).commit(change(&run, Position::absent(), "again")).await.unwrap_err();
    assert!(matches!(again, CommitError::Conflict { found: Revision(1), .. }), "{again}");
    assert_eq!(client.messages(&run).await, 1, "and nobody makes it twice");
}

/// A server compares with the last message of another subject, if it is told to.
#[tokio::test]
async fn a_foreign_write_that_only_seems_to_come_first_hides_no_commit_without_a_copy() {
    let server = Server::start();
    let (wire, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    stop_between(&wire, &run, Position::absent(), "1").await;
    let client = Client::of(&server).await;
    client.put_if_none_at(&run, b"theirs".to_vec(), "nobody").await;
    let loaded = direct(&server).load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.position.revision, Revision(1));
    assert!(loaded.foreign.is_some());
}

#[tokio::test]
async fn a_copy_that_is_missing_is_made_by_whoever_reads_writes_or_watches() {
    for reader in ["load", "entries", "document", "watch", "commit", "settle"] {
        let server = Server::start();
        let (store, run) = (direct(&server), run("peer.global.cycle.1"));
        let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
        let mut watch = store.watch(&run, Revision(1)).await.unwrap();
        stop_between(&Proxy::to(&server).await, &run, first, "2").await;
        let client = Client::of(&server).await;
        assert_eq!(client.messages(&run).await, 1);
        let another = direct(&server);
        match reader {
            "load" => assert_eq!(another.load(&run).await.unwrap().unwrap().position.revision, Revision(2)),
            "entries" => assert_eq!(bodies(&another.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]),
            "document" => assert_eq!(another.document(&run).await.unwrap().unwrap().revision, Revision(2)),
            "watch" => {
                let mut watch = another.watch(&run, Revision(1)).await.unwrap();
                assert_eq!(bodies(&watch.next().await.unwrap()), ["2"]);
            }
            "commit" => {
                let late = another.commit(change(&run, first, "late")).await.unwrap_err();
                assert!(matches!(late, CommitError::Conflict { found: Revision(2), .. }), "{late}");
            }
            _ => assert_eq!(another.settle(&run, store::WriteId::new()).await.unwrap(), None),
        }
        assert_eq!(client.messages(&run).await, 2, "{reader} made the copy");
        assert_eq!(bodies(&watch.next().await.unwrap()), ["2"], "a watcher is told by {reader}");
        let position = another.load(&run).await.unwrap().unwrap().position;
        another.commit(change(&run, position, "3")).await.unwrap();
        assert_eq!(bodies(&another.entries(&run, Revision(0)).await.unwrap()), ["1", "2", "3"]);
        assert_eq!(another.intact(&run).await.unwrap(), Revision(3));
    }
}

/// Whoever wrote over it may have seen it; the journal has not, and must.
#[tokio::test]
async fn a_commit_that_others_wrote_over_before_it_had_a_copy_is_not_lost() {
    for has_seen in [true, false] {
        let server = Server::start();
        let (store, run) = (direct(&server), run("peer.global.cycle.1"));
        let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
        stop_between(&Proxy::to(&server).await, &run, first, "2").await;
        let client = Client::of(&server).await;
        let theirs = if has_seen {
            let (sequence, _) = client.get(run.as_str()).await;
            client.update(&run, "rubbish", sequence).await
        } else {
            client.put(&run, "rubbish").await
        };
        let loaded = store.load(&run).await.unwrap().unwrap();
        assert_eq!((loaded.position.revision, loaded.foreign.unwrap().sequence), (Revision(2), theirs));
        assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
    }
}

#[tokio::test]
async fn whoever_was_stopped_between_settles_its_write_as_landed() {
    let server = Server::start();
    let (wire, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    let store = stops_between(&wire).await;
    let commit = change(&run, Position::absent(), "1");
    let id = commit.write_id;
    let stopped = store.commit(commit).await.unwrap_err();
    assert!(matches!(stopped, CommitError::Unknown { .. }), "{stopped:?}");
    wire.refuse(0);
    let settled = store.settle(&run, id).await.unwrap().unwrap();
    store.commit(change(&run, settled, "2")).await.unwrap();
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// Its entry is true, for nothing can take it back; but it is for the next engine to act on.
#[tokio::test]
async fn an_engine_that_is_replaced_between_is_told_so() {
    let server = Server::start();
    let (wire, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    let old = Showing(testkit::nats::any(wire.store(Duration::from_secs(60))));
    let held = old.lock_engine(&run).await.unwrap().epoch();
    let first = old.commit(change(&run, Position::absent(), "1")).await.unwrap();
    let client = Client::of(&server).await;
    let (entered, _) = client.get(run.as_str()).await;
    wire.refuse(u32::MAX);
    let commit = Commit { epoch: Some(held), ..change(&run, first, "2") };
    let writing = tokio::spawn({
        let old = old.clone();
        async move { old.commit(commit).await }
    });
    while client.get(run.as_str()).await.0 == entered {}
    let new = direct(&server).lock_engine(&run).await.unwrap();
    wire.refuse(0);
    let told = writing.await.unwrap().unwrap_err();
    assert!(matches!(told, CommitError::Fenced { held: Epoch(1), by: Epoch(2) }), "{told:?}");
    let loaded = direct(&server).load(&run).await.unwrap().unwrap();
    assert_eq!((loaded.position.revision, loaded.epoch), (Revision(2), new.epoch()));
    assert_eq!(bodies(&loaded.tail), ["1", "2"]);
}

/// Between its look at the journal and that at the bucket, more entries came than the bucket keeps.
#[tokio::test]
async fn whoever_is_slow_while_the_bucket_forgets_looks_again() {
    let server = Server::start();
    let (wire, run) = (Proxy::to(&server).await, run("peer.global.cycle.1"));
    let slow = Showing(testkit::nats::any(wire.store(Duration::from_secs(60))));
    let mut position = slow.commit(change(&run, Position::absent(), "1")).await.unwrap();
    wire.hold_at("MSG.GET.KV_");
    let looking = tokio::spawn({
        let (slow, run) = (slow.clone(), run.clone());
        async move { slow.load(&run).await }
    });
    wire.holds_something().await;
    let others = direct(&server);
    for number in 2..=60 {
        position = others.commit(change(&run, position, &number.to_string())).await.unwrap();
    }
    wire.let_go().await;
    let loaded = looking.await.unwrap().unwrap().unwrap();
    assert_eq!((loaded.position, loaded.foreign), (position, None));
}

#[tokio::test]
async fn an_entry_that_was_settled_as_lost_does_not_land_later() {
    for creates in [false, true] {
        let server = Server::start();
        let wire = Proxy::to(&server).await;
        let (store, run) = (Showing(testkit::nats::any(wire.store(Duration::from_millis(600)))), run("late"));
        // So that the bucket is there.
        store.commit(change(&crate::contract::run("other"), Position::absent(), "")).await.unwrap();
        let mut position = Position::absent();
        if !creates {
            position = store.commit(change(&run, position, "1")).await.unwrap();
        }
        wire.hold_writes();
        let commit = change(&run, position, "late");
        let id = commit.write_id;
        let error = store.commit(commit).await.unwrap_err();
        assert!(matches!(error, CommitError::Unknown { .. }), "{error:?}");
        let lines = wire.cut();
        let settled = loop {
            if let Ok(settled) = store.settle(&run, id).await {
                break settled;
            }
        };
        assert_eq!(settled, None);
        let answer = deliver(lines).await;
        assert!(answer.contains("wrong last sequence"), "{answer}");
        let loaded = direct(&server).load(&run).await.unwrap();
        assert_eq!(
            loaded.map(|loaded| loaded.position),
            (!creates).then_some(position),
            "a fence is no commit"
        );
        store.commit(change(&run, position, "next")).await.unwrap();
        let entries = store.entries(&run, Revision(0)).await.unwrap();
        assert_eq!(bodies(&entries).last(), Some(&"next"));
        assert!(!bodies(&entries).contains(&"late"));
    }
}

/// What stands there cannot be said again with anything added to it.
#[tokio::test]
async fn a_write_over_an_entry_that_fills_a_whole_message_can_be_settled() {
    const LARGEST: usize = 65536;
    let server = Server::start_with(&format!("max_payload: {LARGEST}"));
    let wire = Proxy::to(&server).await;
    let (store, run) =
        (Showing(testkit::nats::any(wire.store(Duration::from_millis(600)))), run("peer.global.cycle.1"));
    store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    let client = Client::of(&server).await;
    let subject = format!("$KV.{BUCKET}.{run}");
    let huge = client.context.publish(subject, vec![b'x'; LARGEST].into()).await.unwrap();
    let huge = huge.await.unwrap().sequence;
    let seen = store.load(&run).await.unwrap().unwrap().position;
    wire.hold_writes();
    let commit = change(&run, seen, "late");
    let id = commit.write_id;
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, CommitError::Unknown { .. }), "{error:?}");
    let lines = wire.cut();
    let settled = loop {
        match store.settle(&run, id).await {
            Ok(settled) => break settled,
            Err(error) => assert!(!format!("{error:?}").contains("MaxPayload"), "{error:?}"),
        }
    };
    assert_eq!(settled, None);
    let answer = deliver(lines).await;
    assert!(answer.contains("wrong last sequence"), "{answer}");
    let (_, kept) = client.get(&format!("recovery.{run}.{huge}")).await;
    let digest = Digest::of(vec![b'x'; LARGEST]);
    assert!(String::from_utf8_lossy(&kept).contains(digest.as_str()), "{kept:?}");
    assert_eq!(store.blob(&digest).await.unwrap().unwrap().len(), LARGEST);
    let seen = store.load(&run).await.unwrap().unwrap();
    assert!(seen.foreign.is_some(), "it is still to be settled");
    store.commit(change(&run, seen.position, "2")).await.unwrap();
    assert_eq!(bodies(&store.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

#[tokio::test]
async fn an_entry_that_landed_unheard_is_recognised_and_no_conflict_with_ourselves() {
    let server = Server::start();
    let wire = Proxy::to(&server).await;
    let (store, run) =
        (Showing(testkit::nats::any(wire.store(Duration::from_secs(60)))), run("peer.global.cycle.1"));
    let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    wire.mute_writes();
    let (writer, name) = (store.clone(), run.clone());
    let writing = tokio::spawn(async move { writer.commit(change(&name, first, "2")).await });
    // Whoever looks makes the copy that its writer cannot make.
    let direct = direct(&server);
    while direct.newest(&run).await.unwrap() != Some(Revision(2)) {}
    wire.cut();
    let second = writing.await.unwrap().unwrap();
    assert_eq!(second, direct.load(&run).await.unwrap().unwrap().position);
    assert_eq!(bodies(&direct.entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

/// Replicated servers say so now and then to a lone writer whose sequence is right.
#[tokio::test]
async fn an_entry_that_conflicts_with_nobody_is_waited_out_or_an_outage_and_never_a_conflict() {
    let server = Server::start();
    let run = run("peer.global.cycle.1");
    let first = direct(&server).commit(change(&run, Position::absent(), "1")).await.unwrap();
    let wire = Proxy::to(&server).await;
    let patient = Showing(testkit::nats::any(wire.store(Duration::from_secs(60))));
    wire.refuse_in_bucket(3);
    let second = patient.commit(change(&run, first, "2")).await.unwrap();
    assert_eq!((second.revision, wire.refusals()), (Revision(2), 0), "all of them were met");
    let impatient = Showing(testkit::nats::any(wire.store(Duration::from_millis(300))));
    wire.refuse_in_bucket(u32::MAX);
    let error = impatient.commit(change(&run, second, "3")).await.unwrap_err();
    assert!(matches!(error, CommitError::Unavailable(_)), "{error:?}");
    assert_eq!(bodies(&direct(&server).entries(&run, Revision(0)).await.unwrap()), ["1", "2"]);
}

#[tokio::test]
async fn what_was_marked_between_a_checkpoint_and_its_copy_is_kept() {
    let server = Server::start();
    let (store, run) = (direct(&server), run("peer.global.cycle.1"));
    let mark =
        |path: &str| ViewMark { path: path.to_owned(), revision: Revision(1), digest: Digest::of(path) };
    let first = store.commit(change(&run, Position::absent(), "1")).await.unwrap();
    store.mark_views(&run, vec![mark("before")]).await.unwrap();
    let wire = Proxy::to(&server).await;
    let other = wire.store(Duration::from_secs(60));
    other.open().await.unwrap();
    wire.hold_writes();
    let checkpoint = Commit { snapshot: Some("state".to_owned()), ..change(&run, first, "2") };
    let checkpoint = Commit { views: vec![mark("with")], ..checkpoint };
    let committing = tokio::spawn(async move { Showing(testkit::nats::any(other)).commit(checkpoint).await });
    wire.holds_something().await;
    store.mark_views(&run, vec![mark("between")]).await.unwrap();
    wire.let_go().await;
    let second = committing.await.unwrap().unwrap();
    for reader in [&store, &direct(&server)] {
        let loaded = reader.load(&run).await.unwrap().unwrap();
        assert_eq!(loaded.position, second);
        let paths: Vec<_> = loaded.views.iter().map(|view| view.path.as_str()).collect();
        assert_eq!(paths, ["before", "between", "with"]);
    }
}

#[tokio::test]
async fn whoever_is_always_too_late_to_make_a_copy_gives_up_in_time() {
    let server = Server::start();
    let (others, run) = (direct(&server), run("peer.global.cycle.1"));
    let first = others.commit(change(&run, Position::absent(), "1")).await.unwrap();
    stop_between(&Proxy::to(&server).await, &run, first, "2").await;
    let wire = Proxy::to(&server).await;
    let settings = wire.store(Duration::ZERO).settings().clone();
    // No time at all for races, and enough for answers.
    let patience = Patience { answer: Duration::from_secs(30), ..settings.patience };
    let store = NatsStore::new(NatsSettings { patience, ..settings });
    store.open().await.unwrap();
    wire.hold_at("HPUB callboard.run.");
    let (looked, ()) = tokio::join!(store.load(&run), async {
        wire.holds_something().await;
        let second = others.load(&run).await.unwrap().unwrap().position;
        others.commit(change(&run, second, "3")).await.unwrap();
        wire.let_go().await;
    });
    let Err(ReadError::Unavailable(Unavailable::Server { source, .. })) = looked else {
        panic!("{looked:?}")
    };
    assert_eq!(source.to_string(), "others write to the run without pause");
    assert_eq!(store.load(&run).await.unwrap().unwrap().position.revision, Revision(3));
}
