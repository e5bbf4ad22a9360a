//! The durable part: where runs are kept, and how a change becomes true.
//!
//! One change is one [`Commit`]: an entry of the run's journal, the parts of its document that changed, the outbox
//! items it adds and acknowledges. It lands whole or not at all, by compare-and-set on the run's [`Position`]. Any
//! process may commit; whoever holds the run's [`EngineLock`] is its engine.
//!
//! The store is ignorant of protocols: bodies are JSON text it never reads. What is *not* here: deciding
//! (`protocol`), retrying a lost race (`runner`), writing view files (`runner`; only what was last written to them is
//! remembered here).
//!
//! [`Store`] is the contract, proved by the suite in `tests/contract`. [`SqliteStore`] is the embedded backend and
//! [`Location`] finds where it lives; [`NatsStore`] is the shared one; [`AnyStore`] is whichever was chosen.

mod any;
mod commit;
mod digest;
mod error;
mod external;
mod git;
mod location;
mod lock;
mod nats;
#[path = "linux.rs"]
mod os;
mod sqlite;
mod store;
mod watch;
mod whole;

pub use any::AnyStore;
pub use commit::{
    COMMIT_LIMIT, Commit, OutboxItem, Part, Position, SNAPSHOT_EVERY, Token, ViewMark, WriteId,
};
pub use digest::{BadDigest, Digest, DigestReader};
pub use error::{CommitError, EngineLockError, ReadError, Unavailable, WriteError};
pub use external::{ExternalChange, ExternalWrite, Rewritten};
pub use git::Repository;
pub use location::{LocateError, Location, repository};
pub use lock::{EngineHolder, EngineLock, Tenure};
pub use nats::{
    Access, BLOB_STREAM, KvBucket, KvEntry, LaggingReplica, MIN_VERSION, MissingBlobs, NatsConnectError,
    NatsNotice, NatsSettings, NatsSettingsError, NatsStore, NatsWarning, Notify, ReplicaStatus, Timeouts,
    Tls, UnknownMessage,
};
pub use os::{HeldLock, Holder, held_locks, host_name, inotify_instances};
pub use sqlite::{
    Backup, CloseError, Closed, Damage, Draft, DraftError, Examined, FoundEntry, FoundRun, KeepError,
    OpenError, RescueError, Salvage, SalvageError, SqliteStore, find_damage,
};
pub use store::{CaughtUp, Loaded, RunRow, Store, StoredDocument, StoredEntry};
pub use watch::Watch;
pub use whole::RunWriter;
