//! Checks that the servers still hold the store that was opened.
//!
//! The client reconnects by itself. Meanwhile a server may have been started at the same address with another data
//! directory, and any command of Callboard creates a store in an empty one. Compare-and-set cannot tell two young stores apart: the
//! same run may have the same last sequence in both. So the id of the journal is checked once per connection, before
//! the first request, and again before an answer is used if the client has reconnected since. The server's version is
//! checked at the same time, because servers of a cluster may differ.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::{Client, Statistics};

use super::connect::check_version;
use super::failure::RequestFailure;
use super::streams::{JOURNAL, store_id};

/// The id of the opened store, and the connection on which it was last checked.
#[derive(Debug)]
pub(in crate::nats) struct StoreIdentity {
    client: Client,
    context: Context,
    statistics: Arc<Statistics>,
    /// The id of the store.
    id: String,
    /// The number of the connection on which the id was last checked.
    checked_connection: AtomicU64,
}

impl StoreIdentity {
    /// `connection` is the number of the connection on which the store was opened.
    pub(in crate::nats) fn new(client: Client, context: Context, id: String, connection: u64) -> Self {
        let statistics = client.statistics();
        Self { client, context, statistics, id, checked_connection: AtomicU64::new(connection) }
    }

    /// Fails without a connection: the client would buffer the request and send it to whichever server it finds next.
    pub(super) async fn check_connection(&self) -> Result<(), RequestFailure> {
        match self.client.connection_state() {
            State::Connected => self.check().await,
            State::Pending | State::Disconnected => Err(RequestFailure::temporary("not connected")),
        }
    }

    /// Fails if the client has reconnected to another store.
    pub(in crate::nats) async fn check(&self) -> Result<(), RequestFailure> {
        let connection = connection_count(&self.statistics);
        if connection == self.checked_connection.load(Ordering::Relaxed) {
            return Ok(());
        }
        check_version(&self.client.server_info()).map_err(|error| RequestFailure::Permanent(error.into()))?;
        let journal = self.context.get_stream(JOURNAL).await;
        let journal = journal.map_err(|error| RequestFailure::from_request(error, JOURNAL))?;
        if store_id(journal.cached_info()) != self.id {
            return Err(RequestFailure::StoreReplaced);
        }
        self.checked_connection.store(connection, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns how often the client has connected.
pub(super) fn connection_count(statistics: &Statistics) -> u64 {
    statistics.connects.load(Ordering::Relaxed)
}
