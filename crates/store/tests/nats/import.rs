//! Importing a run: all of it, or nothing.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Epoch, Revision, RunId};
use store::{
    AnyStore, CommitError, EngineLockError, Location, NatsSettings, NatsStore, Position, RunWriteError,
    RunWriter,
};
use testkit::nats::{self, Proxy, Server};

use crate::contract::{entry_commit, part, run};

const ENTRIES: u64 = 40;

async fn connect(server: &Server, directory: &tempfile::TempDir) -> AnyStore {
    let location = Location::find(directory.path(), Some(directory.path().join("store"))).unwrap();
    AnyStore::connect(server.settings(), &location, |_| {}).await.unwrap()
}

fn fill(writer: &mut RunWriter<'_>, run: &RunId) -> Result<(), RunWriteError> {
    writer.put_blob(&b"what it was opened with".to_vec())?;
    let mut position = Position::absent();
    for number in 1..=ENTRIES {
        let mut commit = entry_commit(run, position, &format!("entry {number}"));
        commit.parts = vec![part("a", &format!("part {number}"))];
        position = writer.append(&commit)?;
    }
    writer.set_created_and_epoch(run, jiff::Timestamp::UNIX_EPOCH, Epoch(1000))
}

/// Starts an import and aborts it half-way.
async fn interrupt_import(server: &Server, store: &Arc<AnyStore>, run: &RunId) {
    let client = async_nats::connect(server.address()).await.unwrap();
    let journal = async_nats::jetstream::new(client).get_stream("callboard-journal").await.unwrap();
    let importing = tokio::spawn({
        let (store, run) = (Arc::clone(store), run.clone());
        async move { store.put_run(|writer| fill(writer, &run)).await.is_ok() }
    });
    while journal.get_info().await.unwrap().state.messages < 5 {}
    importing.abort();
    assert!(importing.await.is_err(), "the import was not interrupted");
}

#[tokio::test]
async fn an_imported_run_keeps_its_creation_time_and_epoch() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let (store, run) = (connect(&server, &directory).await, run("moved"));
    store.put_run(|writer| fill(writer, &run)).await.unwrap();
    let loaded = store.load(&run).await.unwrap().unwrap();
    assert_eq!(loaded.position.revision, Revision(ENTRIES));
    assert_eq!(loaded.tail.len(), usize::try_from(ENTRIES).unwrap());
    assert_eq!(store.runs().await.unwrap()[0].created, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(store.parts_at(&run, Revision(7)).await.unwrap(), [part("a", "part 7")]);
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(ENTRIES));
    assert!(store.lock_engine(&run).await.unwrap().epoch() > Epoch(1000));
    let again = store.put_run(|writer| fill(writer, &run)).await.unwrap_err();
    assert!(matches!(again, RunWriteError::Refused(CommitError::Conflict { .. })), "{again:?}");
}

#[tokio::test]
async fn one_of_three_concurrent_imports_of_a_run_succeeds() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let (store, run) = (connect(&server, &directory).await, run("moved"));
    let import = || store.put_run(|writer| fill(writer, &run));
    let (first, second, third) = tokio::join!(import(), import(), import());
    let outcomes = [first, second, third];
    assert_eq!(outcomes.iter().filter(|imported| imported.is_ok()).count(), 1, "{outcomes:?}");
    for refused in outcomes.iter().filter_map(|imported| imported.as_ref().err()) {
        assert!(matches!(refused, RunWriteError::Refused(CommitError::Conflict { .. })), "{refused:?}");
    }
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(ENTRIES));
}

#[tokio::test]
async fn an_interrupted_import_leaves_no_run_and_can_be_repeated() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let (store, run) = (Arc::new(connect(&server, &directory).await), run("moved"));
    interrupt_import(&server, &store, &run).await;
    assert!(store.runs().await.unwrap().is_empty());
    assert_eq!(store.newest_revision(&run).await.unwrap(), None);
    let other = connect(&server, &directory).await;
    other.put_run(|writer| fill(writer, &run)).await.unwrap();
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(ENTRIES));
    assert_eq!(store.load(&run).await.unwrap().unwrap().tail.len(), usize::try_from(ENTRIES).unwrap());
}

#[tokio::test]
async fn a_late_cleanup_of_an_import_does_not_remove_the_run() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    // The first store sets the duration of leases for all.
    let lease = Duration::from_millis(600);
    NatsStore::new(NatsSettings { lease, ..server.settings() }).open().await.unwrap();
    let (store, run) = (Arc::new(connect(&server, &directory).await), run("moved"));
    interrupt_import(&server, &store, &run).await;
    let proxy = Proxy::to(&server).await;
    let late = nats::any_store(proxy.store(Duration::from_secs(60)));
    // An import first purges what an interrupted one has left.
    proxy.delay_from("STREAM.PURGE");
    let importing = tokio::spawn({
        let run = run.clone();
        async move { late.put_run(|writer| fill(writer, &run)).await }
    });
    proxy.wait_until_delayed().await;
    while let Err(error) = store.put_run(|writer| fill(writer, &run)).await {
        assert!(matches!(error, RunWriteError::EngineLock(EngineLockError::Held { .. })), "{error:?}");
    }
    proxy.forward_delayed().await;
    let refused = importing.await.unwrap().unwrap_err();
    assert!(matches!(refused, RunWriteError::Refused(CommitError::Conflict { .. })), "{refused:?}");
    assert_eq!(store.last_intact_revision(&run).await.unwrap(), Revision(ENTRIES));
}

#[tokio::test]
async fn the_local_directory_of_a_store_is_the_same_for_every_address() {
    let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
    let store = connect(&server, &directory).await;
    store.prepare_local_dir().unwrap();
    let (servers, location) = store.local_dir().shared().unwrap();
    assert!(servers.ends_with(&server.address()), "{servers}");
    let address = server.address().replace("127.0.0.1", "localhost");
    let by_name = AnyStore::connect(nats::settings(&address), &location, |_| {}).await.unwrap();
    assert_eq!(by_name.local_dir(), store.local_dir());
}
