//! A store in which every commit brings its document along, as the commits of a protocol do that shows one.

use protocol::{Revision, RunId};
use serde_json::json;
use store::{
    AnyStore, CaughtUp, Commit, CommitError, Digest, EngineHolder, EngineLock, EngineLockError,
    ExternalWrite, Loaded, Part, Position, ReadError, RunRow, Store, StoredDocument, StoredEntry, Tenure,
    ViewMark, Watch, WriteError, WriteId,
};

#[derive(Clone)]
pub(crate) struct Showing(pub(crate) AnyStore);

/// A document that tells a commit from any other.
pub(crate) fn document_of(commit: &Commit) -> String {
    let parts: serde_json::Map<_, _> =
        commit.parts.iter().map(|part| (part.path.clone(), json!(part.body))).collect();
    json!({ "version": 2, "of": commit.write_id.to_string(), "parts": parts }).to_string()
}

impl Store for Showing {
    fn is_shared(&self) -> bool {
        self.0.is_shared()
    }

    async fn commit(&self, commit: Commit) -> Result<Position, CommitError> {
        let document = commit.document.clone().unwrap_or_else(|| document_of(&commit));
        self.0.commit(Commit { document: Some(document), ..commit }).await
    }

    async fn settle(&self, run: &RunId, write_id: WriteId) -> Result<Option<Position>, ReadError> {
        self.0.settle(run, write_id).await
    }

    async fn load(&self, run: &RunId) -> Result<Option<Loaded>, ReadError> {
        self.0.load(run).await
    }

    async fn catch_up(&self, run: &RunId, position: Position) -> Result<Option<CaughtUp>, ReadError> {
        self.0.catch_up(run, position).await
    }

    async fn protocol(&self, run: &RunId) -> Result<Option<String>, ReadError> {
        self.0.protocol(run).await
    }

    async fn newest(&self, run: &RunId) -> Result<Option<Revision>, ReadError> {
        self.0.newest(run).await
    }

    async fn document(&self, run: &RunId) -> Result<Option<StoredDocument>, ReadError> {
        self.0.document(run).await
    }

    async fn entry(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.0.entry(run, revision).await
    }

    async fn entries(&self, run: &RunId, after: Revision) -> Result<Vec<StoredEntry>, ReadError> {
        self.0.entries(run, after).await
    }

    async fn entries_between(
        &self,
        run: &RunId,
        after: Revision,
        last: Revision,
    ) -> Result<Vec<StoredEntry>, ReadError> {
        self.0.entries_between(run, after, last).await
    }

    async fn intact(&self, run: &RunId) -> Result<Revision, ReadError> {
        self.0.intact(run).await
    }

    async fn snapshot_at(&self, run: &RunId, revision: Revision) -> Result<Option<StoredEntry>, ReadError> {
        self.0.snapshot_at(run, revision).await
    }

    async fn parts_at(&self, run: &RunId, revision: Revision) -> Result<Vec<Part>, ReadError> {
        self.0.parts_at(run, revision).await
    }

    async fn runs(&self) -> Result<Vec<RunRow>, ReadError> {
        self.0.runs().await
    }

    async fn runs_beginning(&self, beginning: &str, at_most: usize) -> Result<Vec<RunId>, ReadError> {
        self.0.runs_beginning(beginning, at_most).await
    }

    async fn put_blobs(&self, blobs: Vec<Vec<u8>>) -> Result<Vec<Digest>, WriteError> {
        self.0.put_blobs(blobs).await
    }

    async fn blob(&self, digest: &Digest) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.blob(digest).await
    }

    fn keeps_documents(&self) -> bool {
        self.0.keeps_documents()
    }

    async fn set_aside(&self, run: &RunId, foreign: &ExternalWrite) -> Result<Option<String>, WriteError> {
        self.0.set_aside(run, foreign).await
    }

    async fn mark_views(&self, run: &RunId, views: Vec<ViewMark>) -> Result<(), WriteError> {
        self.0.mark_views(run, views).await
    }

    async fn lock_engine_for(&self, run: &RunId, tenure: Tenure) -> Result<EngineLock, EngineLockError> {
        self.0.lock_engine_for(run, tenure).await
    }

    async fn engine_holder(&self, run: &RunId) -> Result<Option<EngineHolder>, ReadError> {
        self.0.engine_holder(run).await
    }

    async fn watch(&self, run: &RunId, after: Revision) -> Result<Watch, ReadError> {
        self.0.watch(run, after).await
    }
}
