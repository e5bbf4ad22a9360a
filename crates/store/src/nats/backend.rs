//! [`NatsStore`]: the [`Store`] contract on NATS.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::{Revision, RunId};
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::commit::{COMMIT_LIMIT, Commit, Part, Position, ViewMark, WriteId};
use crate::error::{CommitError, EngineLockError, ReadError, Unavailable, WriteError};
use crate::nats::connection::{
    Conflict, NatsSettings, NoticeHandler, RequestFailure, Session, ignore_notices,
};
use crate::nats::health::{NatsWarning, UnknownMessage};
use crate::nats::journal::{Content, JournalEnd, Watch};
use crate::run_writer::BufferedRun;
use crate::store::{LoadedRun, NewEntries, RunListing, Store, StoredDocument, StoredEntry};
use crate::{Digest, EngineHolder, EngineLock, ExternalWrite, LockPurpose, RunWriteError};

/// How many blobs are written concurrently.
const CONCURRENT_BLOBS: usize = 8;

/// A store on NATS. It connects on first use; its tasks run on the tokio runtime of that call.
#[derive(Debug, Clone)]
pub struct NatsStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: NatsSettings,
    notify: NoticeHandler,
    session: OnceCell<Arc<Session>>,
}

impl NatsStore {
    #[must_use]
    pub fn new(settings: NatsSettings) -> Self {
        Self::with_notice_handler(settings, ignore_notices)
    }

    /// Creates a store that reports waiting and warnings to `notify`.
    #[must_use]
    pub fn with_notice_handler(settings: NatsSettings, notify: NoticeHandler) -> Self {
        Self(Arc::new(Inner { settings, notify, session: OnceCell::new() }))
    }

    /// Connects, creates missing streams, and returns warnings about their configuration.
    pub async fn open(&self) -> Result<&[NatsWarning], Unavailable> {
        Ok(&self.session().await?.warnings)
    }

    /// Creates deleted document buckets again, empty, and returns their names.
    ///
    /// A run whose document was in such a bucket finds the document deleted, and can restore it from the journal.
    pub async fn rebuild_buckets(&self) -> Result<Vec<String>, Unavailable> {
        self.session().await?.rebuild_buckets().await
    }

    /// Returns the messages in the journal that Callboard did not write. A run cannot continue after such a message.
    pub async fn unknown_messages(&self) -> Result<Vec<UnknownMessage>, Unavailable> {
        self.session().await?.unknown_messages().await
    }

    /// Stores an unknown message under its [name](UnknownMessage::name) and removes it from the journal.
    pub async fn quarantine_message(&self, message: &UnknownMessage) -> Result<(), Unavailable> {
        self.session().await?.quarantine_message(message).await
    }

    #[must_use]
    pub fn settings(&self) -> &NatsSettings {
        &self.0.settings
    }

    /// Whether the streams were created by this connection.
    pub async fn is_new(&self) -> Result<bool, Unavailable> {
        Ok(self.session().await?.is_new)
    }

    /// Returns the id of this store. It is the same on every server of a cluster.
    pub async fn id(&self) -> Result<&str, Unavailable> {
        Ok(&self.session().await?.id)
    }

    /// Writes a complete run that does not exist yet.
    pub(crate) async fn put_run(&self, buffered: BufferedRun) -> Result<(), RunWriteError> {
        self.session().await?.put_run(buffered).await
    }

    pub(super) async fn session(&self) -> Result<&Arc<Session>, Unavailable> {
        let Inner { settings, notify, session } = &*self.0;
        // Boxed: it runs once, and would otherwise be part of every future that needs the session.
        session.get_or_try_init(async || Box::pin(Session::open(settings, *notify)).await.map(Arc::new)).await
    }
}

#[async_trait]
impl Store for NatsStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn conflict_timeout(&self) -> Duration {
        self.0.settings.timeouts.conflict
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        let size = commit.size();
        if size > COMMIT_LIMIT {
            return Err(CommitError::TooLarge { size, limit: COMMIT_LIMIT });
        }
        self.session().await?.commit(commit).await
    }

    async fn resolve_unknown_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        self.session().await?.resolve_unknown_write(run, write_id).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, ReadError> {
        self.session().await?.load(run).await
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<NewEntries>, ReadError> {
        self.session().await?.catch_up(run, position).await
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        Ok(self.session().await?.reconcile_and_read_last(run).await?.map(|newest| newest.head.protocol))
    }

    async fn newest_revision(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        Ok(self.session().await?.reconcile_and_read_last(run).await?.map(|newest| newest.head.revision))
    }

    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError> {
        let session = self.session().await?;
        let Some(newest) = session.reconcile_and_read_last(run).await? else { return Ok(None) };
        let revision = newest.head.revision;
        let parts = session.parts_at(run, revision).await?;
        Ok(Some(StoredDocument { protocol: newest.head.protocol, revision, parts }))
    }

    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        let Some(before) = revision.0.checked_sub(1) else { return Ok(None) };
        let found = self.session().await?.entries_between(run, Revision(before), revision).await?;
        Ok(found.into_iter().find(|entry| entry.revision == revision))
    }

    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError> {
        self.entries_between(run, after, Revision(u64::MAX)).await
    }

    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        self.session().await?.entries_between(run, after, last).await
    }

    async fn last_intact_revision(&self, run: &RunId) -> Result<Revision, ReadError> {
        self.session().await?.last_intact_revision(run).await
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.session().await?.snapshot_at(run, revision).await
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        self.session().await?.parts_at(run, revision).await
    }

    async fn runs(&self) -> Result<Vec<RunListing>, ReadError> {
        self.session().await?.runs().await
    }

    async fn runs_with_prefix(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        self.session().await?.runs_with_prefix(beginning, at_most).await
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        let session = self.session().await?;
        let writes = blobs.into_iter().map(|blob| async move { session.put_blob(&blob).await });
        Ok(futures_util::stream::iter(writes).buffered(CONCURRENT_BLOBS).try_collect().await?)
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.session().await?.blob(digest).await
    }

    fn has_public_documents(&self) -> bool {
        true
    }

    async fn quarantine_external_write(
        &self,
        run: &RunId,
        external_write: &ExternalWrite,
    ) -> Result<Option<String>, WriteError> {
        Ok(self.session().await?.quarantine_external_writes(run, external_write).await?)
    }

    async fn record_view_marks(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        let session = self.session().await?;
        let mut conflicts = session.journal.conflict_backoff("mark views at");
        let content = Content::ViewMarks { id: Uuid::now_v7().to_string(), views };
        loop {
            let Some(newest) = session.reconcile_and_read_last(run).await? else {
                return Err(WriteError::NoSuchRun { run: run.clone() });
            };
            match session.append_content(run, JournalEnd::of(Some(&newest)), &content).await? {
                Ok(()) => return Ok(()),
                Err(Conflict) => {
                    conflicts
                        .wait(RequestFailure::temporary("too many conflicts with other writers of the run"))
                        .await?;
                }
            }
        }
    }

    async fn lock_engine_for(
        &self,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<EngineLock, EngineLockError> {
        self.session().await?.lock(run, purpose).await
    }

    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        Ok(self.session().await?.lease_holder(run).await?)
    }

    async fn remove_run(&self, lock: &EngineLock, position: Position) -> Result<(), CommitError> {
        self.session().await?.remove_run(lock, position).await
    }

    async fn watch(&self, run: &RunId, after: Revision) -> Result<crate::Watch, ReadError> {
        let session = Arc::clone(self.session().await?);
        Ok(Watch::subscribe(session, run.clone(), after).await?.into())
    }
}
