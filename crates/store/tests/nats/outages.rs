//! Servers that are suspended, killed and restarted: nothing acknowledged is lost or doubled, and every wait ends.

use std::time::Duration;

use protocol::{Revision, RunId};
use store::{CommitError, NatsSettings, NatsStore, Position, ReadError, Store, Timeouts, Unavailable};
use testkit::nats::Server;

use crate::contract::child_tasks::ChildProcess;
use crate::contract::processes::expect_acknowledged;
use crate::contract::{Backend, entry_commit, run};

/// A store with short timeouts.
fn with_short_timeouts(server: &Server) -> NatsStore {
    let timeouts = Timeouts {
        request: Duration::from_millis(300),
        outage: Duration::from_millis(600),
        ..Timeouts::default()
    };
    NatsStore::new(NatsSettings { timeouts, ..server.settings() })
}

#[tokio::test]
async fn a_suspended_server_is_waited_for_until_the_outage_timeout() {
    let server = Server::start();
    let (store, run) = (with_short_timeouts(&server), run("r"));
    store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    server.suspend();
    let error = store.load(&run).await.unwrap_err();
    let ReadError::Unavailable(Unavailable::Server { server: named, .. }) = &error else {
        panic!("{error:?}")
    };
    assert!(named.contains(&server.address()));
    server.resume();
    assert_eq!(store.load(&run).await.unwrap().unwrap().position.revision, Revision(1));
}

#[tokio::test]
async fn an_unacknowledged_write_that_landed_is_found() {
    let server = Server::start();
    let (store, run) = (with_short_timeouts(&server), run("r"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    server.suspend();
    let commit = entry_commit(&run, first, "2");
    let id = commit.write_id;
    let error = store.commit(commit).await.unwrap_err();
    assert!(matches!(error, CommitError::OutcomeUnknown { write_id, .. } if write_id == id), "{error:?}");
    // The write is in the server's socket.
    server.resume();
    let position = store.resolve_unknown_write(&run, id).await.unwrap().unwrap();
    assert_eq!(position.revision, Revision(2));
    store.commit(entry_commit(&run, position, "3")).await.unwrap();
    let entries = store.entries(&run, Revision(0)).await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.body.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_watch_survives_a_restart_of_the_server() {
    let mut server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    let first = store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();
    server.kill();
    server.restart();
    NatsStore::new(server.settings()).commit(entry_commit(&run, first, "2")).await.unwrap();
    assert_eq!(watch.next().await.unwrap()[0].body, "2");
}

/// A caller that waits for several things drops the call again and again.
#[tokio::test]
async fn a_watch_whose_calls_are_dropped_notices_a_deleted_journal() {
    let server = Server::start();
    let (store, run) = (NatsStore::new(server.settings()), run("r"));
    store.commit(entry_commit(&run, Position::absent(), "1")).await.unwrap();
    let mut watch = store.watch(&run, Revision(1)).await.unwrap();
    let client = async_nats::connect(server.address()).await.unwrap();
    async_nats::jetstream::new(client).delete_stream("callboard-journal").await.unwrap();
    for _ in 0..10 {
        if let Ok(entries) = tokio::time::timeout(Duration::from_millis(300), watch.next()).await {
            let error = entries.unwrap_err();
            assert!(matches!(error, ReadError::Unavailable(Unavailable::StreamDeleted { .. })), "{error:?}");
            return;
        }
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(10)).await;
        tokio::time::resume();
    }
    panic!("the watch waits on a deleted stream");
}

#[tokio::test]
async fn a_server_killed_under_eight_writers_loses_and_doubles_nothing() {
    let mut server = Server::start();
    let mut writers = Writers::start(&server);
    for _ in 0..2 {
        writers.wait_for_commits();
        server.kill();
        server.restart();
    }
    writers.wait_for_commits();
    writers.check(&server.store()).await;
}

/// Processes that commit to one run as fast as they can, and print what was acknowledged.
pub(crate) struct Writers {
    pub(crate) run: RunId,
    children: Vec<ChildProcess>,
    acknowledged: Vec<String>,
}

impl Writers {
    pub(crate) fn start<B: Backend>(backend: &B) -> Self {
        let run = run("written");
        let children = (0..8).map(|_| ChildProcess::start(backend, "write", &run, u64::MAX)).collect();
        Self { run, children, acknowledged: Vec::new() }
    }

    /// Waits until each of them has been acknowledged once more.
    pub(crate) fn wait_for_commits(&mut self) {
        for child in &mut self.children {
            self.acknowledged.push(child.next_line().expect("a writer gave up"));
        }
    }

    /// Kills them, and checks that every acknowledged commit is there exactly once. Returns the newest revision.
    pub(crate) async fn check(self, store: &impl Store) -> Revision {
        let Self { run, children, mut acknowledged } = self;
        for child in children {
            acknowledged.extend(child.kill());
        }
        let newest = expect_acknowledged(store, &run, &acknowledged).await;
        assert_eq!(store.last_intact_revision(&run).await.unwrap(), newest);
        newest
    }
}
