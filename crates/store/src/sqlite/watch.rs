//! News from other processes, without polling.

use protocol::{Revision, RunId};

use super::SqliteStore;
use crate::error::{ReadError, Unavailable};
use crate::os::Wakeup;
use crate::store::{Store as _, StoredEntry};

/// Looks at the journal whenever a writer has rung the bell.
#[derive(Debug)]
pub(crate) struct Watch {
    store: SqliteStore,
    run: RunId,
    after: Revision,
    wakeup: Wakeup,
}

impl Watch {
    pub(super) fn subscribe(store: SqliteStore, run: RunId, after: Revision) -> Result<Self, Unavailable> {
        let path = store.0.writer_lock.path();
        let wakeup = Wakeup::hang(path).map_err(|source| failed(&store, source))?;
        // The bell hangs on whatever has that name; only now do we know that it is the ticket writers use.
        store.0.check()?;
        Ok(Self { store, run, after, wakeup })
    }

    pub(crate) fn after(&self) -> Revision {
        self.after
    }

    /// A call that is dropped half-way loses nothing: each one looks before it listens.
    pub(crate) async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        loop {
            let news = self.store.entries(&self.run, self.after).await?;
            if let Some(last) = news.last() {
                self.after = last.revision;
                return Ok(news);
            }
            self.wakeup.rung().await.map_err(|source| failed(&self.store, source))?;
        }
    }
}

fn failed(store: &SqliteStore, source: std::io::Error) -> Unavailable {
    Unavailable::Io { action: "watch", path: store.0.writer_lock.path().to_owned(), source }
}
