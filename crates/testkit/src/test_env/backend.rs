//! The store of a test's runs. Every test that is not about the embedded store runs on both.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{AnyStore, Location, SqliteStore};
use tempfile::TempDir;

use crate::nats::{self, Server};

/// Chooses the store for all tests of a process: `nats`, or `embedded` (the default).
const CHOICE: &str = "CALLBOARD_TEST_STORE";

/// Returns whether the tests run on NATS.
pub fn on_nats() -> bool {
    match std::env::var(CHOICE).as_deref() {
        Ok("nats") => true,
        Ok("embedded" | "") | Err(_) => false,
        Ok(other) => panic!("{CHOICE} is `{other}`; it can be `nats` or `embedded`"),
    }
}

/// The store of a test environment.
#[derive(Debug)]
pub enum Backend {
    /// In the repository.
    Embedded,
    /// On a server of the test environment's own, which ends with it. A test may kill it while other threads use the
    /// test environment.
    Nats { address: String, server: Mutex<Server> },
}

impl From<Server> for Backend {
    fn from(server: Server) -> Self {
        Self::Nats { address: server.url(), server: Mutex::new(server) }
    }
}

impl Backend {
    /// Returns the store that the tests run on.
    pub fn chosen() -> Self {
        if on_nats() { Server::start().into() } else { Self::Embedded }
    }

    /// Returns the value of `CALLBOARD_STORE`, if it is to be set.
    pub fn address(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Nats { address, .. } => Some(address.clone()),
        }
    }

    /// Returns the server, to be killed and restarted.
    #[track_caller]
    pub fn server(&self) -> MutexGuard<'_, Server> {
        match self {
            Self::Embedded => panic!("this store is not on NATS"),
            Self::Nats { server, .. } => server.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Opens the store, and creates it if necessary. `location` is that of the embedded store.
    pub async fn open(&self, location: &Location) -> AnyStore {
        open(location, self.address().as_deref()).await
    }
}

/// Opens the NATS store at an address, or without one the embedded store at a location.
pub(crate) async fn open(location: &Location, address: Option<&str>) -> AnyStore {
    match address {
        None => SqliteStore::open(location).expect("it can be opened").into(),
        Some(address) => AnyStore::connect(nats::settings(address), location, |_| {})
            .await
            .expect("the server was just started"),
    }
}

/// A directory with a store of its own, for runs that need no repository.
#[derive(Debug)]
pub struct TempStore {
    directory: TempDir,
    backend: Backend,
}

impl TempStore {
    #[expect(clippy::new_without_default, reason = "on NATS it starts a server")]
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory"), backend: Backend::chosen() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub async fn store(&self) -> AnyStore {
        let location = Location::find(self.path(), Some(self.path().join("store")));
        self.backend.open(&location.expect("a directory of ours may be used")).await
    }
}
