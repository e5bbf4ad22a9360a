//! Runs whose documents are in a KV bucket: the contract suite, and tests of what only such runs have.

mod bucket;
mod client;
mod copies;
mod entries;
mod external_writes;
mod outages;

use std::ffi::{OsStr, OsString};

use store::{COMMIT_LIMIT, NatsStore};
use testkit::nats::Server;

use crate::contract::{self, Backend};
use crate::contract_suite;
use crate::test_store::{TestStore, address_with_documents};

/// A server for stores that put a document into every commit.
struct ServerWithDocuments(Server);

impl Backend for ServerWithDocuments {
    type Store = TestStore;
    const LIMIT: usize = COMMIT_LIMIT;
    const ENTRIES_DESCRIBE_EVERY_CHANGE: bool = false;
    const COMMITS_PER_WRITER: u64 = 10;

    fn fresh() -> Self {
        Self(Server::start())
    }

    fn address(&self) -> OsString {
        address_with_documents(&self.0.address())
    }

    fn attach(address: &OsStr) -> TestStore {
        TestStore::attach(address)
    }

    fn verify(&self) {}
}

contract_suite!(ServerWithDocuments);

/// Returns a store that puts a document into every commit.
fn with_documents(server: &Server) -> TestStore {
    TestStore::with_documents(NatsStore::new(server.settings()))
}
