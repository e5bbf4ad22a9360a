//! Writes of other clients to documents: kept in the same bucket, under keys that the listing of runs ignores.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::RunId;

use super::bucket::{RECOVERY_PREFIX, document_key, key_subject};
use super::entry::ParsedEntry;
use super::large_values::blob_reference;
use crate::ExternalWrite;
use crate::error::Unavailable;
use crate::nats::connection::{Conflict, Lookup, Session};
use crate::nats::journal::{CONCURRENCY, json};

impl Session {
    /// Stores every external write since the newest entry of Callboard, up to `external_write`, under a key of its own.
    /// Idempotent.
    ///
    /// Returns the key of `external_write`, or `None` if it has no bytes, as a deletion.
    pub(in crate::nats) async fn quarantine_external_writes(
        &self,
        run: &RunId,
        external_write: &ExternalWrite,
    ) -> Result<Option<String>, Unavailable> {
        let Some(key) = document_key(run) else { return Ok(None) };
        let bucket = self.existing_bucket(&external_write.bucket).await?;
        let head = self.last_journal_record(run).await?.map(|record| record.head);
        let our_sequence = head.and_then(|head| head.document_entry).map_or(0, |entry| entry.sequence);
        let written_since = bucket
            .handle
            .scan(&key_subject(&bucket.name, key), our_sequence + 1, external_write.sequence)
            .await?;
        let mut bodies = Vec::new();
        for found in written_since {
            match self.parse_entry(run, &found)? {
                ParsedEntry::Intact(_) => {}
                ParsedEntry::DocumentChanged(_) | ParsedEntry::Invalid(_) => {
                    bodies.push((found.sequence, found.payload));
                }
            }
        }
        if let Some(body) = &external_write.body
            && bodies.iter().all(|(sequence, _)| *sequence != external_write.sequence)
        {
            bodies.push((external_write.sequence, Bytes::copy_from_slice(body)));
        }
        let mut newest_key = None;
        for (sequence, body) in bodies.into_iter().filter(|(_, body)| !body.is_empty()) {
            let quarantined = format!("{RECOVERY_PREFIX}{key}.{sequence}");
            let body = match body.len() {
                // It does not fit into an entry with our headers.
                size if size > bucket.max_payload => {
                    json(&blob_reference(&self.put_blob(&body).await?, size))
                }
                _ => body,
            };
            // A conflict means that another process has stored the same bytes.
            let _conflict_is_fine: Result<_, Conflict> =
                bucket.handle.append(&key_subject(&bucket.name, &quarantined), 0, body).await?;
            newest_key = (sequence == external_write.sequence).then_some(quarantined).or(newest_key);
        }
        Ok(newest_key)
    }

    /// Returns the runs whose first commit is in the bucket and has no copy in the journal yet. A deleted bucket has no
    /// runs.
    pub(in crate::nats) async fn uncopied_runs(
        &self,
        copied: &BTreeSet<RunId>,
    ) -> Result<Vec<RunId>, Unavailable> {
        let Some(bucket) = self.bucket(&self.settings.bucket).await? else { return Ok(Vec::new()) };
        let subjects = match bucket.handle.subjects(&key_subject(&bucket.name, ">")).await {
            Err(Unavailable::StreamDeleted { .. }) => return Ok(Vec::new()),
            subjects => subjects?,
        };
        let prefix = key_subject(&bucket.name, "");
        let candidates = subjects.into_iter().filter_map(|subject| {
            let key = subject.strip_prefix(&prefix).and_then(|key| RunId::new(key).ok());
            let run = key.filter(|run| document_key(run).is_some() && !copied.contains(run))?;
            Some((subject, run))
        });
        let requests = candidates.map(async |(subject, run)| {
            let found = bucket.handle.find(&subject, Lookup::Last).await?;
            let is_ours = |found| matches!(self.parse_entry(&run, &found), Ok(ParsedEntry::Intact(_)));
            let is_ours = found.is_some_and(is_ours);
            Ok::<_, Unavailable>(is_ours.then_some(run))
        });
        let runs = futures_util::stream::iter(requests).buffer_unordered(CONCURRENCY);
        runs.try_filter_map(async |run| Ok(run)).try_collect().await
    }
}
