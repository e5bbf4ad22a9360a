//! The streams of a store: found, or created once. A deleted stream is never created again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{self, DiscardPolicy, RetentionPolicy, Stream};
use uuid::Uuid;

use super::failure::{NO_STREAM, RequestFailure, TOO_MANY_REPLICAS, error_code};
use super::identity::StoreIdentity;
use super::outage::{NoticeHandler, OutageTracker};
use super::session::HEADER_ALLOWANCE;
use super::settings::NatsSettings;
use super::stream_handle::StreamHandle;
use super::timeouts::Backoff;
use crate::Digest;
use crate::error::Unavailable;
use crate::nats::health::NatsWarning;

pub(in crate::nats) const JOURNAL: &str = "callboard-journal";
/// The metadata key in the journal's configuration that holds the id of the store.
const STORE_ID_KEY: &str = "callboard-store";
const LEASES: &str = "callboard-leases";
/// The object store bucket of blobs.
pub(in crate::nats) const BLOBS: &str = "callboard-blobs";
/// The stream of that bucket, as NATS names it.
pub const BLOB_STREAM: &str = "OBJ_callboard-blobs";

/// Finds, creates and checks streams on one connection. Collects warnings about their configuration.
pub(in crate::nats) struct StreamSetup<'s> {
    pub(in crate::nats) settings: &'s NatsSettings,
    pub(in crate::nats) outages: Arc<OutageTracker>,
    pub(in crate::nats) context: Context,
    pub(in crate::nats) clustered: bool,
    pub(in crate::nats) warnings: Vec<NatsWarning>,
    /// Whether the journal was created by this connection.
    pub(in crate::nats) is_new: bool,
    /// Set once all streams are found.
    pub(in crate::nats) identity: Option<Arc<StoreIdentity>>,
}

impl<'s> StreamSetup<'s> {
    /// Connects to the servers.
    pub(in crate::nats) async fn connect(
        settings: &'s NatsSettings,
        notify: NoticeHandler,
    ) -> Result<(Self, Client), Unavailable> {
        let (client, context) = super::connect::connect(settings, notify).await?;
        let (outages, warnings) = (OutageTracker::new(settings, notify), Vec::new());
        let clustered = client.server_info().cluster.is_some();
        Ok((Self { settings, outages, context, clustered, warnings, is_new: false, identity: None }, client))
    }

    /// Finds the journal, the blobs and the leases, or creates them. Fails if the journal or the blobs were deleted.
    ///
    /// Another process may be creating the store at the same time, so the order matters. The journal is created first and
    /// looked up last. The leases are looked up first and created last. A stream was deleted if there are blobs or leases
    /// without a journal, or if there is a journal with messages but without blobs.
    pub(super) async fn find_or_create(&mut self) -> Result<[Stream; 3], Unavailable> {
        let leases = self.find(LEASES).await?;
        let mut blobs = self.find(BLOB_STREAM).await?;
        let journal = self.find(JOURNAL).await?;
        if blobs.is_none() && journal.is_some() {
            // Another process may have created them since the first look.
            blobs = self.find(BLOB_STREAM).await?;
        }
        let journal = match (journal, &blobs) {
            (Some(journal), _) => journal,
            (None, Some(_)) => return Err(self.stream_deleted(JOURNAL)),
            (None, None) if leases.is_some() => return Err(self.stream_deleted(JOURNAL)),
            (None, None) => {
                self.is_new = true;
                let subjects = vec!["callboard.run.*".to_owned()];
                let metadata =
                    HashMap::from([(STORE_ID_KEY.to_owned(), Uuid::now_v7().simple().to_string())]);
                self.create(stream::Config {
                    name: JOURNAL.to_owned(),
                    subjects,
                    metadata,
                    ..durable_config()
                })
                .await?
            }
        };
        let blobs = match blobs {
            Some(blobs) => blobs,
            None if journal.cached_info().state.last_sequence > 0 => {
                return Err(self.stream_deleted(BLOB_STREAM));
            }
            None => {
                // NATS stores the chunks (C) and the metadata (M) of objects under these subjects.
                let subjects = ["C", "M"].map(|kind| format!("$O.{BLOBS}.{kind}.>")).to_vec();
                let name = BLOB_STREAM.to_owned();
                let config = stream::Config {
                    name,
                    subjects,
                    allow_rollup: true,
                    allow_direct: true,
                    ..durable_config()
                };
                self.create(config).await?
            }
        };
        // Deleted leases are harmless: the epoch in the journal fences their holders.
        let leases = match leases {
            Some(leases) => leases,
            None => {
                let config = stream::Config {
                    name: LEASES.to_owned(),
                    subjects: vec!["callboard.lease.*".to_owned()],
                    max_age: self.settings.lease,
                    duplicate_window: self.settings.lease.min(Duration::from_secs(1)),
                    max_messages_per_subject: 1,
                    ..durable_config()
                };
                self.create(config).await?
            }
        };
        for stream in [&journal, &blobs, &leases] {
            self.check_config(&stream.cached_info().config);
        }
        Ok([journal, blobs, leases])
    }

    /// Finds a stream. Waits for a cluster that has no leader yet.
    pub(in crate::nats) async fn find(&self, name: &str) -> Result<Option<Stream>, Unavailable> {
        let request = || async {
            match self.context.get_stream(name).await {
                Ok(stream) => Ok(Some(stream)),
                Err(error) if error_code(&error) == Some(NO_STREAM) => Ok(None),
                Err(error) => Err(RequestFailure::from_request(error, name)),
            }
        };
        self.outages.reads(name).retry("open the streams of", request).await
    }

