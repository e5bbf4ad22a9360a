//! One of the two backends, chosen at program start.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use crate::run_writer::BufferedRun;
use crate::{
    LocateError, Location, NatsSettings, NatsStore, NatsWarning, NoticeHandler, RunWriteError, RunWriter,
    SqliteStore, Store, Unavailable,
};

/// The store that the user has chosen. Dereferences to its [`Store`]; the other methods depend on the backend.
#[derive(Debug, Clone)]
pub struct AnyStore {
    store: Arc<dyn Store>,
    backend: Backend,
}

/// The backend of an [`AnyStore`], for what only one of them can do.
#[derive(Debug, Clone)]
pub enum Backend {
    Embedded(SqliteStore),
    /// With its local directory: where this machine keeps attempts and engine logs.
    Nats(NatsStore, Arc<Location>),
}

impl From<SqliteStore> for AnyStore {
    fn from(store: SqliteStore) -> Self {
        Self { store: Arc::new(store.clone()), backend: Backend::Embedded(store) }
    }
}

impl Deref for AnyStore {
    type Target = Arc<dyn Store>;

    fn deref(&self) -> &Self::Target {
        &self.store
    }
}

impl AnyStore {
    /// Wraps a store on NATS with its directory on this machine.
    #[must_use]
    pub fn nats(store: NatsStore, local_dir: Location) -> Self {
        Self { store: Arc::new(store.clone()), backend: Backend::Nats(store, Arc::new(local_dir)) }
    }

    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Connects to a store on NATS. Its local directory is below `embedded`, the location of the embedded store. Calls
    /// `notify` while it waits for the servers.
    pub async fn connect(
        settings: NatsSettings,
        embedded: &Location,
        notify: NoticeHandler,
    ) -> Result<Self, Unavailable> {
        let store = NatsStore::with_notice_handler(settings, notify);
        let local_dir = embedded.local_dir_of(store.id().await?);
        Ok(Self::nats(store, local_dir))
    }

    /// The directory on this machine with the attempts and the logs of engines.
    #[must_use]
    pub fn local_dir(&self) -> &Location {
        match &self.backend {
            Backend::Embedded(store) => store.location(),
            Backend::Nats(_, local_dir) => local_dir,
        }
    }

    /// Returns the directory with the attempts of runs in `repository`. A shared store has one local directory per
    /// repository.
    pub fn local_dir_for_repo(&self, repository: &Path) -> Result<Location, LocateError> {
        match &self.backend {
            Backend::Embedded(store) => Ok(store.location().clone()),
            Backend::Nats(_, local_dir) => {
                Ok(Location::find(repository, None)?.local_dir_of_same_store(local_dir))
            }
        }
    }

    /// Creates the local directory of a store on NATS. A file in it names the servers, for processes that know only its path.
    pub fn prepare_local_dir(&self) -> Result<(), Unavailable> {
        match &self.backend {
            Backend::Embedded(_) => Ok(()),
            Backend::Nats(store, local_dir) => local_dir.prepare_local_dir(&store.settings().server()),
        }
    }

    /// Returns what an operator of this store should know.
    pub async fn warnings(&self) -> Result<&[NatsWarning], Unavailable> {
        match &self.backend {
            Backend::Embedded(_) => Ok(&[]),
            Backend::Nats(store, _) => store.open().await,
        }
    }

    /// Writes a whole run, or nothing of it.
    ///
    /// On NATS this takes several messages. The engine lock is held until the run is complete. After an interruption
    /// the run does not exist; writing it again removes the incomplete messages first.
    pub async fn put_run<T, E: From<RunWriteError>>(
        &self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        match &self.backend {
            Backend::Embedded(store) => store.put_run(fill),
            Backend::Nats(store, _) => {
                let mut run = BufferedRun::default();
                let filled = fill(&mut RunWriter::buffered(&mut run))?;
                store.put_run(run).await?;
                Ok(filled)
            }
        }
    }
}
