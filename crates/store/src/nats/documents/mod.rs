//! Documents in a KV bucket, which other NATS clients can read and write.
//!
//! The entry in the bucket is the commit; the journal receives a copy of what it changed.
//!
//! * `bucket`: the bucket and its keys
//! * `entry`, `canonical`, `large_values`: the content of an entry
//! * `commit`: writing an entry
//! * `reconcile`: comparing bucket and journal, and writing missing copies
//! * `quarantine`: keeping what other clients wrote
//! * `kv_bucket`: a bucket that is opened without a store, for `import` and `recover`

mod bucket;
mod canonical;
mod commit;
mod entry;
mod kv_bucket;
mod large_values;
mod quarantine;
mod reconcile;

pub(in crate::nats) use bucket::{Buckets, document_key, key_subject};
pub(in crate::nats) use entry::{ParsedEntry, deletion_headers, is_deleted, parse_entry};
pub use kv_bucket::{KvBucket, KvEntry};
pub(in crate::nats) use reconcile::DocumentSlot;
