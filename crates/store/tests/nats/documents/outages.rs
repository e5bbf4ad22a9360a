//! Servers that are killed under writers of one document: every acknowledged commit is in the journal and in the bucket.

use std::ffi::{OsStr, OsString};

use store::{COMMIT_LIMIT, NatsSettings, NatsStore, Position, Store as _};
use testkit::nats::{self, Server};

use super::ServerWithDocuments;
use super::client::Client;
use crate::contract::{Backend, entry_commit, run};
use crate::outages::Writers;
use crate::test_store::{TestStore, address_with_documents};

/// Three servers with three replicas of the journal and the bucket.
struct ThreeServers([Server; 3]);

impl Backend for ThreeServers {
    type Store = TestStore;
    const LIMIT: usize = COMMIT_LIMIT;
    // Other programs may change a document in the bucket without an entry.
    const ENTRIES_DESCRIBE_EVERY_CHANGE: bool = false;

    fn fresh() -> Self {
        Self(Server::start_cluster())
    }

    fn address(&self) -> OsString {
        address_with_documents(&self.0.each_ref().map(Server::address).join(","))
    }

    fn attach(address: &OsStr) -> TestStore {
        TestStore::attach(address)
    }

    fn verify(&self) {}
}

/// Checks the journal, and that the bucket has its newest commit.
async fn check(writers: Writers, store: &TestStore, server: &Server) {
    let run = writers.run.clone();
    let newest = writers.check(store).await;
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!((loaded.position.revision, loaded.external_write), (newest, None));
    let (_, document) = Client::of(server).await.get_json(&run).await;
    assert_eq!(document["callboard"]["head"]["revision"], newest.0);
}

#[tokio::test]
async fn a_server_killed_under_eight_writers_of_one_document_loses_and_doubles_nothing() {
    let mut backend = ServerWithDocuments::fresh();
    let mut writers = Writers::start(&backend);
    for _ in 0..2 {
        writers.wait_for_commits();
        backend.0.kill();
        backend.0.restart();
    }
    writers.wait_for_commits();
    check(writers, &backend.store(), &backend.0).await;
}

#[tokio::test]
async fn a_cluster_killed_under_eight_writers_of_one_document_loses_and_doubles_nothing() {
    let mut cluster = ThreeServers::fresh();
    // The first store and the first document create the streams and the bucket with three replicas.
    let addresses = cluster.0.each_ref().map(Server::address).join(",");
    let settings = NatsSettings { replicas: 3, ..nats::settings(&addresses) };
    let first = TestStore::with_documents(NatsStore::new(settings));
    first.commit(entry_commit(&run("peer.global.cycle.2"), Position::absent(), "1")).await.unwrap();
    let bucket = Client::of(&cluster.0[0]).await.bucket().await;
    assert_eq!(bucket.cached_info().config.num_replicas, 3);
    let mut writers = Writers::start(&cluster);
    writers.wait_for_commits();
    // One server: a majority is left.
    cluster.0[0].kill();
    writers.wait_for_commits();
    cluster.0[0].restart();
    // All of them.
    cluster.0.iter_mut().for_each(Server::kill);
    cluster.0.iter_mut().for_each(Server::restart);
    writers.wait_for_commits();
    check(writers, &cluster.store(), &cluster.0[1]).await;
}
