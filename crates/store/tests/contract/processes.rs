//! Guarantees that concern several processes, and `kill -9`.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use protocol::{Epoch, Revision, RunId};
use store::{Commit, EngineLockError, Position, Store, WriteId};

use super::child_tasks::ChildProcess;
use super::{Backend, entry_commit, item, part, run};

pub(crate) async fn sixteen_writers_lose_and_duplicate_nothing<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("counted"));
    let parts = vec![part("count", "0")];
    store.commit(Commit { parts, ..entry_commit(&run, Position::absent(), "opened") }).await.unwrap();
    let processes: Vec<ChildProcess> =
        (0..16).map(|_| ChildProcess::start(&backend, "count", &run, B::COMMITS_PER_WRITER)).collect();
    let conflicts: u64 =
        processes.into_iter().map(|process| process.succeed()[0].parse::<u64>().unwrap()).sum();
    assert!(conflicts > 0, "no writer met a conflict");
    let entries = store.entries(&run, Revision(1)).await.unwrap();
    let distinct: BTreeSet<&str> = entries.iter().map(|entry| entry.body.as_str()).collect();
    let commits = 16 * B::COMMITS_PER_WRITER;
    assert_eq!((entries.len() as u64, distinct.len() as u64), (commits, commits));
    let last = Revision(1 + commits);
    assert_eq!(store.parts_at(&run, last).await.unwrap(), [part("count", &commits.to_string())]);
    assert_eq!(store.load(&run).await.unwrap().unwrap().position.revision, last);
}

pub(crate) async fn a_second_engine_is_refused_until_the_first_is_killed<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("locked"));
    let mut engine = ChildProcess::start(&backend, "lock", &run, 0);
    assert_eq!(engine.next_line().as_deref(), Some("1"));
    let refused = store.lock_engine(&run).await.unwrap_err();
    let EngineLockError::Held { pid, ref host, .. } = refused else { panic!("{refused}") };
    assert_eq!(pid, engine.pid());
    assert!(!host.is_empty());
    engine.kill();
    assert_eq!(store.lock_engine(&run).await.unwrap().epoch(), Epoch(2));
}

/// Agents outlive the engine, and must not keep its lock.
pub(crate) async fn a_child_of_the_engine_does_not_keep_the_lock<B: Backend>(backend: B) {
    let (store, run) = (backend.store(), run("locked"));
    let lock = store.lock_engine(&run).await.unwrap();
    let mut child = Command::new("sh").args(["-c", "read forever"]).stdin(Stdio::piped()).spawn().unwrap();
    drop(lock);
    assert_eq!(store.lock_engine(&run).await.unwrap().epoch(), Epoch(2));
    drop(child.stdin.take());
    child.wait().unwrap();
}

pub(crate) async fn a_watcher_sees_every_commit_although_writers_are_killed<B: Backend>(backend: B) {
    let last = 10 * B::COMMITS_PER_WRITER;
    let run = run("watched");
    let mut watcher = ChildProcess::start(&backend, "watch", &run, last);
    assert_eq!(watcher.next_line().as_deref(), Some("ready"));
    let write = || ChildProcess::start(&backend, "write", &run, last);
    let mut writers = vec![write(), write(), write()];
    // A random writer is killed and replaced, twenty times in all.
    for revision in 1..=last {
        assert_eq!(watcher.next_line(), Some(revision.to_string()));
        if revision % (last / 20) == 0 {
            writers.swap_remove(fastrand::usize(..writers.len())).kill();
            writers.push(write());
        }
    }
    watcher.succeed();
}

/// How many writers are killed.
const KILLS: usize = 20;

pub(crate) async fn every_acknowledged_commit_of_a_killed_writer_is_there<B: Backend>(backend: B) {
    let run = run("killed");
    let write = || ChildProcess::start(&backend, "write", &run, u64::MAX);
    let mut writers = vec![write(), write(), write()];
    let mut acknowledged = Vec::new();
    for _ in 0..KILLS {
        let mut writer = writers.swap_remove(fastrand::usize(..writers.len()));
        // The first line proves that it is running. The kill hits it anywhere between two lines.
        acknowledged.extend(writer.next_line());
        for _ in 0..fastrand::usize(..5) {
            acknowledged.extend(writer.next_line());
        }
        acknowledged.extend(writer.kill());
        writers.push(write());
        expect_complete(&backend.store(), &run).await;
    }
    for writer in writers {
        acknowledged.extend(writer.kill());
    }

    let store = backend.store();
    expect_complete(&store, &run).await;
    assert!(acknowledged.len() >= KILLS);
    expect_acknowledged(&store, &run, &acknowledged).await;
    backend.verify();
}

/// Checks that every commit that writers printed (task `write` in [`super::child_tasks`]) has its revision, that none has the
/// revision of another, and that entries match their revisions. Returns the last revision.
pub(crate) async fn expect_acknowledged(
    store: &impl Store,
    run: &RunId,
    acknowledged: &[String],
) -> Revision {
    let mut revisions = BTreeSet::new();
    for line in acknowledged {
        let (revision, id) = line.split_once(' ').unwrap();
        let id: WriteId = serde_json::from_value(id.into()).unwrap();
        let position =
            store.resolve_unknown_write(run, id).await.unwrap().expect("an acknowledged commit is there");
        assert_eq!(position.revision.to_string(), revision);
        assert!(revisions.insert(position.revision), "two commits made revision {revision}");
    }
    let entries = store.entries(run, Revision(0)).await.unwrap();
    assert!(entries.len() >= revisions.len());
    for (entry, revision) in entries.iter().zip(1..) {
        assert_eq!((entry.revision.0, entry.body.clone()), (revision, revision.to_string()));
    }
    entries.last().unwrap().revision
}

/// Checks that the newest commit is complete and not mixed with another.
async fn expect_complete(store: &impl Store, run: &RunId) {
    let loaded = store.load(run).await.unwrap().unwrap();
    let revision = loaded.position.revision;
    assert_eq!(loaded.snapshot.unwrap().body, revision.to_string());
    assert_eq!(loaded.tail, []);
    assert_eq!(loaded.outbox, [item(&revision.to_string(), "{}")]);
    let parts = store.parts_at(run, revision).await.unwrap();
    assert!(parts.len() == 1 && parts[0].body.starts_with(&format!("{revision} ")));
}
