//! An open store: its streams, and what this process knows of them.

use std::sync::Arc;
use std::time::Duration;

use super::bucket::Buckets;
use super::channel::Channel;
use super::connect::{GOOD_VERSION, version};
use super::known::Known;
use super::note::Note;
use super::outage::Tell;
use super::same::{Same, number_of};
use super::settings::NatsSettings;
use super::settle::Writes;
use super::streams::{Opening, id_of, largest};
use crate::error::Unavailable;

/// Pieces of a blob, unless the server takes only smaller messages.
const CHUNK: usize = 128 * 1024;
/// What of a message's size is not its payload.
pub(super) const HEADERS: usize = 4 * 1024;

/// An open store.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) id: String,
    pub(super) journal: Channel,
    pub(super) leases: Channel,
    pub(super) blobs: Channel,
    /// How long the server keeps a lease.
    pub(super) lease: Duration,
    /// The largest piece of a blob.
    pub(super) chunk: usize,
    /// The largest message that the server takes, without its headers, and that the journal does.
    pub(super) of_server: usize,
    pub(super) largest: usize,
    pub(super) known: Known,
    pub(super) writes: Writes,
    pub(super) notes: Vec<Note>,
    /// Whether we have made the journal just now.
    pub(super) is_new: bool,
    pub(super) settings: NatsSettings,
    pub(super) clustered: bool,
    pub(super) buckets: Buckets,
}

impl Server {
    /// Connects, and creates the streams where there are none.
    pub(super) async fn open(settings: &NatsSettings, tell: Tell) -> Result<Self, Unavailable> {
        let (mut opening, client) = Opening::begin(settings, tell).await?;
        let (info, connection) = (client.server_info(), number_of(&client.statistics()));
        if version(&info.version).is_none_or(|version| version < GOOD_VERSION) {
            opening.notes.push(Note::OldServer { version: info.version });
        }
        let [journal, blobs, leases] = opening.streams().await?;
        opening.look_at_bucket(&journal).await?;
        // Where the server would keep a lease for ever we still say goodbye, and wait for that as long as the settings say.
        let lease = Some(leases.cached_info().config.max_age).filter(|age| !age.is_zero());
        let lease = lease.unwrap_or(settings.lease);
        let id = id_of(journal.cached_info());
        opening.same = Some(Arc::new(Same::new(client, opening.context.clone(), id.clone(), connection)));
        let of_server = info.max_payload.saturating_sub(HEADERS);
        let (largest_here, largest_piece) = (largest(&journal, of_server), largest(&blobs, of_server));
        Ok(Self {
            id,
            journal: opening.channel(journal),
            leases: opening.channel(leases),
            blobs: opening.channel(blobs),
            lease,
            chunk: CHUNK.min(largest_piece / 2),
            of_server,
            largest: largest_here,
            known: Known::default(),
            writes: Writes::default(),
            clustered: opening.clustered,
            notes: opening.notes,
            is_new: opening.is_new,
            settings: settings.clone(),
            buckets: Buckets::default(),
        })
    }
}
