//! A server that dies under writers: what was acknowledged is in the journal and in the bucket, once.

use store::Store as _;

use crate::Documents;
use crate::client::Client;
use crate::contract::processes::expect_acknowledged;
use crate::contract::roles::Player;
use crate::contract::{Backend as _, run};

#[tokio::test]
async fn a_server_killed_under_eight_writers_of_one_document_loses_and_doubles_nothing() {
    let (mut backend, run) = (Documents::fresh(), run("peer.global.cycle.1"));
    let mut players: Vec<_> = (0..8).map(|_| Player::start(&backend, "write", &run, u64::MAX)).collect();
    let mut acknowledged = Vec::new();
    for round in 0..4 {
        for player in &mut players {
            acknowledged.extend((0..3).map(|_| player.hear().expect("a writer gave up")));
        }
        if round < 3 {
            backend.0.kill();
            backend.0.restart();
        }
    }
    for player in players {
        acknowledged.extend(player.kill());
    }
    let store = backend.store();
    let newest = expect_acknowledged(&store, &run, &acknowledged).await;
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.foreign, None, "what stands in the bucket is what the journal says");
    assert_eq!((store.intact(&run).await.unwrap(), loaded.position.revision), (newest, newest));
    let (_, shown) = Client::of(&backend.0).await.get_json(&run).await;
    assert_eq!(shown["callboard"]["head"]["revision"], newest.0);
}
