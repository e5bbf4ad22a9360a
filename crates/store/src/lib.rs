//! Durable storage of runs.
//!
//! One change is one [`Commit`]: a journal entry, the changed parts of the document, and the outbox items it adds and
//! acknowledges. It lands completely or not at all, by compare-and-set on the run's [`Position`]. Any process may
//! commit; the process that holds the run's [`EngineLock`] is its engine.
//!
//! The store does not know the protocols: bodies are text that it never parses. Decisions are made in `protocol`;
//! `runner` retries lost races and writes view files, of which the store only records the digest of the last content.
//!
//! [`Store`] is the contract, tested by the suite in `tests/contract`. [`SqliteStore`] is the embedded backend, in a
//! directory that [`Location`] finds. [`NatsStore`] is the backend for several machines. [`AnyStore`] is one of them.

mod any;
mod commit;
mod digest;
mod engine_lock;
mod error;
mod external_write;
mod location;
mod nats;
mod run_writer;
mod sqlite;
mod store;
mod watch;

pub use any::{AnyStore, Backend};
pub use commit::{
    COMMIT_LIMIT, Commit, OutboxItem, Part, Position, SNAPSHOT_EVERY, Token, ViewMark, WriteId,
};
pub use digest::{BadDigest, Digest, DigestReader};
pub use engine_lock::{EngineHolder, EngineLock, LockPurpose};
pub use error::{CommitError, EngineLockError, ReadError, Unavailable, WriteError};
pub use external_write::{DocumentEdit, ExternalWrite, ExternalWriteRefusal};
pub use location::{LocateError, Location, Repository, repository};
pub use nats::{
    BLOB_STREAM, KvBucket, KvEntry, MIN_VERSION, MissingBlobs, NatsAuth, NatsConnectError, NatsNotice,
    NatsSettings, NatsSettingsError, NatsStore, NatsWarning, NoticeHandler, Timeouts, Tls, UnknownMessage,
};
pub use run_writer::{RunWriteError, RunWriter};
pub use sqlite::{
    Backup, BackupError, Damage, EmergencyCopyError, ExclusiveAccess, ExclusiveAccessError, FoundEntry,
    FoundRun, OpenError, ReplacementDatabase, Salvage, SalvageError, SqliteStore, StoreInspection,
    find_damage,
};
pub use store::{LoadedRun, NewEntries, RunListing, Store, StoredDocument, StoredEntry};
pub use watch::Watch;
