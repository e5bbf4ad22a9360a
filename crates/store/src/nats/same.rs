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

use super::connect::new_enough;
use super::fault::Fault;
use super::streams::{JOURNAL, id_of};

#[derive(Debug)]
pub(super) struct Same {
    client: Client,
    context: Context,
    connections: Arc<Statistics>,
    /// Of the store.
    id: String,
    /// The number of the connection on which it was seen last.
    seen: AtomicU64,
}

impl Same {
    /// Of a store that has just been opened by this client. `opened_on` is the number of its connection before that.
    pub(super) fn new(client: Client, context: Context, id: String, opened_on: u64) -> Self {
        let connections = client.statistics();
        Self { client, context, connections, id, seen: AtomicU64::new(opened_on) }
    }

    /// Before a question: what is said while there is no connection would be heard by whoever comes next.
    pub(super) async fn before(&self) -> Result<(), Fault> {
        match self.client.connection_state() {
            State::Connected => self.still().await,
            State::Pending | State::Disconnected => Err(Fault::passing("there is no connection to it")),
        }
    }

    /// Before an answer is believed.
    pub(super) async fn still(&self) -> Result<(), Fault> {
        let connection = number_of(&self.connections);
        if connection == self.seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        new_enough(&self.client.server_info()).map_err(|fault| Fault::Lasting(fault.into()))?;
        let journal = self.context.get_stream(JOURNAL).await;
        let journal = journal.map_err(|error| Fault::of_question(error, JOURNAL))?;
        if id_of(journal.cached_info()) != self.id {
            return Err(Fault::Replaced);
        }
        self.seen.store(connection, Ordering::Relaxed);
        Ok(())
    }
}

/// How often the client has been connected.
pub(super) fn number_of(connections: &Statistics) -> u64 {
    connections.connects.load(Ordering::Relaxed)
}
