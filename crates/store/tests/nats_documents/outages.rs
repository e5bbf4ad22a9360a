//! A server that dies under writers: what was acknowledged is in the journal and in the bucket, once.

use std::collections::BTreeSet;

use protocol::Revision;
use store::{Store as _, WriteId};

use crate::Documents;
use crate::client::Client;
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
    let mut revisions = BTreeSet::new();
    for line in &acknowledged {
        let (revision, id) = line.split_once(' ').unwrap();
        let id: WriteId = serde_json::from_value(id.into()).unwrap();
        let settled = store.settle(&run, id).await.unwrap().expect("an acknowledged commit is there");
        assert_eq!(settled.revision.to_string(), revision);
        assert!(revisions.insert(settled.revision), "two commits made revision {revision}");
    }
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.foreign, None, "what stands in the bucket is what the journal says");
    let entries = store.entries(&run, Revision(0)).await.unwrap();
    for (entry, revision) in entries.iter().zip(1..) {
        assert_eq!((entry.revision.0, entry.body.clone()), (revision, revision.to_string()));
    }
    let newest = entries.last().unwrap().revision;
    assert_eq!((store.intact(&run).await.unwrap(), loaded.position.revision), (newest, newest));
    let (_, shown) = Client::of(&backend.0).await.get_json(&run).await;
    assert_eq!(shown["callboard"]["head"]["revision"], newest.0);
}
