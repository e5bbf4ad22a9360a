//! A run made of a document that was found: its view, when the store is gone, or what a dump of another store became.

use std::collections::BTreeMap;

use protocol::entry::{Author, ENTRY_VERSION, Entry, Input, RecoverySource};
use protocol::run::{self, Decision, Request, RunStatus};
use protocol::{ImportRefusal, Protocol, RunId, Stamp, Turn};
use serde_json::Value;
use store::{AnyStore, CommitError, DraftError, LiveEntry, RunWriter, Store as _, WriteId};

use crate::opening::RunSpec;
use crate::rebuild::{Rebuild, epoch_at};

/// A view that was found.
#[derive(Debug, Clone)]
pub struct FoundView<S> {
    pub path: String,
    pub document: Value,
    /// How many turns each step had at least. Attempts are never named twice, not even after this.
    pub turns: BTreeMap<S, Turn>,
}

/// A document to which a dump was [migrated](RecoverySource::Migrated).
#[derive(Debug, Clone)]
pub struct Migrating {
    /// The dump.
    pub from: String,
    pub document: Value,
    /// The entry of a bucket whose place the document takes, if it has the key of this run.
    pub over: Option<LiveEntry>,
}

/// Why no run could be made of a view.
#[derive(Debug, thiserror::Error)]
pub enum DocumentImportError {
    #[error(transparent)]
    NotImportable(#[from] ImportRefusal),
    #[error("a run named `{0}` exists already")]
    Exists(RunId),
    #[error(transparent)]
    Store(DraftError),
}

impl From<DraftError> for DocumentImportError {
    fn from(error: DraftError) -> Self {
        Self::Store(error)
    }
}

/// Makes a run of a view: one entry opens it, a second says what it was rebuilt from and brings it to where the view is.
/// Answers where it stands; without a store it only says what would be.
pub async fn import_document<P: Protocol>(
    store: Option<&AnyStore>,
    by: &Author,
    now: Stamp,
    spec: RunSpec<P>,
    found: FoundView<P::Step>,
) -> Result<RunStatus, DocumentImportError> {
    let FoundView { path, document, turns } = found;
    let stands = P::import(&spec.definition, &document)?;
    let mut rebuild = Rebuild::begin(spec);
    let mut after = rebuild.state.run.clone();
    let decision = run::import(&mut after, stands, turns);
    take(store, by, now, &mut rebuild, RecoverySource::View { path, document }, decision, None).await?;
    Ok(after.status)
}

/// Makes a run of a document to which a dump was [migrated](RecoverySource::Migrated), in the same way. Nobody of ours has had a
/// turn in it, and nobody has asked for one yet: unless it is finished it is paused.
pub async fn migrate<P: Protocol>(
    store: Option<&AnyStore>,
    by: &Author,
    now: Stamp,
    spec: RunSpec<P>,
    from: Migrating,
) -> Result<RunStatus, DocumentImportError> {
    let Migrating { from, document, over } = from;
    let stands = P::import(&spec.definition, &document)?;
    let mut rebuild = Rebuild::begin(spec);
    let mut after = rebuild.state.run.clone();
    let mut decision = run::import(&mut after, stands, BTreeMap::new());
    if let Ok(paused) = run::consider(&rebuild.spec.definition, &mut after, &Request::Pause) {
        decision.changes.extend(paused.changes);
    }
    take(store, by, now, &mut rebuild, RecoverySource::Migrated { from, document }, decision, over).await?;
    Ok(after.status)
}

/// Writes the two entries, unless it is only to be said what would be.
async fn take<P: Protocol>(
    store: Option<&AnyStore>,
    by: &Author,
    now: Stamp,
    rebuild: &mut Rebuild<P>,
    source: RecoverySource,
    decision: Decision<P>,
    over: Option<LiveEntry>,
) -> Result<(), DocumentImportError> {
    let Some(store) = store else { return Ok(()) };
    let blob = serde_json::to_vec(&rebuild.spec).expect("BUG: a definition is plain data");
    let definition = store::Digest::of(&blob).to_string();
    let opened = entry::<P>(by, now, Input::Opened { definition }, Decision::nothing());
    let recovered = entry::<P>(by, now, Input::Recovered { source }, decision);
    let run = rebuild.run.clone();
    rebuild.shows = store.keeps_documents();
    let fill = |writer: &mut RunWriter<'_>| -> Result<(), DocumentImportError> {
        writer.blob(&blob)?;
        for entry in [&opened, &recovered] {
            let commit = rebuild.add(&entry.encode(), WriteId::new()).expect("BUG: what we decided fits");
            rebuild.position = writer.append(&commit)?;
        }
        if let Some(over) = over.clone() {
            writer.takes_the_place_of(over);
        }
        let created = now.timestamp().unwrap_or_default();
        Ok(writer.remember(&rebuild.run, created, epoch_at(now))?)
    };
    match store.put_run(fill).await {
        Err(DocumentImportError::Store(DraftError::Refused(CommitError::Conflict { .. }))) => {
            Err(DocumentImportError::Exists(run))
        }
        written => written,
    }
}

fn entry<P: Protocol>(by: &Author, at: Stamp, input: Input<P>, decision: Decision<P>) -> Entry<P> {
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
