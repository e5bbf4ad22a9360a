//! A run that comes from elsewhere: whole, or none.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Epoch, Revision, RunId};
use store::{
    AnyStore, CommitError, DraftError, EngineLockError, Location, NatsSettings, NatsStore, Position,
    RunWriter, Store as _,
};
use testkit::nats::{self, Proxy, Server};

use crate::contract::{change, part, run};

const ENTRIES: u64 = 40;

async fn connected(server: &Server, beside: &tempfile::TempDir) -> AnyStore {
    let beside = Location::find(beside.path(), Some(beside.path().join("store"))).unwrap();
    AnyStore::connect(server.settings(), &beside, |_| {}).await.unwrap()
}

fn fill(writer: &mut RunWriter<'_>, run: &RunId) -> Result<(), DraftError> {
    writer.blob(&b"what it was opened with".to_vec())?;
    let mut position = Position::absent();
    for number in 1..=ENTRIES {
        let mut commit = change(run, position, &format!("entry {number}"));
        commit.parts = vec![part("a", &format!("part {number}"))];
        position = writer.append(&commit)?;
    }
    writer.remember(run, jiff::Timestamp::UNIX_EPOCH, Epoch(1000))
}

/// Begins to bring the run, and is stopped half-way.
async fn leave_half(server: &Server, store: &Arc<AnyStore>, run: &RunId) {
    let client = async_nats::connect(server.address()).await.unwrap();
    let journal = async_nats::jetstream::new(client).get_stream("callboard-journal").await.unwrap();
    let bringing = tokio::spawn({
        let (store, run) = (Arc::clone(store), run.clone());
        async move { store.put_run(|writer| fill(writer, &run)).await.is_ok() }
    });
    while journal.get_info().await.unwrap().state.messages < 5 {}
    bringing.abort();
    assert!(bringing.await.is_err(), "it was quicker than we");
}

#[tokio::test]
async fn a_run_from_elsewhere_is_there_with_its_age_and_its_epoch_and_only_once() {
    let (server, beside) = (Server::start(), tempfile::tempdir().unwrap());
    let (store, run) = (connected(&server, &beside).await, run("moved"));
    store.put_run(|writer| fill(writer, &run)).await.unwrap();
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.position.revision, Revision(ENTRIES));
    assert_eq!(loaded.tail.len(), usize::try_from(ENTRIES).unwrap());
    assert_eq!(store.runs().await.unwrap()[0].created, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(store.parts_at(&run, Revision(7)).await.unwrap(), [part("a", "part 7")]);
    assert_eq!(store.intact(&run).await.unwrap(), Revision(ENTRIES));
    assert!(store.lock_engine(&run).await.unwrap().epoch() > Epoch(1000));
    let again = store.put_run(|writer| fill(writer, &run)).await.unwrap_err();
    assert!(matches!(again, DraftError::Refused(CommitError::Conflict { .. })), "{again:?}");
}

#[tokio::test]
async fn of_those_who_bring_the_same_run_at_once_one_does_and_the_others_find_it_there() {
    let (server, beside) = (Server::start(), tempfile::tempdir().unwrap());
    let (store, run) = (connected(&server, &beside).await, run("moved"));
    let bring = || store.put_run(|writer| fill(writer, &run));
    let (first, second, third) = tokio::join!(bring(), bring(), bring());
    let told = [first, second, third];
    assert_eq!(told.iter().filter(|brought| brought.is_ok()).count(), 1, "{told:?}");
    for refused in told.iter().filter_map(|brought| brought.as_ref().err()) {
        assert!(matches!(refused, DraftError::Refused(CommitError::Conflict { .. })), "{refused:?}");
    }
    assert_eq!(store.intact(&run).await.unwrap(), Revision(ENTRIES));
}

#[tokio::test]
async fn whoever_is_stopped_half_way_leaves_no_run_and_the_next_one_brings_it_whole() {
    let (server, beside) = (Server::start(), tempfile::tempdir().unwrap());
    let (store, run) = (Arc::new(connected(&server, &beside).await), run("moved"));
    leave_half(&server, &store, &run).await;
    assert!(store.runs().await.unwrap().is_empty());
    assert_eq!(store.newest(&run).await.unwrap(), None);
    let other = connected(&server, &beside).await;
    other.put_run(|writer| fill(writer, &run)).await.unwrap();
    assert_eq!(store.intact(&run).await.unwrap(), Revision(ENTRIES));
    assert_eq!(store.load(&run).await.unwrap().unwrap().tail.len(), usize::try_from(ENTRIES).unwrap());
}

#[tokio::test]
async fn whoever_comes_late_to_remove_half_a_run_does_not_remove_the_whole_one() {
    let (server, beside) = (Server::start(), tempfile::tempdir().unwrap());
    // Whoever makes the streams settles how long leases are.
    let lease = Duration::from_millis(600);
    NatsStore::new(NatsSettings { lease, ..server.settings() }).open().await.unwrap();
    let (store, run) = (Arc::new(connected(&server, &beside).await), run("moved"));
    leave_half(&server, &store, &run).await;
    let wire = Proxy::to(&server).await;
    let late = nats::any(wire.store(Duration::from_secs(60)));
    wire.hold_at("STREAM.PURGE");
    let bringing = tokio::spawn({
        let run = run.clone();
        async move { late.put_run(|writer| fill(writer, &run)).await }
    });
    wire.holds_something().await;
    while let Err(error) = store.put_run(|writer| fill(writer, &run)).await {
        assert!(matches!(error, DraftError::Led(EngineLockError::Held { .. })), "{error:?}");
    }
    wire.let_go().await;
    let refused = bringing.await.unwrap().unwrap_err();
    assert!(matches!(refused, DraftError::Refused(CommitError::Conflict { .. })), "{refused:?}");
    assert_eq!(store.intact(&run).await.unwrap(), Revision(ENTRIES));
}

#[tokio::test]
async fn the_premises_of_a_store_lead_to_its_servers_and_are_the_same_by_every_address() {
    let (server, beside) = (Server::start(), tempfile::tempdir().unwrap());
    let store = connected(&server, &beside).await;
    store.prepare_local_dir().unwrap();
    let (servers, place) = store.local_dir().shared().unwrap();
    assert!(servers.ends_with(&server.address()), "{servers}");
    let address = server.address().replace("127.0.0.1", "localhost");
    let by_name = AnyStore::connect(nats::settings(&address), &place, |_| {}).await.unwrap();
    assert_eq!(by_name.local_dir(), store.local_dir());
}
