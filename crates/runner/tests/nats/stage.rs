//! A run on a server, and the houses of two hosts.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use protocol::RunId;
use protocol::entry::Author;
use protocol::steps::{self, Steps};
use runner::{Clock, House};
use store::{NatsSettings, NatsStore};
use tempfile::TempDir;
use testkit::stage;

use crate::servers::Server;

/// What all hosts share.
pub(crate) struct Scene {
    pub(crate) server: Server,
    pub(crate) directory: TempDir,
    pub(crate) store: NatsStore,
    pub(crate) run: RunId,
}

impl Scene {
    /// A run of one step.
    pub(crate) async fn open() -> Self {
        Self::open_with(stage::one_step("a", NonZeroU32::MIN)).await
    }

    pub(crate) async fn open_with(definition: steps::Frozen) -> Self {
        let server = Server::start();
        let directory = tempfile::tempdir().unwrap();
        // Long enough that no test waits for its end.
        let settings = NatsSettings { lease: Duration::from_secs(600), ..server.settings() };
        let (store, run) = (NatsStore::new(settings), RunId::new("trial").unwrap());
        let frozen = stage::frozen::<Steps>(definition.into(), &run, directory.path(), None);
        runner::open(&store, &Clock::system(), stage::person(), frozen).await.unwrap();
        Self { server, directory, store, run }
    }

    /// A host of that name, on which nothing can be started.
    pub(crate) fn host(&self, name: &str) -> House {
        self.host_with(name, Path::new("/bin/false"))
    }

    /// A host of that name, where shims are started by this program.
    pub(crate) fn host_with(&self, name: &str, program: &Path) -> House {
        let root = self.directory.path().join(name);
        let house = stage::house_at(&root, program);
        let author = match house.author {
            Author::Engine { boot_id, pid, .. } => Author::Engine { host: name.to_owned(), boot_id, pid },
            Author::Person { .. } => panic!("an engine writes as one"),
        };
        House { author, ..house }
    }
}
