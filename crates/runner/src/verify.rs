//! Does a run add up? Everything that was folded from its entries is folded again and compared.

use protocol::{Protocol, Revision, RunId};
use store::{Store, WriteId};

use crate::clock::Clock;
use crate::journal::{Journal, LoadError};
use crate::rebuild::Rebuild;

/// Why a run does not add up.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("entry {revision} does not follow from those before it")]
    Entry { revision: Revision, source: crate::rebuild::Unfit },
    #[error("its state is not what its entries give")]
    State,
    #[error("its document is not what its entries give")]
    Document,
    #[error("it has {found} entries and should have {expected}")]
    Length { found: Revision, expected: Revision },
}

/// Loads a run and checks it against its own entries. Changes nothing.
pub async fn verify<P: Protocol, S: Store>(
    store: &S,
    clock: &Clock,
    run: &RunId,
) -> Result<Option<Journal<P, S>>, Flaw> {
    let Some(journal) = Journal::<P, S>::load(store, clock, run).await? else { return Ok(None) };
    let entries = store.entries(run, Revision(0)).await.map_err(LoadError::from)?;
    let blob = serde_json::to_vec(&journal.frozen).expect("BUG: a definition is plain data");
    let failed = |revision| move |source| Flaw::Entry { revision, source };
    let mut rebuild = Rebuild::<P>::read(&blob).map_err(failed(Revision(0)))?;
    for entry in &entries {
        // A commit that came in between is not our affair.
        if entry.revision > journal.position.revision {
            break;
        }
        if entry.revision != rebuild.revision().next() {
            let (found, expected) = (rebuild.revision(), journal.position.revision);
            return Err(Flaw::Length { found, expected });
        }
        rebuild.add(&entry.body, WriteId::new()).map_err(failed(entry.revision))?;
        rebuild.position.revision = entry.revision;
        rebuild.position.token = journal.position.token;
    }
    if rebuild.revision() != journal.position.revision {
        return Err(Flaw::Length { found: rebuild.revision(), expected: journal.position.revision });
    }
    if rebuild.folded != journal.folded {
        return Err(Flaw::State);
    }
    if rebuild.document != journal.document {
        return Err(Flaw::Document);
    }
    Ok(Some(journal))
}
