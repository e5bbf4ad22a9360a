//! A bucket that is in use: read as it is, and rid of old keys when they were taken over.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use store::{KvBucket, KvEntry};

use super::dump::Dump;
use super::told::{CycleTold, Fate};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::Workspace;

/// A bucket, and what was in it when we looked.
#[derive(Debug)]
pub(super) struct Live {
    server: String,
    name: String,
    bucket: KvBucket,
    entries: Vec<KvEntry>,
    /// The same, our own with their large pieces.
    whole: Vec<KvEntry>,
}

/// What became of old keys.
#[derive(Debug, Default, Serialize)]
pub(super) struct Deleted {
    pub(super) keys: Vec<String>,
    /// Somebody has written to them since they were read.
    pub(super) left: Vec<String>,
}

impl Deleted {
    pub(super) fn is_nothing(&self) -> bool {
        self.keys.is_empty() && self.left.is_empty()
    }
}

impl Live {
    /// Reads the bucket if servers were typed; `None` for a file or a directory.
    pub(super) async fn find(workspace: &Workspace, typed: &Path) -> Result<Option<Self>, Failure> {
        let Some(address) = typed.to_str().filter(|text| text.contains("://")) else { return Ok(None) };
        let settings = workspace.config.settings_for(address);
        let settings = settings
            .map_err(|error| Failure::usage("cannot use the address after `--peer`").because(Some(&error)))?;
        let (server, name) = (settings.server(), settings.bucket.clone());
        let bucket = KvBucket::find(&settings, output::store_waiting).await?.ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no bucket `{name}` at `{server}`"))
                .hint("`nats kv ls` lists the buckets; `bucket` in `[store]` names another one")
        })?;
        let entries = bucket.entries().await?;
        let mut whole = Vec::with_capacity(entries.len());
        for entry in &entries {
            whole.push(bucket.inline_blobs(entry).await?);
        }
        Ok(Some(Self { server, name, bucket, entries, whole }))
    }

    /// The bucket as people write it.
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// What was under a key.
    pub(super) fn entry(&self, key: &str) -> Option<&KvEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn dump(&self) -> Dump {
        Dump::of_bucket(&self.server, &self.name, &self.whole)
    }

    /// Deletes the keys whose content is in runs now. The one key that a cycle has from now on is not old.
    pub(super) async fn delete_old(&self, cycles: &[CycleTold]) -> Result<Deleted, Failure> {
        let mut old = BTreeSet::new();
        let mut kept = BTreeSet::new();
        for cycle in cycles {
            kept.insert(cycle.run.as_str());
            let keys = cycle.migrated.sources.iter().map(|source| source.key.as_str());
            let keys = keys.chain(cycle.migrated.left_out.iter().map(|left| left.key.as_str()));
            match cycle.fate {
                Fate::Entered | Fate::There => old.extend(keys),
                Fate::New | Fate::Differs => kept.extend(keys),
            }
        }
        let mut deleted = Deleted::default();
        for entry in &self.entries {
            let key = entry.key.as_str();
            if !old.contains(key) || kept.contains(key) {
                continue;
            }
            let list = if self.bucket.delete(entry).await? { &mut deleted.keys } else { &mut deleted.left };
            list.push(key.to_owned());
        }
        Ok(deleted)
    }
}
