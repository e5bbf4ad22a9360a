//! One of the two backends, chosen at program start.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use protocol::{Revision, RunId};

use crate::commit::{Commit, Part, Position, ViewMark, WriteId};
use crate::error::{CommitError, EngineLockError, ReadError, WriteError};
use crate::run_writer::BufferedRun;
use crate::store::{CaughtUp, Loaded, RunRow, Store, StoredDocument, StoredEntry};
use crate::{
    Digest, EngineHolder, EngineLock, ExternalWrite, LocateError, Location, NatsSettings, NatsStore,
    NatsWarning, Notify, RunWriteError, RunWriter, SqliteStore, Tenure, Unavailable, Watch,
};

/// The store that the user has chosen.
#[derive(Debug, Clone)]
pub enum AnyStore {
    Embedded(SqliteStore),
    Nats(NatsStore, Arc<Location>),
}

impl From<SqliteStore> for AnyStore {
    fn from(store: SqliteStore) -> Self {
        Self::Embedded(store)
    }
}

impl AnyStore {
    /// Connects to a store on NATS. Its local directory is below the location of the embedded store. Calls `notify` while
    /// it waits for the servers.
    pub async fn connect(
        settings: NatsSettings,
        beside: &Location,
        notify: Notify,
    ) -> Result<Self, Unavailable> {
        let store = NatsStore::with_notify(settings, notify);
        let local_dir = beside.of_shared(store.id().await?);
        Ok(Self::Nats(store, Arc::new(local_dir)))
    }

    /// The directory on this machine with its attempts and the logs of its engines.
    #[must_use]
    pub fn local_dir(&self) -> &Location {
        match self {
            Self::Embedded(store) => store.location(),
            Self::Nats(_, local_dir) => local_dir,
        }
    }

    /// Returns the directory with the attempts of runs in `repository`. A shared store has one local directory per
    /// repository.
    pub fn local_dir_beside(&self, repository: &Path) -> Result<Location, LocateError> {
        match self {
            Self::Embedded(store) => Ok(store.location().clone()),
            Self::Nats(_, local_dir) => Ok(Location::find(repository, None)?.of_same_shared(local_dir)),
        }
    }

    /// Creates the local directory, with a note of the servers for processes that only know its path.
    pub fn prepare_local_dir(&self) -> Result<(), Unavailable> {
        match self {
            Self::Embedded(_) => Ok(()),
            Self::Nats(store, local_dir) => local_dir.prepare_shared(&store.settings().server()),
        }
    }

    /// Returns what an operator of this store should know.
    pub async fn warnings(&self) -> Result<&[NatsWarning], Unavailable> {
        match self {
            Self::Embedded(_) => Ok(&[]),
            Self::Nats(store, _) => store.open().await,
        }
    }

    /// Writes a whole run, or nothing of it.
    ///
    /// On NATS this takes several messages. The engine lock is held until the run is complete. After an interruption,
    /// writing the same run again continues where it stopped.
    pub async fn put_run<T, E: From<RunWriteError>>(
        &self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match self {
            Self::Embedded(store) => store.put_run(fill),
            Self::Nats(store, _) => {
                let mut run = BufferedRun::default();
                let filled = fill(&mut RunWriter::buffered(&mut run))?;
                store.put_run(run).await?;
                Ok(filled)
            }
        }
    }
}

/// Forwards a call to the backend.
macro_rules! either {
    ($store:expr, $inner:ident => $call:expr) => {
        match $store {
            AnyStore::Embedded($inner) => $call.await,
            AnyStore::Nats($inner, _) => $call.await,
        }
    };
}

impl Store for AnyStore {
    fn is_shared(&self) -> bool {
        match self {
            Self::Embedded(store) => store.is_shared(),
            Self::Nats(store, _) => store.is_shared(),
        }
    }

    fn race_timeout(&self) -> Duration {
        match self {
            Self::Embedded(store) => store.race_timeout(),
            Self::Nats(store, _) => store.race_timeout(),
        }
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        either!(self, store => store.commit(commit))
    }

    async fn settle(&self, run: &RunId, write_id: WriteId) -> Result<Option<Position>, ReadError> {
        either!(self, store => store.settle(run, write_id))
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, ReadError> {
        either!(self, store => store.load(run))
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<CaughtUp>, ReadError> {
        either!(self, store => store.catch_up(run, position))
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        either!(self, store => store.protocol(run))
    }

    async fn newest(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        either!(self, store => store.newest(run))
    }

    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError> {
        either!(self, store => store.document(run))
    }

    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        either!(self, store => store.entry(run, revision))
    }

    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError> {
        either!(self, store => store.entries(run, after))
    }

    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        either!(self, store => store.entries_between(run, after, last))
    }

    async fn intact(&self, run: &RunId) -> Result<Revision, ReadError> {
        either!(self, store => store.intact(run))
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        either!(self, store => store.snapshot_at(run, revision))
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        either!(self, store => store.parts_at(run, revision))
    }

    async fn runs(&self) -> Result<Vec<RunRow>, ReadError> {
        either!(self, store => store.runs())
    }

    async fn runs_beginning(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        either!(self, store => store.runs_beginning(beginning, at_most))
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        either!(self, store => store.put_blobs(blobs))
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        either!(self, store => store.blob(digest))
    }

    fn keeps_documents(&self) -> bool {
        match self {
            Self::Embedded(store) => store.keeps_documents(),
            Self::Nats(store, _) => store.keeps_documents(),
        }
    }

    async fn set_aside(&self, run: &RunId, write: &ExternalWrite) -> Result<Option<String>, WriteError> {
        either!(self, store => store.set_aside(run, write))
    }

    async fn mark_views(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        either!(self, store => store.mark_views(run, views))
    }

    async fn lock_engine_for(&self, run: &RunId, tenure: Tenure) -> Result<EngineLock, EngineLockError> {
        either!(self, store => store.lock_engine_for(run, tenure))
    }

    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        either!(self, store => store.engine_holder(run))
    }

    async fn peek_engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        either!(self, store => store.peek_engine_holder(run))
    }

    async fn watch(&self, run: &RunId, after: Revision) -> Result<Watch, ReadError> {
        either!(self, store => store.watch(run, after))
    }
}
