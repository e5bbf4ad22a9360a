//! The shared backend: the same contract, on a server that each test has for itself, and what is true of NATS alone.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../contract/mod.rs"]
mod contract;

mod access;
mod answers;
mod certificates;
mod cluster;
mod leases;
mod opening;
mod outages;
mod replaced;
mod rubbish;
mod sizes;
mod whole;

use std::ffi::{OsStr, OsString};

use contract::Backend;
use store::{AnyStore, COMMIT_LIMIT, NatsStore};
use testkit::nats::{self, Server};

impl Backend for Server {
    /// By way of the one that stands for either: it must hand on every call.
    type Store = AnyStore;
    const LIMIT: usize = COMMIT_LIMIT;

    fn fresh() -> Self {
        Self::start()
    }

    fn address(&self) -> OsString {
        Self::address(self).into()
    }

    fn attach(address: &OsStr) -> AnyStore {
        nats::any(NatsStore::new(nats::settings(address.to_str().unwrap())))
    }

    /// The server has no check of its own; the suite has compared all that was acknowledged.
    fn verify(&self) {}
}

contract_suite!(Server);
