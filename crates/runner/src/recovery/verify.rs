//! Checks a run against its entries: everything that is folded from them is folded again and compared.

use std::sync::Arc;

use protocol::entry::BadEntry;
use protocol::{Protocols, Revision, RunId};
use store::{Store, StoredEntry, WriteId};

use crate::clock::Clock;
use crate::recovery::{Replay, ReplayError, spec_digest};
use crate::run::{Journal, LoadError, find_kind};

/// Why a run is inconsistent.
#[derive(Debug, thiserror::Error)]
pub enum Inconsistency {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("entry {revision} does not follow from those before it")]
    Entry { revision: Revision, source: ReplayError },
    #[error("its state is not what its entries give")]
    State,
    #[error("its document is not what its entries give")]
    Document,
    #[error("entry {revision} is missing")]
    Gap { revision: Revision },
    #[error("it has {found} entries and should have {expected}")]
    Length { found: Revision, expected: Revision },
}

impl Inconsistency {
    /// Returns whether the only problem is that a newer version of this program wrote the run.
    #[must_use]
    pub fn is_from_newer_version(&self) -> bool {
        matches!(
            self,
            Self::Entry { source: ReplayError::Unreadable(BadEntry::TooNew(_)), .. }
                | Self::Load(LoadError::Entry { source: BadEntry::TooNew(_), .. })
        )
    }
}

/// Loads a run and checks it against its entries. Changes nothing. Returns `None` if there is no such run.
pub async fn verify(
    store: &Arc<dyn Store>,
    clock: &Clock,
    protocols: Protocols,
    run: &RunId,
) -> Result<Option<Journal>, Inconsistency> {
    // Entries are checked one by one before the run is loaded, because loading folds them unchecked.
    let entries = store.entries(run, Revision(0)).await.map_err(LoadError::from)?;
    let Some(first) = entries.first() else {
        return Ok(Journal::load(store, clock, protocols, run).await?);
    };
    let failed = |revision| move |source| Inconsistency::Entry { revision, source };
    let digest = spec_digest(&first.body).map_err(failed(first.revision))?;
    let blob = store.blob(&digest).await.map_err(LoadError::from)?;
    let blob = blob.ok_or(ReplayError::NoSpec).map_err(failed(first.revision))?;
    let name = store.protocol(run).await.map_err(LoadError::from)?.unwrap_or_default();
    let kind = find_kind(protocols, run, &name)?;
    let mut replay = Replay::begin_with_blob(kind, &blob).map_err(failed(first.revision))?;
    add_all(&mut replay, &entries)?;
    let Some(journal) = Journal::load(store, clock, protocols, run).await? else { return Ok(None) };
    let expected = journal.position.revision;
    // Entries that were committed meanwhile.
    let later = store.entries_between(run, replay.revision(), expected).await.map_err(LoadError::from)?;
    add_all(&mut replay, &later)?;
    if replay.revision() != expected {
        return Err(Inconsistency::Length { found: replay.revision(), expected });
    }
    if replay.state != journal.state {
        return Err(Inconsistency::State);
    }
    if replay.machine().document() != journal.document() {
        return Err(Inconsistency::Document);
    }
    Ok(Some(journal))
}

fn add_all(replay: &mut Replay, entries: &[StoredEntry]) -> Result<(), Inconsistency> {
    for entry in entries {
        let revision = replay.revision().next();
        if entry.revision != revision {
            return Err(Inconsistency::Gap { revision });
        }
        let added = replay.add(&entry.body, WriteId::new());
        added.map_err(|source| Inconsistency::Entry { revision, source })?;
        replay.position.revision = revision;
    }
    Ok(())
}
