//! Makes a run from a document: a view file, for example when the store is lost; or a peer cycle of the original, which was
//! read from a dump of its key-value store and migrated.

use std::collections::BTreeMap;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input, RecoverySource};
use protocol::run::{self, Decision, Request, RunStatus};
use protocol::{ImportRefusal, ProtocolKind, RunId, StepId, Timestamp, Turn};
use serde_json::Value;
use store::{AnyStore, CommitError, KvEntry, RunWriteError, RunWriter, WriteId};

use crate::recovery::{Replay, recovery_epoch};
use crate::run::RunSpec;

/// A document to import: a view, or the document of another run.
#[derive(Debug, Clone)]
pub struct DocumentImport {
    /// Where the document comes from, for people: a path, or a run and its revision.
    pub path: String,
    pub document: Value,
    /// The least number of turns that each step has had, so that no attempt id is used twice.
    pub turns: BTreeMap<StepId, Turn>,
    /// What a user had asked of the run when the document was written, such as to pause.
    pub request: Option<Request>,
}

/// The document that an old peer cycle was [migrated](RecoverySource::Migrated) to.
#[derive(Debug, Clone)]
pub struct Migration {
    /// The path of the dump: a file with the keys and values of the original's key-value store.
    pub from: String,
    pub document: Value,
    /// The bucket entry that the document replaces, if the bucket has the key of this run.
    pub replaces: Option<KvEntry>,
}

/// Why no run could be made from a document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentImportError {
    #[error(transparent)]
    Refused(#[from] ImportRefusal),
    #[error("a run named `{0}` exists already")]
    Exists(RunId),
    #[error(transparent)]
    Store(RunWriteError),
}

impl From<RunWriteError> for DocumentImportError {
    fn from(error: RunWriteError) -> Self {
        Self::Store(error)
    }
}

/// Makes a run of two entries: the first opens it, the second records the document and moves the run to its state.
/// Returns the run's status. Without a store, writes nothing.
pub async fn import_document(
    store: Option<&AnyStore>,
    by: &Author,
    now: Timestamp,
    kind: &'static dyn ProtocolKind,
    spec: RunSpec,
    import: DocumentImport,
) -> Result<RunStatus, DocumentImportError> {
    let DocumentImport { path, document, turns, request } = import;
    let mut replay = Replay::begin(kind, spec).expect("BUG: the definition is of another protocol");
    let status = replay.machine().import(&document)?;
    let mut after = replay.state.run.clone();
    let mut decision = run::import(&mut after, status, turns);
    if let Some(Ok(granted)) = request.map(|request| run::consider(&mut after, &request)) {
        decision.changes.extend(granted.changes);
    }
    write(store, by, now, &mut replay, RecoverySource::View { path, document }, decision, None).await?;
    Ok(after.status)
}

/// Makes a run from a migrated document, of two entries as [`import_document`] does. A run that is not finished is paused,
/// because no user has asked to continue it. Returns the run's status. Without a store, writes nothing.
pub async fn migrate(
    store: Option<&AnyStore>,
    by: &Author,
    now: Timestamp,
    kind: &'static dyn ProtocolKind,
    spec: RunSpec,
    migration: Migration,
) -> Result<RunStatus, DocumentImportError> {
    let Migration { from, document, replaces } = migration;
    let mut replay = Replay::begin(kind, spec).expect("BUG: the definition is of another protocol");
    let status = replay.machine().import(&document)?;
    let mut after = replay.state.run.clone();
    let mut decision = run::import(&mut after, status, BTreeMap::new());
    if let Ok(paused) = run::consider(&mut after, &Request::Pause) {
        decision.changes.extend(paused.changes);
    }
    write(store, by, now, &mut replay, RecoverySource::Migrated { from, document }, decision, replaces)
        .await?;
    Ok(after.status)
}

/// Writes the two entries, if there is a store. `replay` makes their commits.
async fn write(
    store: Option<&AnyStore>,
    by: &Author,
    now: Timestamp,
    replay: &mut Replay,
    source: RecoverySource,
    decision: Decision,
    replaces: Option<KvEntry>,
) -> Result<(), DocumentImportError> {
    let Some(store) = store else { return Ok(()) };
    let blob = serde_json::to_vec(&replay.spec).expect("BUG: a run spec is plain data");
    let definition = store::Digest::of(&blob).to_string();
    let opened = entry(by, now, Input::Opened { spec_digest: definition }, Decision::nothing());
    let recovered = entry(by, now, Input::Recovered { source }, decision);
    let run = replay.run.clone();
    // Such a store keeps the whole document where other programs can read it.
    replay.commits_whole_document = store.has_public_documents();
    let fill = |writer: &mut RunWriter<'_>| -> Result<(), DocumentImportError> {
        writer.put_blob(&blob)?;
        for entry in [&opened, &recovered] {
            let commit =
                replay.add(&entry.encode(), WriteId::new()).expect("BUG: the entry can always follow");
            replay.position = writer.append(&commit)?;
        }
        if let Some(replaces) = replaces.clone() {
            writer.replace_bucket_entry(replaces);
        }
        // An engine that still runs on the lost store is fenced: the epoch is higher than its own.
        let created = now.to_jiff().unwrap_or_default();
        Ok(writer.set_created_and_epoch(&replay.run, created, recovery_epoch(now))?)
    };
    match store.put_run(fill).await {
        Err(DocumentImportError::Store(RunWriteError::Refused(CommitError::Conflict { .. }))) => {
            Err(DocumentImportError::Exists(run))
        }
        written => written,
    }
}

fn entry(by: &Author, at: Timestamp, input: Input, decision: Decision) -> Entry {
    Entry {
        v: ENTRY_VERSION,
        at,
        by: by.clone(),
        input,
        changes: decision.changes,
        actions: decision.actions,
        timers: Vec::new(),
    }
}
