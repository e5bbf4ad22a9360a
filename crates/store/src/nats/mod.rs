//! The shared backend: NATS JetStream, for when one machine is not enough.
//!
//! A run is one subject of the stream `callboard-journal`, and the journal *is* the commit: one message holds the entry,
//! the parts, the outbox items and the acknowledgements, written by compare-and-set on the last sequence of its subject.
//! Every message also says where the run stands after it, so that whoever reads the newest one knows.
//!
//! * `backend`: the contract, by means of the others
//! * `settings`, `connect`, `streams`, `server`: servers become a store · `channel`, `fault`: one stream, and what its
//!   answers mean · `same`: that they are of the store we opened · `patience`, `outage`: how long we put up with
//!   them, and who is told
//! * `message`, `wire`, `behind`: what lies on the wire · `journal`: the subject of a run · `fold`: what its messages add
//!   up to · `known`: what this process remembers of it
//! * `bucket`: where documents are kept for others, too · `entry`, `canonical`, `spill`: what such an entry holds ·
//!   `look`: journal and bucket together · `enter`: a commit that is an entry ·
//!   `aside`: what others wrote there · `strangers`: what others wrote to the journal · `live`: a bucket of others
//! * `commit`, `whole`, `settle`: writing · `read`, `watch`: reading · `blobs`: the object store · `lease`, `lead`: who is
//!   the engine
//! * `note`, `laggards`: what is not as it should be there · `bereft`: what is left without the blobs

mod aside;
mod backend;
mod behind;
mod blobs;
mod bucket;
mod canonical;
mod channel;
mod commit;
mod connect;
mod enter;
mod entry;
mod fault;
mod fold;
mod journal;
mod known;
mod lagging;
mod lease;
mod live;
mod lock;
mod look;
mod message;
mod missing_blobs;
mod note;
mod outage;
mod patience;
mod plain;
mod read;
mod same;
mod server;
mod settings;
mod settle;
mod spill;
mod strangers;
mod streams;
mod watch;
mod whole;
mod wire;

pub use backend::NatsStore;
pub use connect::{ConnectFault, LEAST_VERSION};
pub use lagging::{LaggingReplica, Standing};
pub(crate) use lease::Lease;
pub use live::{LiveBucket, LiveEntry};
pub use missing_blobs::MissingBlobs;
pub use note::Note;
pub use outage::{Tell, Waiting};
pub use patience::Patience;
pub use settings::{Access, BadSettings, NatsSettings, Tls};
pub use strangers::Stranger;
pub use streams::BLOB_STREAM;
pub(crate) use watch::Watch;
