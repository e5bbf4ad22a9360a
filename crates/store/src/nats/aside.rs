//! What others wrote in the place of documents: kept beside them, and passed over where runs are listed.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::RunId;

use super::bucket::{RECOVERY, key_of, subject_of};
use super::channel::{Overtaken, Which};
use super::entry::Read;
use super::read::AT_ONCE;
use super::server::Server;
use super::spill::blob_note;
use super::wire::json;
use crate::ExternalWrite;
use crate::error::Unavailable;

impl Server {
    /// Keeps every foreign write since our last entry under a key of its own. Twice is once. Answers the key of the newest;
    /// `None` if it has no bytes.
    pub(super) async fn set_aside(
        &self,
        run: &RunId,
        foreign: &ExternalWrite,
    ) -> Result<Option<String>, Unavailable> {
        let Some(key) = key_of(run) else { return Ok(None) };
        let bucket = self.bucket_of(&foreign.bucket).await?;
        let head = self.last(run).await?.map(|record| record.head);
        let entered = head.and_then(|head| head.entered).map_or(0, |entered| entered.sequence);
        let between =
            bucket.channel.scan(&subject_of(&bucket.name, key), entered + 1, foreign.sequence).await?;
        let mut bodies = Vec::new();
        for found in between {
            match self.read_entry(run, &found)? {
                Read::Ours(_) => {}
                Read::Rewritten(_) | Read::Unfit(_) => bodies.push((found.sequence, found.payload)),
            }
        }
        if let Some(body) = &foreign.body
            && bodies.iter().all(|(sequence, _)| *sequence != foreign.sequence)
        {
            bodies.push((foreign.sequence, Bytes::copy_from_slice(body)));
        }
        let mut newest = None;
        for (sequence, body) in bodies.into_iter().filter(|(_, body)| !body.is_empty()) {
            let aside = format!("{RECOVERY}{key}.{sequence}");
            let body = match body.len() {
                // It fits without our headers only.
                size if size > bucket.largest => json(&blob_note(&self.put_blob(&body).await?, size)),
                _ => body,
            };
            // Overtaken by somebody who keeps the same bytes: theirs will do.
            let _there: Result<_, Overtaken> =
                bucket.channel.append(&subject_of(&bucket.name, &aside), 0, body).await?;
            newest = (sequence == foreign.sequence).then_some(aside).or(newest);
        }
        Ok(newest)
    }

    /// Runs of whose first commit the journal has no copy yet. A bucket that is gone has none.
    pub(super) async fn keys_but(&self, copied: &BTreeSet<RunId>) -> Result<Vec<RunId>, Unavailable> {
        let Some(bucket) = self.bucket(&self.settings.bucket).await? else { return Ok(Vec::new()) };
        let subjects = match bucket.channel.subjects(&subject_of(&bucket.name, ">")).await {
            Err(Unavailable::NoStream { .. }) => return Ok(Vec::new()),
            subjects => subjects?,
        };
        let prefix = subject_of(&bucket.name, "");
        let unknown = subjects.into_iter().filter_map(|subject| {
            let key = subject.strip_prefix(&prefix).and_then(|key| RunId::new(key).ok());
            let run = key.filter(|run| key_of(run).is_some() && !copied.contains(run))?;
            Some((subject, run))
        });
        let questions = unknown.map(async |(subject, run)| {
            let found = bucket.channel.find(&subject, Which::Last).await?;
            let is_ours = |found| matches!(self.read_entry(&run, &found), Ok(Read::Ours(_)));
            let is_ours = found.is_some_and(is_ours);
            Ok::<_, Unavailable>(is_ours.then_some(run))
        });
        let runs = futures_util::stream::iter(questions).buffer_unordered(AT_ONCE);
        runs.try_filter_map(async |run| Ok(run)).try_collect().await
    }
}
