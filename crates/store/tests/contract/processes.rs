//! Promises that need several processes, and `kill -9`.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use protocol::{Epoch, Revision, RunId};
use store::{Commit, EngineLockError, Position, Store, WriteId};

use super::roles::Player;
use super::{Backend, change, item, part, run};

pub(crate) async fn sixteen_writers_lose_and_double_nothing<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("counted"));
    let parts = vec![part("count", "0")];
    store.commit(Commit { parts, ..change(&run, Position::absent(), "opened") }).await.unwrap();
    let players: Vec<Player> = (0..16).map(|_| Player::start(&backend, "count", &run, 100)).collect();
    let lost: u64 = players.into_iter().map(|player| player.succeed()[0].parse::<u64>().unwrap()).sum();
    assert!(lost > 0, "nobody met anybody");
    let entries = store.entries(&run, Revision(1)).await.unwrap();
    let distinct: BTreeSet<&str> = entries.iter().map(|entry| entry.body.as_str()).collect();
    assert_eq!((entries.len(), distinct.len()), (1600, 1600));
    assert_eq!(store.parts_at(&run, Revision(1601)).await.unwrap(), [part("count", "1600")]);
    assert_eq!(store.load(&run).await.unwrap().unwrap().position.revision, Revision(1601));
}

pub(crate) async fn a_second_engine_is_refused_until_the_first_is_killed<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("led"));
    let mut engine = Player::start(&backend, "lead", &run, 0);
    assert_eq!(engine.hear().as_deref(), Some("1"));
    let refused = store.lock_engine(&run).await.unwrap_err();
    let EngineLockError::Held { pid, ref host, .. } = refused else { panic!("{refused}") };
    assert_eq!(pid, engine.pid());
    assert!(!host.is_empty());
    engine.kill();
    assert_eq!(store.lock_engine(&run).await.unwrap().epoch(), Epoch(2));
}

/// Agents outlive the engine; what it held must not live on in them.
pub(crate) async fn a_child_of_the_engine_does_not_keep_the_lead<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("led"));
    let lock = store.lock_engine(&run).await.unwrap();
    let mut child = Command::new("sh").args(["-c", "read forever"]).stdin(Stdio::piped()).spawn().unwrap();
    drop(lock);
    assert_eq!(store.lock_engine(&run).await.unwrap().epoch(), Epoch(2));
    drop(child.stdin.take());
    child.wait().unwrap();
}

pub(crate) async fn a_watcher_sees_every_commit_though_writers_are_killed<B: Backend>(backend: B) {
    const LAST: u64 = 1000;
    let run = run("watched");
    let mut watcher = Player::start(&backend, "watch", &run, LAST);
    assert_eq!(watcher.hear().as_deref(), Some("ready"));
    let write = || Player::start(&backend, "write", &run, LAST);
    let mut writers = vec![write(), write(), write()];
    // The watcher sets the pace: every so often one of the writers dies in the middle of what it does.
    for revision in 1..=LAST {
        assert_eq!(watcher.hear(), Some(revision.to_string()));
        if revision % 50 == 0 {
            writers.swap_remove(fastrand::usize(..writers.len())).kill();
            writers.push(write());
        }
    }
    watcher.succeed();
}

pub(crate) async fn killed_writers_leave_every_acknowledged_commit<B: Backend>(backend: B) {
    let run = run("killed");
    let write = || Player::start(&backend, "write", &run, u64::MAX);
    let mut writers = vec![write(), write(), write()];
    let mut acknowledged = Vec::new();
    for _ in 0..40 {
        let mut writer = writers.swap_remove(fastrand::usize(..writers.len()));
        // Its first words say that it works; when the kill comes it is anywhere between two of them.
        acknowledged.extend(writer.hear());
        for _ in 0..fastrand::usize(..5) {
            acknowledged.extend(writer.hear());
        }
        acknowledged.extend(writer.kill());
        writers.push(write());
        whole(&backend.store(), &run).await;
    }
    for writer in writers {
        acknowledged.extend(writer.kill());
    }

    let store = backend.store();
    whole(&store, &run).await;
    assert!(acknowledged.len() >= 40);
    expect_acknowledged(&store, &run, &acknowledged).await;
    backend.verify();
}

/// Demands of what writers said (`write` in [`super::roles`]) that every commit is where it was said to be, none twice, and
/// that the entries are those of their revisions. Tells the last one.
pub(crate) async fn expect_acknowledged(
    store: &impl Store,
    run: &RunId,
    acknowledged: &[String],
) -> Revision {
    let mut revisions = BTreeSet::new();
    for line in acknowledged {
        let (revision, id) = line.split_once(' ').unwrap();
        let id: WriteId = serde_json::from_value(id.into()).unwrap();
        let settled = store.settle(run, id).await.unwrap().expect("an acknowledged commit is there");
        assert_eq!(settled.revision.to_string(), revision);
        assert!(revisions.insert(settled.revision), "two commits made revision {revision}");
    }
    let entries = store.entries(run, Revision(0)).await.unwrap();
    assert!(entries.len() >= revisions.len());
    for (entry, revision) in entries.iter().zip(1..) {
        assert_eq!((entry.revision.0, entry.body.clone()), (revision, revision.to_string()));
    }
    entries.last().unwrap().revision
}

/// Demands that the newest commit is there with all its pieces, and no piece of another.
async fn whole(store: &impl Store, run: &RunId) {
    let loaded = store.load(run).await.unwrap().unwrap();
    let revision = loaded.position.revision;
    assert_eq!(loaded.snapshot.unwrap().body, revision.to_string());
    assert_eq!(loaded.tail, []);
    assert_eq!(loaded.outbox, [item(&revision.to_string(), "{}")]);
    let parts = store.parts_at(run, revision).await.unwrap();
    assert!(parts.len() == 1 && parts[0].body.starts_with(&format!("{revision} ")));
}
