//! Whether whoever answers has the store that we opened.
//!
//! A client comes back to its address by itself. Somebody may have started a server there with another directory by then, and
//! commands make a store in an empty one. Compare-and-set does not tell the two apart: small stores are alike, and the same
//! cycle can stand at the same sequence in both. So the journal's id is looked at once for each connection, before anything
//! is asked or written; and once more before an answer is believed, if the connection has been another one meanwhile. So is
//! the server's version: those of a cluster need not be of the same age.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::{Client, Statistics};

use super::connect::check_version;
use super::failure::RequestFailure;
use super::streams::{JOURNAL, store_id};

#[derive(Debug)]
pub(in crate::nats) struct StoreIdentity {
    client: Client,
    context: Context,
    connections: Arc<Statistics>,
    /// Of the store.
    id: String,
    /// The number of the connection on which it was seen last.
    tip: AtomicU64,
}

impl StoreIdentity {
    /// Of a store that has just been opened by this client. `opened_on` is the number of its connection before that.
    pub(in crate::nats) fn new(client: Client, context: Context, id: String, opened_on: u64) -> Self {
        let connections = client.statistics();
        Self { client, context, connections, id, tip: AtomicU64::new(opened_on) }
    }

    /// Before a question: what is said while there is no connection would be heard by whoever comes next.
    pub(in crate::nats) async fn check_connection(&self) -> Result<(), RequestFailure> {
        match self.client.connection_state() {
            State::Connected => self.check_identity().await,
            State::Pending | State::Disconnected => {
                Err(RequestFailure::temporary("there is no connection to it"))
            }
        }
    }

    /// Before an answer is believed.
    pub(in crate::nats) async fn check_identity(&self) -> Result<(), RequestFailure> {
        let connection = connection_count(&self.connections);
        if connection == self.tip.load(Ordering::Relaxed) {
            return Ok(());
        }
        check_version(&self.client.server_info())
            .map_err(|failure| RequestFailure::Permanent(failure.into()))?;
        let journal = self.context.get_stream(JOURNAL).await;
        let journal = journal.map_err(|error| RequestFailure::from_request(error, JOURNAL))?;
        if store_id(journal.cached_info()) != self.id {
            return Err(RequestFailure::StoreReplaced);
        }
        self.tip.store(connection, Ordering::Relaxed);
        Ok(())
    }
}

/// How often the client has been connected.
pub(in crate::nats) fn connection_count(connections: &Statistics) -> u64 {
    connections.connects.load(Ordering::Relaxed)
}
