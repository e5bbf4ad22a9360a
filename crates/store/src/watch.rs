//! Follows the journal of a run, on every backend.

use protocol::Revision;

use crate::error::ReadError;
use crate::store::StoredEntry;
use crate::{nats, sqlite};

/// Follows a run's journal. A new watch from [`Watch::after`] continues a dropped one.
#[derive(Debug)]
pub struct Watch(Source);

#[derive(Debug)]
enum Source {
    Sqlite(sqlite::Watch),
    Nats(Box<nats::Watch>),
}

impl From<sqlite::Watch> for Watch {
    fn from(watch: sqlite::Watch) -> Self {
        Self(Source::Sqlite(watch))
    }
}

impl From<nats::Watch> for Watch {
    fn from(watch: nats::Watch) -> Self {
        Self(Source::Nats(Box::new(watch)))
    }
}

impl Watch {
    /// The last revision that this watch has returned.
    #[must_use]
    pub fn after(&self) -> Revision {
        match &self.0 {
            Source::Sqlite(watch) => watch.after(),
            Source::Nats(watch) => watch.after(),
        }
    }

    /// Waits for the next entries and returns them without a gap, oldest first. The run need not exist yet.
    ///
    /// An empty list means that another program wrote in place of the run's document; see
    /// [`LoadedRun::external_write`](crate::LoadedRun::external_write). Cancel-safe.
    pub async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        match &mut self.0 {
            Source::Sqlite(watch) => watch.next().await,
            Source::Nats(watch) => watch.next().await,
        }
    }
}
