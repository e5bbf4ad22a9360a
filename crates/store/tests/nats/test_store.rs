//! A NATS store for the contract suite. It can add a document to every commit, as the `peer` protocol does.

use std::ffi::{OsStr, OsString};

use async_trait::async_trait;
use protocol::{Revision, RunId};
use serde_json::json;
use store::{
    Commit, CommitError, Digest, EngineHolder, EngineLock, EngineLockError, ExternalWrite, LoadedRun,
    LockPurpose, NatsStore, NewEntries, Part, Position, ReadError, RunListing, Store, StoredDocument,
    StoredEntry, ViewMark, Watch, WriteError, WriteId,
};
use testkit::nats;

/// Passes calls to a NATS store.
#[derive(Debug, Clone)]
pub(crate) struct TestStore {
    store: NatsStore,
    /// Whether a commit without a document gets one.
    adds_documents: bool,
}

/// Prefix of the address of a store whose commits carry documents.
const WITH_DOCUMENTS: &str = "documents@";

pub(crate) fn address_with_documents(address: &str) -> OsString {
    format!("{WITH_DOCUMENTS}{address}").into()
}

impl TestStore {
    pub(crate) fn attach(address: &OsStr) -> Self {
        let address = address.to_str().unwrap();
        let (address, adds_documents) = match address.strip_prefix(WITH_DOCUMENTS) {
            Some(address) => (address, true),
            None => (address, false),
        };
        Self { store: NatsStore::new(nats::settings(address)), adds_documents }
    }

    pub(crate) fn with_documents(store: NatsStore) -> Self {
        Self { store, adds_documents: true }
    }
}

/// Returns a document that is unique to a commit.
fn document_of(commit: &Commit) -> String {
    let parts: serde_json::Map<_, _> =
        commit.parts.iter().map(|part| (part.path.clone(), json!(part.body))).collect();
    json!({ "version": 2, "of": commit.write_id.to_string(), "parts": parts }).to_string()
}

#[async_trait]
impl Store for TestStore {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        let document = commit.document.clone().or_else(|| self.adds_documents.then(|| document_of(&commit)));
        self.store.commit(Commit { document, ..commit }).await
    }

    async fn resolve_unknown_write(
        &self,
        run: &RunId,
        write_id: WriteId,
    ) -> Result<Option<Position>, ReadError> {
        self.store.resolve_unknown_write(run, write_id).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<LoadedRun>, ReadError> {
        self.store.load(run).await
    }

    async fn remove_run(&self, lock: &EngineLock, position: Position) -> Result<(), CommitError> {
        self.store.remove_run(lock, position).await
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<NewEntries>, ReadError> {
        self.store.catch_up(run, position).await
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        self.store.protocol(run).await
    }

    async fn newest_revision(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        self.store.newest_revision(run).await
    }

    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError> {
        self.store.document(run).await
    }

    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.store.entry(run, revision).await
    }

    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError> {
        self.store.entries(run, after).await
    }

    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        self.store.entries_between(run, after, last).await
    }

    async fn last_intact_revision(&self, run: &RunId) -> Result<Revision, ReadError> {
        self.store.last_intact_revision(run).await
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.store.snapshot_at(run, revision).await
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        self.store.parts_at(run, revision).await
    }

    async fn runs(&self) -> Result<Vec<RunListing>, ReadError> {
        self.store.runs().await
    }

    async fn runs_with_prefix(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        self.store.runs_with_prefix(beginning, at_most).await
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        self.store.put_blobs(blobs).await
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.store.blob(digest).await
    }

    fn has_public_documents(&self) -> bool {
        self.store.has_public_documents()
    }

    async fn quarantine_external_write(
        &self,
        run: &RunId,
        write: &ExternalWrite,
    ) -> Result<Option<String>, WriteError> {
        self.store.quarantine_external_write(run, write).await
    }

    async fn record_view_marks(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        self.store.record_view_marks(run, views).await
    }

    async fn lock_engine_for(
        &self,
        run: &RunId,
        purpose: LockPurpose,
    ) -> Result<EngineLock, EngineLockError> {
        self.store.lock_engine_for(run, purpose).await
    }

    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        self.store.engine_holder(run).await
    }

    async fn watch(&self, run: &RunId, after: Revision) -> Result<Watch, ReadError> {
        self.store.watch(run, after).await
    }
}
