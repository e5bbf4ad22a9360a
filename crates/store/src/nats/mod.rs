//! The shared backend: runs on NATS JetStream, for several machines.
//!
//! A run is one subject of the stream `callboard-journal`. A commit is one message on that subject: it holds the entry,
//! the parts, the outbox items and the acknowledgements, and is published with the expected last sequence of the
//! subject. Every message also carries the run's summary and revision, so that the last message alone gives its
//! position.
//!
//! The document of a `peer` run is an entry of a KV bucket, which any NATS client can read and write. That entry is the
//! commit, and the message of the journal is its copy.
//!
//! * [`connection`]: settings, the streams of a store, timeouts, retries and outages
//! * [`journal`]: the messages of a run: format, commits, reads, watches
//! * [`documents`]: the KV bucket of documents and writes to it by other clients
//! * [`engine_lock`]: the lease that makes a process the engine of a run
//! * [`blobs`]: the object store
//! * [`health`]: what `doctor` and `recover` report
//! * [`backend`]: [`NatsStore`], the [`Store`](crate::Store) built from these

mod backend;
mod blobs;
mod connection;
mod documents;
mod engine_lock;
mod health;
mod journal;

pub use backend::NatsStore;
pub use connection::{
    BLOB_STREAM, MIN_VERSION, NatsAuth, NatsConnectError, NatsNotice, NatsSettings, NatsSettingsError,
    NoticeHandler, Timeouts, Tls,
};
pub use documents::{KvBucket, KvEntry};
pub(crate) use engine_lock::Lease;
pub use health::{MissingBlobs, NatsWarning, UnknownMessage};
pub(crate) use journal::Watch;
