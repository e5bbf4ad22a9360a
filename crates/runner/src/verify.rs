//! Does a run add up? Everything that was state from its entries is state again and compared.

use protocol::entry::BadEntry;
use protocol::{AttemptId, Protocol, Revision, RunId};
use store::{Store, StoredEntry, WriteId};

use crate::clock::Clock;
use crate::journal::{Journal, LoadError};
use crate::rebuild::{Rebuild, Unfit, definition_of};

/// Why a run does not add up.
#[derive(Debug, thiserror::Error)]
pub enum Inconsistency {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("entry {revision} does not follow from those before it")]
    Entry { revision: Revision, source: Unfit },
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
    /// Whether nothing is wrong with the run except that a newer program wrote it.
    #[must_use]
    pub fn is_news_to_us(&self) -> bool {
        matches!(
            self,
            Self::Entry { source: Unfit::Unreadable(BadEntry::TooNew(_)), .. }
                | Self::Load(LoadError::Entry { source: BadEntry::TooNew(_), .. })
        )
    }
}

/// Loads a run and checks it against its own entries. Changes nothing.
pub async fn verify<P: Protocol, S: Store>(
    store: &S,
    clock: &Clock,
    run: &RunId,
) -> Result<Option<Journal<P, S>>, Inconsistency> {
    // EngineRequest entry by entry whether it can follow, before anybody folds what may be nonsense.
    let entries = store.entries(run, Revision(0)).await.map_err(LoadError::from)?;
    let Some(first) = entries.first() else {
        return Ok(Journal::load(store, clock, run).await?);
    };
    let failed = |revision| move |source| Inconsistency::Entry { revision, source };
    let digest = definition_of::<P>(&first.body).map_err(failed(first.revision))?;
    let blob = store.blob(&digest).await.map_err(LoadError::from)?;
    let blob = blob.ok_or(Unfit::NoDefinition).map_err(failed(first.revision))?;
    let mut rebuild = Rebuild::<P>::read(&blob).map_err(failed(first.revision))?;
    add_all(&mut rebuild, &entries)?;
    let Some(journal) = Journal::<P, S>::load(store, clock, run).await? else { return Ok(None) };
    let expected = journal.position.revision;
    // What was committed in between.
    let later = store.entries_between(run, rebuild.revision(), expected).await.map_err(LoadError::from)?;
    add_all(&mut rebuild, &later)?;
    if rebuild.revision() != expected {
        return Err(Inconsistency::Length { found: rebuild.revision(), expected });
    }
    // A snapshot from before places were kept has none for those who were alive then.
    let known = |attempt: &AttemptId| journal.state.hosts.contains_key(attempt);
    rebuild.state.hosts.retain(|attempt, _| known(attempt));
    if rebuild.state != journal.state {
        return Err(Inconsistency::State);
    }
    if rebuild.document != journal.document {
        return Err(Inconsistency::Document);
    }
    Ok(Some(journal))
}

fn add_all<P: Protocol>(rebuild: &mut Rebuild<P>, entries: &[StoredEntry]) -> Result<(), Inconsistency> {
    for entry in entries {
        let revision = rebuild.revision().next();
        if entry.revision != revision {
            return Err(Inconsistency::Gap { revision });
        }
        let added = rebuild.add(&entry.body, WriteId::new());
        added.map_err(|source| Inconsistency::Entry { revision, source })?;
        rebuild.position.revision = revision;
    }
    Ok(())
}
