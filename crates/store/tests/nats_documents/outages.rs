//! Servers that die under writers: what was acknowledged is in the journal and in the bucket, once.

use std::ffi::{OsStr, OsString};

use protocol::RunId;
use store::{COMMIT_LIMIT, NatsSettings, NatsStore, Position, Store as _};
use testkit::nats::{self, Server, settings};

use crate::Documents;
use crate::client::Client;
use crate::contract::processes::expect_acknowledged;
use crate::contract::roles::RoleProcess;
use crate::contract::{Backend, change, run};
use crate::showing::Showing;

/// Three servers that keep journal and bucket three times.
struct Three([Server; 3]);

impl Backend for Three {
    type Store = Showing;
    const LIMIT: usize = COMMIT_LIMIT;
    const ENTRIES_DESCRIBE_EVERY_CHANGE: bool = false;

    fn fresh() -> Self {
        Self(Server::start_three())
    }

    fn address(&self) -> OsString {
        self.0.each_ref().map(Server::address).join(",").into()
    }

    fn attach(address: &OsStr) -> Showing {
        let settings = NatsSettings { replicas: 3, ..settings(address.to_str().unwrap()) };
        Showing(nats::any(NatsStore::new(settings)))
    }

    fn verify(&self) {}
}

/// Waits until each writer has been acknowledged a few times more.
fn go_on(processes: &mut [RoleProcess], acknowledged: &mut Vec<String>) {
    for process in processes {
        acknowledged.extend((0..3).map(|_| process.next_line().expect("a writer gave up")));
    }
}

/// Demands what was acknowledged of the journal, once, and that the bucket says the same.
async fn check(
    store: &Showing,
    server: &Server,
    run: &RunId,
    processes: Vec<RoleProcess>,
    mut told: Vec<String>,
) {
    for process in processes {
        told.extend(process.kill());
    }
    let newest = expect_acknowledged(store, run, &told).await;
    let loaded = store.load(run).await.unwrap().unwrap();
    assert_eq!(loaded.external_write, None, "what stands in the bucket is what the journal says");
    assert_eq!((store.intact(run).await.unwrap(), loaded.position.revision), (newest, newest));
    let (_, shown) = Client::of(server).await.get_json(run).await;
    assert_eq!(shown["callboard"]["head"]["revision"], newest.0);
}

#[tokio::test]
async fn a_server_killed_under_eight_writers_of_one_document_loses_and_doubles_nothing() {
    let (mut backend, run) = (Documents::fresh(), run("peer.global.cycle.1"));
    let mut processes: Vec<_> =
        (0..8).map(|_| RoleProcess::start(&backend, "write", &run, u64::MAX)).collect();
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        go_on(&mut processes, &mut acknowledged);
        if round < 3 {
            backend.0.kill();
            backend.0.restart();
        }
    }
    check(&backend.store(), &backend.0, &run, processes, acknowledged).await;
}

#[tokio::test]
async fn servers_of_three_killed_under_eight_writers_of_one_document_lose_and_double_nothing() {
    let (mut three, run) = (Three::fresh(), run("peer.global.cycle.1"));
    // The first document makes the bucket.
    let other = crate::contract::run("peer.global.cycle.2");
    three.store().commit(change(&other, Position::absent(), "1")).await.unwrap();
    let bucket = Client::of(&three.0[0]).await.bucket().await;
    assert_eq!(bucket.cached_info().config.num_replicas, 3);
    let mut processes: Vec<_> = (0..8).map(|_| RoleProcess::start(&three, "write", &run, u64::MAX)).collect();
    let mut acknowledged = Vec::new();
    go_on(&mut processes, &mut acknowledged);
    for dying in [&[0][..], &[1], &[0, 2], &[0, 1, 2]] {
        dying.iter().for_each(|number| three.0[*number].kill());
        if dying.len() == 1 {
            go_on(&mut processes, &mut acknowledged);
        }
        dying.iter().for_each(|number| three.0[*number].restart());
        go_on(&mut processes, &mut acknowledged);
    }
    check(&three.store(), &three.0[0], &run, processes, acknowledged).await;
}
