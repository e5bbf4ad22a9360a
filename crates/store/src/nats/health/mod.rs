//! What `doctor` and `recover` report about a store.

mod lagging_replicas;
mod missing_blobs;
mod unknown_messages;
mod warning;

pub use lagging_replicas::{LaggingReplica, ReplicaStatus};
pub use missing_blobs::MissingBlobs;
pub use unknown_messages::UnknownMessage;
pub use warning::NatsWarning;
