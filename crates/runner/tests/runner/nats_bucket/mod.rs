//! Peer cycles on NATS, with other clients of the bucket that has their documents.

mod client;
mod edits;
mod engine;
mod external_writes;
mod python_client;

use protocol::PROTOCOLS;
use runner::{Clock, Journal};
use store::{AnyStore, NatsSettings, NatsStore};
use tempfile::TempDir;
use testkit::harness::peer_cycle::start_planning_on;
use testkit::nats::{self, Server};

use client::Client;

/// A peer cycle in its first phase on a server of its own, and another client.
struct Fixture {
    server: Server,
    store: AnyStore,
    cycle: Journal,
    client: Client,
    directory: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let (server, directory) = (Server::start(), tempfile::tempdir().unwrap());
        let store = nats::any_store(NatsStore::new(server.settings()));
        let cycle = start_planning_on(&store, directory.path()).await;
        let client = Client::of(&server, &cycle.run).await;
        Self { server, store, cycle, client, directory }
    }

    /// Loads the cycle on a connection of its own, as another process would.
    async fn load_again(&self) -> Journal {
        let store = nats::any_store(NatsStore::new(self.settings()));
        Journal::load(&store, &Clock::system(), PROTOCOLS, &self.cycle.run).await.unwrap().unwrap()
    }

    fn settings(&self) -> NatsSettings {
        self.server.settings()
    }
}
