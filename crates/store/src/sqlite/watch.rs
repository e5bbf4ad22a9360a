//! Follows the commits of other processes without polling.

use linux::FileWatch;
use protocol::{Revision, RunId};

use crate::error::{ReadError, Unavailable};
use crate::sqlite::SqliteStore;
use crate::store::{Store as _, StoredEntry};

/// Reads the journal whenever a writer closes the lock file.
#[derive(Debug)]
pub(crate) struct Watch {
    store: SqliteStore,
    run: RunId,
    after: Revision,
    wakeup: FileWatch,
}

impl Watch {
    pub(super) fn subscribe(store: SqliteStore, run: RunId, after: Revision) -> Result<Self, Unavailable> {
        let path = store.0.writer_lock.path();
        let wakeup = FileWatch::subscribe(path).map_err(|source| failed(&store, source))?;
        // The subscription is by name. Only this check proves that it is for the file that writers lock.
        store.0.check_files()?;
        Ok(Self { store, run, after, wakeup })
    }

    pub(crate) fn after(&self) -> Revision {
        self.after
    }

    /// Waits for entries after the last one returned. Cancel-safe, because it reads before it waits.
    pub(crate) async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        loop {
            let entries = self.store.entries(&self.run, self.after).await?;
            if let Some(last) = entries.last() {
                self.after = last.revision;
                return Ok(entries);
            }
            self.wakeup.wait().await.map_err(|source| failed(&self.store, source))?;
        }
    }
}

fn failed(store: &SqliteStore, source: std::io::Error) -> Unavailable {
    Unavailable::Io { action: "watch", path: store.0.writer_lock.path().to_owned(), source }
}
