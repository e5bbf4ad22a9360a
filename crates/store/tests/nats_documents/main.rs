//! The shared backend with documents: the same contract once more, with every commit an entry of a bucket; and what is true
//! of such runs alone.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../contract/mod.rs"]
mod contract;

mod bucket;
mod client;
mod copies;
mod documents;
mod foreign;
mod outages;
mod showing;

use std::ffi::{OsStr, OsString};

use contract::Backend;
use showing::Showing;
use store::{COMMIT_LIMIT, NatsStore};
use testkit::nats::{self, Server, settings};

/// A server whose store is used by runs that show their documents.
struct Documents(Server);

impl Backend for Documents {
    type Store = Showing;
    const LIMIT: usize = COMMIT_LIMIT;
    const ENTRIES_DESCRIBE_EVERY_CHANGE: bool = false;

    fn fresh() -> Self {
        Self(Server::start())
    }

    fn address(&self) -> OsString {
        self.0.address().into()
    }

    fn attach(address: &OsStr) -> Showing {
        let store = NatsStore::new(settings(address.to_str().unwrap()));
        Showing(nats::any(store))
    }

    /// The server has no check of its own; the suite has compared all that was acknowledged.
    fn verify(&self) {}
}

contract_suite!(Documents);
