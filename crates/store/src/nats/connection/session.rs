//! An open store: its streams, and what this process caches of them.

use std::sync::Arc;
use std::time::Duration;

use super::connect::{RECOMMENDED_VERSION, version};
use super::identity::{StoreIdentity, connection_count};
use super::outage::NoticeHandler;
use super::settings::NatsSettings;
use super::stream_handle::StreamHandle;
use super::streams::{StreamSetup, max_payload, store_id};
use crate::error::Unavailable;
use crate::nats::documents::Buckets;
use crate::nats::health::NatsWarning;
use crate::nats::journal::{RunCache, WriteIndex};

/// The size of blob chunks, unless the server accepts only smaller messages.
const MAX_CHUNK: usize = 128 * 1024;
/// Reserved for headers, which count towards the size of a message.
pub(super) const HEADER_ALLOWANCE: usize = 4 * 1024;

/// An open store.
#[derive(Debug)]
pub(in crate::nats) struct Session {
    pub(in crate::nats) id: String,
    pub(in crate::nats) journal: StreamHandle,
    pub(in crate::nats) leases: StreamHandle,
    pub(in crate::nats) blobs: StreamHandle,
    /// How long the server keeps a lease without renewal.
    pub(in crate::nats) lease_duration: Duration,
    /// The size of blob chunks.
    pub(in crate::nats) chunk_size: usize,
    /// The largest payload that the server accepts, without headers.
    pub(in crate::nats) server_max_payload: usize,
    /// The largest payload that the journal stream accepts, without headers.
    pub(in crate::nats) journal_max_payload: usize,
    pub(in crate::nats) cache: RunCache,
    /// The write ids in journals that were searched for an unacknowledged write, so that a second search reads only what
    /// is new.
    pub(in crate::nats) writes: WriteIndex,
    pub(in crate::nats) warnings: Vec<NatsWarning>,
    /// Whether this session created the journal.
    pub(in crate::nats) is_new: bool,
    pub(in crate::nats) settings: NatsSettings,
    pub(in crate::nats) clustered: bool,
    pub(in crate::nats) buckets: Buckets,
}

impl Session {
    /// Connects and creates missing streams.
    pub(in crate::nats) async fn open(
        settings: &NatsSettings,
        notify: NoticeHandler,
    ) -> Result<Self, Unavailable> {
        let (mut setup, client) = StreamSetup::connect(settings, notify).await?;
        let (info, connection) = (client.server_info(), connection_count(&client.statistics()));
        if version(&info.version).is_none_or(|version| version < RECOMMENDED_VERSION) {
            setup.warnings.push(NatsWarning::OldServer { version: info.version });
        }
        let [journal, blobs, leases] = setup.find_or_create().await?;
        setup.check_bucket(&journal).await?;
        // A lease stream without a maximum age keeps leases until they are released. The configured duration then
        // sets how often they are renewed.
        let max_age = Some(leases.cached_info().config.max_age).filter(|age| !age.is_zero());
        let lease_duration = max_age.unwrap_or(settings.lease);
        let id = store_id(journal.cached_info());
        setup.identity =
            Some(Arc::new(StoreIdentity::new(client, setup.context.clone(), id.clone(), connection)));
        let server_max_payload = info.max_payload.saturating_sub(HEADER_ALLOWANCE);
        let (journal_max, blob_max) =
            (max_payload(&journal, server_max_payload), max_payload(&blobs, server_max_payload));
        Ok(Self {
            id,
            journal: setup.handle(journal),
            leases: setup.handle(leases),
            blobs: setup.handle(blobs),
            lease_duration,
            chunk_size: MAX_CHUNK.min(blob_max / 2),
            server_max_payload,
            journal_max_payload: journal_max,
            cache: RunCache::default(),
            writes: WriteIndex::default(),
            clustered: setup.clustered,
            warnings: setup.warnings,
            is_new: setup.is_new,
            settings: settings.clone(),
            buckets: Buckets::default(),
        })
    }
}
