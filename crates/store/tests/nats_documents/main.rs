//! The shared backend with documents: the same contract once more, with every commit an entry of a bucket; and what is true
//! of such runs alone.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../contract/mod.rs"]
mod contract;
#[allow(dead_code, reason = "written for tests that need more of it")]
#[path = "../nats/servers.rs"]
mod servers;
#[allow(dead_code, reason = "written for tests that need more of it")]
#[path = "../nats/wire.rs"]
mod wire;

mod bucket;
mod client;
mod copies;
mod documents;
mod foreign;
mod outages;
mod showing;

use std::ffi::{OsStr, OsString};

use contract::Backend;
use servers::Server;
use showing::Showing;
use store::{AnyStore, COMMIT_LIMIT, NatsStore};

/// A server whose store is used by runs that show their documents.
struct Documents(Server);

impl Backend for Documents {
    type Store = Showing;
    const LIMIT: usize = COMMIT_LIMIT;

    fn fresh() -> Self {
        Self(Server::start())
    }

    fn address(&self) -> OsString {
        self.0.address().into()
    }

    fn attach(address: &OsStr) -> Showing {
        Showing(AnyStore::Nats(NatsStore::new(servers::settings(address.to_str().unwrap()))))
    }

    /// The server has no check of its own; the suite has compared all that was acknowledged.
    fn verify(&self) {}
}

contract_suite!(Documents);