    /// Creates a stream with as many replicas as possible. Several processes may create the same stream.
    pub(in crate::nats) async fn create(&self, mut config: stream::Config) -> Result<Stream, Unavailable> {
        config.num_replicas = self.settings.replicas;
        let (doing, request_timeout) = ("create the streams of", self.settings.timeouts.request);
        let mut outage = self.outages.writes(&config.name).backoff(doing);
        // Waiting for more servers is no outage, so it has a timeout of its own.
        let mut replicas_backoff = Backoff::with_own_timeout(&self.settings.server(), doing, request_timeout);
        loop {
            let error = match self.context.create_stream(&config).await {
                Ok(stream) => {
                    self.outages.record_answer(&config.name, true);
                    return Ok(stream);
                }
                Err(error) => error,
            };
            let too_many_replicas = error_code(&error).is_some_and(|code| TOO_MANY_REPLICAS.contains(&code));
            let failure = RequestFailure::from_request(error, &config.name);
            if too_many_replicas && config.num_replicas > 1 {
                // Other servers of a cluster may still be starting. A single server cannot have replicas.
                if !self.clustered || replicas_backoff.wait(failure).await.is_err() {
                    config.num_replicas = 1;
                }
            } else if let Some(stream) = self.find(&config.name).await? {
                // Another process created it with a different configuration.
                return Ok(stream);
            } else {
                outage.wait(failure).await?;
            }
        }
    }

    /// Adds a warning for each setting that differs from what we would create.
    pub(in crate::nats) fn check_config(&mut self, config: &stream::Config) {
        let stream = &config.name;
        if config.num_replicas < self.settings.replicas {
            let (wanted, found) = (self.settings.replicas, config.num_replicas);
            let (stream, single_server) = (stream.clone(), !self.clustered);
            self.warnings.push(NatsWarning::FewerReplicas { stream, wanted, found, single_server });
        }
        let (wanted, found) = (self.settings.lease, config.max_age);
        if stream == LEASES && found != wanted && !found.is_zero() {
            self.warnings.push(NatsWarning::LeaseDiffers { stream: stream.clone(), wanted, found });
        }
        let mut warn = |setting, found: String| {
            self.warnings.push(NatsWarning::ConfigDiffers { stream: stream.clone(), setting, found });
        };
        if config.storage != stream::StorageType::File {
            warn("storage", format!("{:?}", config.storage));
        }
        if config.discard != DiscardPolicy::New {
            warn("discard policy", format!("{:?}", config.discard));
        }
        if config.retention != RetentionPolicy::Limits {
            warn("retention", format!("{:?}", config.retention));
        }
        // Journal and blobs need every message. Buckets and leases limit the history of a subject on purpose.
        if [JOURNAL, BLOB_STREAM].contains(&stream.as_str()) && config.max_messages_per_subject > 0 {
            warn("history", config.max_messages_per_subject.to_string());
        }
        for (limit, value, unit) in [
            ("number of messages", config.max_messages, ""),
            ("size", config.max_bytes, " bytes"),
            ("largest message", config.max_message_size.into(), " bytes"),
        ] {
            if value > 0 {
                warn(limit, format!("{value}{unit}"));
            }
        }
        // Leases must expire, and nothing else may.
        if (stream == LEASES) == config.max_age.is_zero() {
            warn("maximum age", format!("{} s", config.max_age.as_secs()));
        }
    }

    /// Returns the stream together with what requests to it need.
    pub(in crate::nats) fn handle(&self, stream: Stream) -> StreamHandle {
        StreamHandle {
            server: self.settings.server(),
            context: self.context.clone(),
            name: stream.cached_info().config.name.clone(),
            stream,
            timeouts: self.settings.timeouts,
            outages: Arc::clone(&self.outages),
            identity: self.identity.clone(),
        }
    }

    pub(in crate::nats) fn stream_deleted(&self, stream: &str) -> Unavailable {
        Unavailable::StreamDeleted { server: self.settings.server(), stream: stream.to_owned() }
    }
}

/// Returns the largest payload that a stream accepts, without headers.
pub(in crate::nats) fn max_payload(stream: &Stream, server_max_payload: usize) -> usize {
    let limit = usize::try_from(stream.cached_info().config.max_message_size).ok().filter(|size| *size > 0);
    // The server's limit counts payload and headers.
    limit.map_or(server_max_payload, |limit| limit.saturating_sub(HEADER_ALLOWANCE).min(server_max_payload))
}

/// A stream on disk that refuses messages instead of dropping old ones.
pub(in crate::nats) fn durable_config() -> stream::Config {
    stream::Config {
        storage: stream::StorageType::File,
        discard: DiscardPolicy::New,
        ..stream::Config::default()
    }
}

/// Returns the id in the journal's metadata. A journal created by hand is identified by its creation time.
pub(super) fn store_id(journal: &stream::Info) -> String {
    match journal.config.metadata.get(STORE_ID_KEY) {
        Some(id) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) => id.clone(),
        _ => Digest::of(journal.created.unix_timestamp_nanos().to_string()).as_str()[..32].to_owned(),
    }
}
