//! News from other processes, whatever the store is made of.

use protocol::Revision;

use crate::error::ReadError;
use crate::store::StoredEntry;
use crate::{nats, sqlite};

/// Follows a run's journal. It may be thrown away at any time; another one from [`Watch::after`] goes on.
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
    /// The last revision this watch has given.
    #[must_use]
    pub fn after(&self) -> Revision {
        match &self.0 {
            Source::Sqlite(watch) => watch.after(),
            Source::Nats(watch) => watch.after(),
        }
    }

    /// Waits for the next entries, oldest first, none left out. The run need not exist yet. None at all means that somebody
    /// else wrote in the place of the run's document: [`Loaded::foreign`](crate::Loaded::foreign) tells what.
    ///
    /// A call that is dropped half-way loses nothing.
    pub async fn next(&mut self) -> Result<Vec<StoredEntry>, ReadError> {
        match &mut self.0 {
            Source::Sqlite(watch) => watch.next().await,
            Source::Nats(watch) => watch.next().await,
        }
    }
}
