//! The NATS key-value bucket with the documents of peer cycles: reads its keys, and deletes those of older formats once
//! their cycles are imported. Its servers need not have a store of Callboard.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use store::{KvBucket, KvEntry};

use super::dump::Dump;
use super::report::{CycleReport, ImportResult};
use crate::failure::{Exit, Failure};
use crate::output;
use crate::workspace::Workspace;

/// A bucket, and its entries when it was read.
#[derive(Debug)]
pub(super) struct Bucket {
    server: String,
    name: String,
    bucket: KvBucket,
    entries: Vec<KvEntry>,
    /// The same entries, with each blob in place of the reference to it.
    resolved: Vec<KvEntry>,
}

/// What `--delete-old` did.
#[derive(Debug, Default, Serialize)]
pub(super) struct DeletedKeys {
    pub(super) keys: Vec<String>,
    /// Not deleted, because another client has written to them since they were read.
    pub(super) changed: Vec<String>,
}

impl DeletedKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.changed.is_empty()
    }
}

impl Bucket {
    /// Reads the bucket at a server's address; `None` for the path of a file or a directory.
    pub(super) async fn read(workspace: &Workspace, source: &Path) -> Result<Option<Self>, Failure> {
        let Some(address) = source.to_str().filter(|text| text.contains("://")) else { return Ok(None) };
        let settings = workspace.config.nats_settings_for(address);
        let settings = settings
            .map_err(|error| Failure::usage("cannot use the address after `--peer`").because(Some(&error)))?;
        let (server, name) = (settings.server(), settings.bucket.clone());
        let bucket = KvBucket::find(&settings, output::print_nats_notice).await?.ok_or_else(|| {
            Failure::new(Exit::Usage, format!("there is no bucket `{name}` at `{server}`")).hint(
                "run `nats kv ls` to list the buckets, and set `bucket` in `[store]` to use another one",
            )
        })?;
        let entries = bucket.entries().await?;
        let mut resolved = Vec::with_capacity(entries.len());
        for entry in &entries {
            resolved.push(bucket.inline_blobs(entry).await?);
        }
        Ok(Some(Self { server, name, bucket, entries, resolved }))
    }

    /// The address of the bucket.
    pub(super) fn address(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// The entry under a key.
    pub(super) fn entry(&self, key: &str) -> Option<&KvEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(super) fn dump(&self) -> Dump {
        Dump::of_bucket(&self.address(), &self.resolved)
    }

    /// Deletes the keys whose cycles are imported. The key that holds a cycle's document stays, and so do keys that a cycle needs
    /// that is not imported.
    pub(super) async fn delete_old(&self, cycles: &[CycleReport]) -> Result<DeletedKeys, Failure> {
        let mut old = BTreeSet::new();
        let mut retained = BTreeSet::new();
        for cycle in cycles {
            retained.insert(cycle.run.as_str());
            let keys = cycle.migrated.sources.iter().map(|source| source.key.as_str());
            let keys = keys.chain(cycle.migrated.superseded.iter().map(|key| key.key.as_str()));
            match cycle.result {
                ImportResult::Imported | ImportResult::Exists => old.extend(keys),
                ImportResult::New | ImportResult::Differs => retained.extend(keys),
            }
        }
        let mut deleted = DeletedKeys::default();
        for entry in &self.entries {
            let key = entry.key.as_str();
            if !old.contains(key) || retained.contains(key) {
                continue;
            }
            let list =
                if self.bucket.delete(entry).await? { &mut deleted.keys } else { &mut deleted.changed };
            list.push(key.to_owned());
        }
        Ok(deleted)
    }
}
