//! Runs of a store whose blob stream was deleted. Runs need their blobs, so the store does not open; the journal can
//! still be read.

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::{Revision, RunId};

use crate::error::Unavailable;
use crate::nats::backend::NatsStore;
use crate::nats::connection::{JOURNAL, Lookup, NatsSettings, NoticeHandler, StreamHandle, StreamSetup};
use crate::nats::journal::{DeltaLocation, Head, RUN_SUBJECT_PREFIX, decode, run_of};

/// A run without its blobs. The definition of every run is a blob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingBlobs {
    pub run: RunId,
    /// The newest revision.
    pub revision: Revision,
    /// The revisions whose delta (what the commit changed) was in a blob.
    pub lost: Vec<Revision>,
}

/// How many runs are read concurrently.
const CONCURRENCY: usize = 8;

impl NatsStore {
    /// Returns the runs of a store whose blobs were deleted, sorted by name. `None` if the journal was deleted, too.
    pub async fn missing_blobs(
        settings: &NatsSettings,
        notify: NoticeHandler,
    ) -> Result<Option<Vec<MissingBlobs>>, Unavailable> {
        let (setup, _) = StreamSetup::connect(settings, notify).await?;
        let Some(journal) = setup.find(JOURNAL).await? else { return Ok(None) };
        let journal = setup.handle(journal);
        let mut subjects = journal.subjects(&format!("{RUN_SUBJECT_PREFIX}*")).await?;
        subjects.sort_unstable();
        let runs = subjects.iter().filter_map(|subject| Some((subject, run_of(subject)?)));
        let runs = futures_util::stream::iter(runs.map(|(subject, run)| read_run(&journal, subject, run)));
        let runs = runs.buffered(CONCURRENCY).try_filter_map(async |run| Ok(run));
        runs.try_collect().await.map(Some)
    }
}

async fn read_run(
    journal: &StreamHandle,
    subject: &str,
    run: RunId,
) -> Result<Option<MissingBlobs>, Unavailable> {
    let Some(last) = journal.find(subject, Lookup::Last).await? else { return Ok(None) };
    let mut missing_blobs = MissingBlobs { run, revision: Revision(0), lost: Vec::new() };
    let mut exists = false;
    for found in journal.scan(subject, 1, last.sequence).await? {
        // A message in a newer format does not hide the others.
        let Ok(record) = decode(&found) else { continue };
        let Head { revision, .. } = record.head;
        exists = record.head.exists();
        missing_blobs.revision = revision;
        if record.commit().is_some_and(|committed| matches!(committed.delta, DeltaLocation::Blob(_))) {
            missing_blobs.lost.push(revision);
        }
    }
    Ok(exists.then_some(missing_blobs))
}
