//! Implements [`Store`] with one connection for writing and one for reading.
//!
//! A write waits for the writer lock and the disk, so it runs on tokio's pool for blocking calls. A read waits for no
//! lock, so it runs on the calling thread: handing it to another thread would take longer than most reads.

use std::sync::Arc;

use async_trait::async_trait;
use protocol::{Revision, RunId};

use super::connection::{Database, OpenError, StoreInspection, WriteFailure, inspect, open};
use super::lock::engine;
use super::sql::{read, write};
use super::watch::Watch;
use crate::commit::{COMMIT_LIMIT, Commit, Part, Position, ViewMark, WriteId};
use crate::error::{CommitError, EngineLockError, ReadError, Unavailable, WriteError};
use crate::store::{LoadedRun, NewEntries, RunListing, Store, StoredDocument, StoredEntry};
use crate::{Digest, EngineHolder, EngineLock, Location, LockPurpose};

/// An open embedded store.
#[derive(Debug, Clone)]
pub struct SqliteStore(pub(super) Arc<Database>);

impl SqliteStore {
    /// Opens the store, and creates it first if there is none. Blocks.
    pub fn open(location: &Location) -> Result<Self, OpenError> {
        open::open(location).map(|database| Self(Arc::new(database)))
    }

    /// Opens the store, or returns `None` if there is none. Blocks.
    pub fn open_existing(location: &Location) -> Result<Option<Self>, OpenError> {
        Ok(open::open_existing(location)?.map(|database| Self(Arc::new(database))))
    }

    /// Checks the store without changing any file or waiting for a lock. Returns `None` if there is none.
    pub fn inspect(location: &Location) -> Result<Option<StoreInspection>, OpenError> {
        inspect::inspect(location)
    }

    #[must_use]
    pub fn location(&self) -> &Location {
        self.0.location()
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&rusqlite::Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Unavailable> {
        self.0.read(query)
    }

    /// Runs work on the pool for blocking calls. If it panics, so does the caller.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Database) -> T + Send + 'static) -> T {
        let database = Arc::clone(&self.0);
        match tokio::task::spawn_blocking(move || work(&database)).await {
            Ok(answer) => answer,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Blocking work is cancelled only by a runtime that is shutting down, which polls no future any more.
                Err(error) => panic!("BUG: polled on a runtime that has ended: {error}"),
            },
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn is_shared(&self) -> bool {
        false
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        let size = commit.size();
        if size > COMMIT_LIMIT {
            return Err(CommitError::TooLarge { size, limit: COMMIT_LIMIT });
        }
        let write_id = commit.write_id;
        match self.blocking(move |database| database.write(|tx| write::commit(tx, &commit))).await {
            Ok(outcome) => outcome,
            Err(WriteFailure::Unavailable(unavailable)) => Err(unavailable.into()),
            Err(WriteFailure::OutcomeUnknown { source, .. }) => {
                Err(CommitError::OutcomeUnknown { write_id, source: source.into() })
            }
        }
    }

    async fn resolve_unknown_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        Ok(self.read(|tx| read::resolve_unknown_write(tx, run, write_id))?)
    }

    async fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, ReadError> {
        Ok(self.read(|tx| read::load(tx, run))?)
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<NewEntries>, ReadError> {
        Ok(self.read(|tx| read::catch_up(tx, run, position))?)
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        Ok(self.read(|tx| read::protocol(tx, run))?)
    }

    async fn newest_revision(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        Ok(self.read(|tx| read::newest_revision(tx, run))?)
    }

    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError> {
        Ok(self.read(|tx| read::document(tx, run))?)
    }

    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        Ok(self.read(|tx| read::entry(tx, run, revision))?)
    }

    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError> {
        Ok(self.read(|tx| read::entries(tx, run, after))?)
    }

    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        Ok(self.read(|tx| read::entries_between(tx, run, after, last))?)
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        Ok(self.read(|tx| read::snapshot_at(tx, run, revision))?)
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        Ok(self.read(|tx| read::parts_at(tx, run, revision))?)
    }

    async fn runs(&self) -> Result<Vec<RunListing>, ReadError> {
        Ok(self.read(read::runs)?)
    }

    async fn last_intact_revision(&self, run: &RunId) -> Result<Revision, ReadError> {
        Ok(self.read(|tx| read::last_intact_revision(tx, run))?)
    }

    async fn runs_with_prefix(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        Ok(self.read(|tx| read::runs_with_prefix(tx, beginning, at_most))?)
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        self.blocking(move |database| {
            // Hash before taking the writer lock.
            let digests: Vec<Digest> = blobs.iter().map(Digest::of).collect();
            let missing = database.read(|tx| read::missing_blobs(tx, &digests))?;
            if !missing.is_empty() {
                database.write(|tx| {
                    write::insert_blobs(tx, missing.iter().map(|&i| (&digests[i], &blobs[i])))
                })??;
            }
            Ok(digests)
        })
        .await
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        match self.read(|tx| read::blob(tx, digest))? {
            Some(body) if Digest::of(&body) != *digest => {
                Err(ReadError::DamagedBlob { digest: digest.clone() })
            }
            body => Ok(body),
        }
    }

    async fn record_view_marks(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        let run = run.clone();
        self.blocking(move |database| database.write(|tx| write::record_view_marks(tx, &run, &views))?).await
    }

    async fn lock_engine_for(
        &self,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<EngineLock, EngineLockError> {
        let run = run.clone();
        self.blocking(move |database| engine::acquire(database, run, purpose)).await
    }

    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        let run = run.clone();
        Ok(self.blocking(move |database| engine::holder(database, &run)).await?)
    }

    async fn peek_engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        if !engine::lock_file_may_exist(&self.0, run) {
            return Ok(None);
        }
        match engine::visible_holder(&self.0, run) {
            Some(holder) => Ok(Some(holder)),
            // The holder may be invisible, so test the lock.
            None => self.engine_holder(run).await,
        }
    }

    async fn remove_run(&self, lock: &EngineLock, position: Position) -> Result<(), CommitError> {
        let (run, epoch) = (lock.run().clone(), lock.epoch());
        let removed = self.blocking(move |database| {
            let removed = database.write(|tx| write::remove_run(tx, &run, position, epoch));
            database.truncate_wal();
            removed
        });
        removed.await.unwrap_or_else(|failure| Err(CommitError::Unavailable(failure.into())))
    }

    async fn watch(&self, run: &RunId, after: Revision) -> Result<crate::Watch, ReadError> {
        Ok(Watch::subscribe(self.clone(), run.clone(), after)?.into())
    }
}

impl From<WriteFailure> for WriteError {
    fn from(failure: WriteFailure) -> Self {
        Self::Unavailable(failure.into())
    }
}

impl From<WriteFailure> for EngineLockError {
    fn from(failure: WriteFailure) -> Self {
        Self::Unavailable(failure.into())
    }
}
