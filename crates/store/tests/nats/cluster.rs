//! Three servers that keep everything three times.

use std::ffi::{OsStr, OsString};

use store::{COMMIT_LIMIT, NatsSettings, NatsStore};

use crate::contract::Backend;
use crate::outages::Writers;
use crate::servers::Server;

struct Three([Server; 3]);

impl Backend for Three {
    type Store = NatsStore;
    const LIMIT: usize = COMMIT_LIMIT;

    fn fresh() -> Self {
        Self(Server::start_three())
    }

    fn address(&self) -> OsString {
        self.0.each_ref().map(Server::address).join(",").into()
    }

    fn attach(address: &OsStr) -> NatsStore {
        let settings: NatsSettings = address.to_str().unwrap().parse().unwrap();
        NatsStore::new(settings)
    }

    fn verify(&self) {}
}

/// Children play with the same addresses, and find the streams made.
#[tokio::test]
async fn servers_killed_under_eight_writers_lose_and_double_nothing() {
    let mut three = Three::fresh();
    let notes = three.store().open().await.unwrap().to_vec();
    assert_eq!(notes, [], "three replicas of everything");
    let mut writers = Writers::start(&three);
    for number in [0, 1, 2] {
        writers.go_on();
        three.0[number].kill();
        writers.go_on();
        three.0[number].restart();
    }
    writers.go_on();
    for server in &mut three.0 {
        server.kill();
    }
    for server in &mut three.0 {
        server.restart();
    }
    writers.go_on();
    // One that is silent and not gone: whoever talks to it must find out.
    three.0[0].hold();
    writers.go_on();
    three.0[0].release();
    writers.go_on();
    writers.check(three.store()).await;
}
