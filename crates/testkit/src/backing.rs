//! Which store the runs of a test are in: every test that is not about the file of the embedded one runs on both.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use store::{AnyStore, Location, SqliteStore};
use tempfile::TempDir;

use crate::nats::{self, Server};

/// Chooses the store for all tests of a process: `nats`, or `embedded`, as without it.
const CHOICE: &str = "CALLBOARD_TEST_STORE";

/// Whether the tests run on NATS this time.
pub fn on_nats() -> bool {
    match std::env::var(CHOICE).as_deref() {
        Ok("nats") => true,
        Ok("embedded" | "") | Err(_) => false,
        Ok(other) => panic!("{CHOICE} is `{other}`; it can be `nats` or `embedded`"),
    }
}

/// Ends a test on NATS before it begins, because it is about the files of the embedded store; says what of them.
///
/// `scripts/verify` counts these marks. A test that fails on NATS for another reason has found something.
#[macro_export]
macro_rules! embedded_only {
    ($about:literal) => {
        if $crate::on_nats() {
            println!(concat!("about the embedded store alone: ", $about));
            return;
        }
    };
}

/// Where the runs of a scene are kept.
#[derive(Debug)]
pub enum Backing {
    /// In the repository.
    Embedded,
    /// On a server of the scene's own, which ends with it. Somebody may kill it while others use the scene.
    Nats { address: String, server: Mutex<Server> },
}

impl From<Server> for Backing {
    fn from(server: Server) -> Self {
        Self::Nats { address: server.url(), server: Mutex::new(server) }
    }
}

impl Backing {
    /// The store that the tests run on this time.
    pub fn chosen() -> Self {
        if on_nats() { Server::start().into() } else { Self::Embedded }
    }

    /// What `CALLBOARD_STORE` has to be, if anything.
    pub fn address(&self) -> Option<String> {
        match self {
            Self::Embedded => None,
            Self::Nats { address, .. } => Some(address.clone()),
        }
    }

    /// The server, to be killed and started again.
    #[track_caller]
    pub fn server(&self) -> MutexGuard<'_, Server> {
        match self {
            Self::Embedded => panic!("this store is not on NATS"),
            Self::Nats { server, .. } => server.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Opens the store, made if there is none; `place` is where the embedded one is, or would be.
    pub async fn open(&self, place: &Location) -> AnyStore {
        open(place, self.address().as_deref()).await
    }
}

/// Opens the store at that address of NATS, or without one the embedded store of this place.
pub(crate) async fn open(place: &Location, address: Option<&str>) -> AnyStore {
    match address {
        None => SqliteStore::open(place).expect("it can be opened").into(),
        Some(address) => AnyStore::connect(nats::settings(address), place, |_| {})
            .await
            .expect("the server was just started"),
    }
}

/// A directory with a store of its own, for runs that need no repository.
#[derive(Debug)]
pub struct TempStore {
    directory: TempDir,
    backing: Backing,
}

impl TempStore {
    #[expect(clippy::new_without_default, reason = "it starts a server")]
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory"), backing: Backing::chosen() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    pub async fn store(&self) -> AnyStore {
        let place = Location::find(self.path(), Some(self.path().join("store")));
        self.backing.open(&place.expect("a directory of ours may be used")).await
    }
}
