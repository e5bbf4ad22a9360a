//! From settings to an open store, and how requests to its servers fail.
//!
//! * `settings`, `connect`: where the servers are and how to authenticate
//! * `streams`, `session`: the streams of a store, found or created
//! * `stream_handle`: reads and compare-and-set writes on one stream
//! * `failure`: what an error of the client or the server means for a request
//! * `timeouts`, `outage`: how long requests are retried, and what the user is told meanwhile
//! * `identity`: whether a server still holds the store that was opened

mod connect;
mod failure;
mod identity;
mod outage;
mod session;
mod settings;
mod stream_handle;
mod streams;
mod timeouts;

pub use connect::{MIN_VERSION, NatsConnectError};
pub(in crate::nats) use failure::RequestFailure;
pub(in crate::nats) use outage::ignore_notices;
pub use outage::{NatsNotice, NoticeHandler};
pub(in crate::nats) use session::Session;
pub use settings::{NatsAuth, NatsSettings, NatsSettingsError, Tls};
pub(in crate::nats) use stream_handle::{Conflict, Lookup, StoredMessage, StreamHandle};
pub use streams::BLOB_STREAM;
pub(in crate::nats) use streams::{BLOBS, JOURNAL, StreamSetup, durable_config, max_payload};
pub use timeouts::Timeouts;
