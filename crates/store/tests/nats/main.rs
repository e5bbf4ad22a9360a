//! The NATS backend: the contract suite on a real server, and what is true of NATS alone.
//!
//! The suite runs twice, here and in `documents`, because a commit of a run with a document takes another path: it is an
//! entry of the KV bucket, copied to the journal. Child processes of both enter through the test `child_task` that
//! `contract_suite!` adds to this module; the address tells them whether their commits carry documents.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../contract/mod.rs"]
mod contract;

mod access;
mod certificates;
mod cluster;
mod documents;
mod import;
mod leases;
mod opening;
mod outages;
mod replaced;
mod sizes;
mod test_store;
mod unanswered;
mod unknown_messages;

use std::ffi::{OsStr, OsString};

use contract::Backend;
use store::COMMIT_LIMIT;
use test_store::TestStore;
use testkit::nats::Server;

impl Backend for Server {
    type Store = TestStore;
    const LIMIT: usize = COMMIT_LIMIT;
    const COMMITS_PER_WRITER: u64 = 25;

    fn fresh() -> Self {
        Self::start()
    }

    fn address(&self) -> OsString {
        Self::address(self).into()
    }

    fn attach(address: &OsStr) -> TestStore {
        TestStore::attach(address)
    }

    /// The server has no check of its own; the suite compares everything that was acknowledged.
    fn verify(&self) {}
}

contract_suite!(Server);
