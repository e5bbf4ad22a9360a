//! What `doctor` and `recover` report about a store on NATS.

mod missing_blobs;
mod unknown_messages;
mod warning;

pub use missing_blobs::MissingBlobs;
pub use unknown_messages::UnknownMessage;
pub use warning::NatsWarning;
