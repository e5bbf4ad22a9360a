//! Clusters of three servers.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use futures_util::future::join_all;
use protocol::Revision;
use store::{COMMIT_LIMIT, CommitError, NatsSettings, NatsStore, Position, ReadError, Store as _, Timeouts};
use testkit::nats::{Server, settings};

use crate::contract::{Backend, entry_commit, run};
use crate::outages::Writers;

/// Three servers with three replicas of every stream.
struct ThreeServers([Server; 3]);

impl Backend for ThreeServers {
    type Store = NatsStore;
    const LIMIT: usize = COMMIT_LIMIT;

    fn fresh() -> Self {
        Self(Server::start_cluster())
    }

    fn address(&self) -> OsString {
        self.0.each_ref().map(Server::address).join(",").into()
    }

    fn attach(address: &OsStr) -> NatsStore {
        NatsStore::new(NatsSettings { replicas: 3, ..settings(address.to_str().unwrap()) })
    }

    /// The servers have no check of their own.
    fn verify(&self) {}
}

impl ThreeServers {
    /// Starts three servers and creates all streams, with three replicas each.
    async fn with_streams() -> Self {
        let cluster = Self::fresh();
        let warnings = cluster.store().open().await.unwrap().to_vec();
        assert_eq!(warnings, [], "every stream has three replicas");
        cluster
    }

    /// Returns which server leads the stream of the journal: the number in its name, which is `n0`, `n1` or `n2`.
    async fn leader(&self) -> usize {
        loop {
            let client =
                async_nats::connect(self.0.each_ref().map(Server::address).as_slice()).await.unwrap();
            let journal = async_nats::jetstream::new(client).get_stream("callboard-journal").await;
            let leader = journal.ok().and_then(|journal| journal.cached_info().cluster.clone()?.leader);
            if let Some(number) = leader.and_then(|name| name.strip_prefix('n')?.parse().ok()) {
                return number;
            }
        }
    }
}

#[tokio::test]
async fn a_cluster_killed_under_eight_writers_loses_and_doubles_nothing() {
    let mut cluster = ThreeServers::with_streams().await;
    let mut writers = Writers::start(&cluster);
    writers.wait_for_commits();
    let leader = cluster.leader().await;
    cluster.0[leader].kill();
    writers.wait_for_commits();
    cluster.0[leader].restart();
    writers.wait_for_commits();
    // Kill both followers: the leader accepts writes and cannot replicate them.
    let leader = cluster.leader().await;
    let followers = [(leader + 1) % 3, (leader + 2) % 3];
    followers.iter().for_each(|follower| cluster.0[*follower].kill());
    followers.iter().for_each(|follower| cluster.0[*follower].restart());
    writers.wait_for_commits();
    for server in &mut cluster.0 {
        server.kill();
    }
    for server in &mut cluster.0 {
        server.restart();
    }
    writers.wait_for_commits();
    // Suspend the leader: its connections stay open, so clients must notice that it does not answer.
    let leader = cluster.leader().await;
    cluster.0[leader].suspend();
    writers.wait_for_commits();
    cluster.0[leader].resume();
    writers.wait_for_commits();
    writers.check(&cluster.store()).await;
}

/// Kills both followers, so that the leader accepts writes that it cannot replicate.
#[tokio::test]
async fn writes_without_a_majority_are_resolved_and_land_at_most_once() {
    let mut cluster = ThreeServers::with_streams().await;
    let with_default_timeouts = cluster.store();
    let settings = with_default_timeouts.settings();
    let timeouts = Timeouts {
        request: Duration::from_millis(500),
        outage: Duration::from_millis(1500),
        ..settings.timeouts
    };
    let store = NatsStore::new(NatsSettings { timeouts, ..settings.clone() });
    let runs: Vec<_> = (0..8).map(|number| run(&format!("open-{number}"))).collect();
    let mut first_positions = Vec::new();
    for run in &runs {
        first_positions
            .push(with_default_timeouts.commit(entry_commit(run, Position::absent(), "1")).await.unwrap());
    }
    store.open().await.unwrap();

    let leader = cluster.leader().await;
    for server in cluster.0.iter_mut().enumerate().filter_map(|(n, server)| (n != leader).then_some(server)) {
        server.kill();
    }
    let commits = runs.iter().zip(&first_positions).map(async |(run, first)| {
        let commit = entry_commit(run, *first, "2");
        let id = commit.write_id;
        (id, store.commit(commit).await.unwrap_err())
    });
    let outcomes = join_all(commits).await;
    let is_unknown = |error: &CommitError| matches!(error, CommitError::OutcomeUnknown { .. });
    assert!(outcomes.iter().any(|(_, error)| is_unknown(error)), "{outcomes:?}");
    for server in cluster.0.iter_mut().enumerate().filter_map(|(n, server)| (n != leader).then_some(server)) {
        server.restart();
    }

    for ((run, first), (id, error)) in runs.iter().zip(first_positions).zip(outcomes) {
        let landed = loop {
            match store.resolve_unknown_write(run, id).await {
                Ok(landed) => break landed,
                Err(ReadError::Unavailable(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert!(landed.is_none() || is_unknown(&error), "landed though reported as not written: {error:?}");
        with_default_timeouts.commit(entry_commit(run, landed.unwrap_or(first), "3")).await.unwrap();
        let entries = with_default_timeouts.entries(run, Revision(0)).await.unwrap();
        let bodies: Vec<_> = entries.iter().map(|entry| entry.body.as_str()).collect();
        assert_eq!(bodies, if landed.is_some() { vec!["1", "2", "3"] } else { vec!["1", "3"] });
    }
}
