//! What other clients of the store write in the place of a run's document: absorbed as an edit in their name, or set aside
//! and the document put back.

use std::fmt;
use std::time::Duration;

use protocol::entry::{Author, Input, RecoverySource};
use protocol::run::Decision;
use protocol::{Protocol, Revision, RunId};
use store::{CommitError, ExternalWrite, Store, WriteError};

use crate::causes::with_causes;
use crate::clock::Clock;
use crate::journal::{CommitContext, Journal, LoadError};
use crate::restore::PLAUSIBLE;

/// So many races with somebody who writes there again and again are lost before we give up: some two seconds.
const RACES: u32 = 16;
/// The first pause is at most this long, and is doubled so often.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_DOUBLED: u32 = 5;

/// What became of a foreign write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    pub run: RunId,
    pub bucket: String,
    /// Its number there.
    pub sequence: u64,
    /// The revision that settled it.
    pub revision: Revision,
    pub refused: Option<Refused>,
}

/// A foreign write that could not be absorbed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub why: String,
    /// Where the bytes are, if there were any.
    pub kept: Option<String>,
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, bucket, revision, refused, .. } = self;
        write!(
            f,
            "another client of the bucket `{bucket}` wrote in the place of the document of run `{run}`: "
        )?;
        match refused {
            None => write!(f, "absorbed as revision {revision}"),
            Some(Refused { why, kept }) => {
                write!(f, "{why}; the document was put back as revision {revision}")?;
                match kept {
                    Some(kept) => write!(f, ", the bytes are kept under `{kept}`"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl<P: Protocol, S: Store> Journal<P, S> {
    /// Settles what somebody else wrote in the place of the document, if anybody did. Others may do so at the same time:
    /// one of us gets it done.
    pub(crate) async fn settle(&mut self) -> Result<(), LoadError> {
        let (mut too_large, mut races) = (None, 0);
        while let Some(foreign) = self.foreign.take() {
            let edit = match too_large.take() {
                Some(why) => Err(why),
                None => self.absorbed(&foreign),
            };
            let absorbs = edit.is_ok();
            match self.answer(&foreign, edit).await {
                Ok(settled) => self.settled = Some(settled),
                Err(CommitError::Conflict { .. }) if races == RACES => {
                    return Err(LoadError::Outrun { run: self.run.clone(), tries: RACES + 1 });
                }
                Err(CommitError::Conflict { .. }) => {
                    let pause = FIRST_PAUSE.saturating_mul(1 << races.min(LONGEST_DOUBLED));
                    tokio::time::sleep(pause.mul_f64(fastrand::f64())).await;
                    races += 1;
                    *self = self.fresh().await?;
                }
                Err(error @ CommitError::TooLarge { .. }) if absorbs => {
                    too_large = Some(error.to_string());
                    *self = self.fresh().await?;
                }
                Err(source) => {
                    let (run, source) = (self.run.clone(), source.into());
                    return Err(LoadError::Unsettled { run, source });
                }
            }
        }
        Ok(())
    }

    /// The edit that a foreign write is, or why it is none.
    fn absorbed(&self, foreign: &ExternalWrite) -> Result<P::Edit, String> {
        let change = foreign.change.as_ref().map_err(ToString::to_string)?;
        let read = |text: &str| serde_json::from_str(text).map_err(|error| error.to_string());
        let (ours, theirs) = (read(&change.ours)?, read(&change.theirs)?);
        P::external_edit(&self.spec.definition, &self.document, &ours, &theirs)
            .map_err(|refused| with_causes(&refused))
    }

    /// Commits what settles it.
    async fn answer(
        &mut self,
        foreign: &ExternalWrite,
        edit: Result<P::Edit, String>,
    ) -> Result<Settled, CommitError> {
        let ExternalWrite { bucket, sequence, .. } = foreign;
        let by = Author::Client { bucket: bucket.clone(), sequence: *sequence };
        let (input, refused) = match edit {
            Ok(edit) => (Input::Edited { edit, from: None }, None),
            Err(why) => {
                let refused = Refused { why, kept: self.keep(foreign).await? };
                (self.put_back(foreign, &refused), Some(refused))
            }
        };
        self.commit(by, input, Decision::nothing(), CommitContext::default()).await?;
        let (run, revision) = (self.run.clone(), self.position.revision);
        Ok(Settled { run, bucket: bucket.clone(), sequence: *sequence, revision, refused })
    }

    async fn keep(&self, foreign: &ExternalWrite) -> Result<Option<String>, CommitError> {
        match self.store.set_aside(&self.run, foreign).await {
            Ok(kept) => Ok(kept),
            Err(WriteError::Unavailable(unavailable)) => Err(unavailable.into()),
            Err(WriteError::NoSuchRun { run }) => unreachable!("BUG: run `{run}` was just read"),
        }
    }

    /// The document as it is, once more: with a number that nobody has seen.
    fn put_back(&self, foreign: &ExternalWrite, refused: &Refused) -> Input<P> {
        let newest = P::sequence(&self.document).unwrap_or(0);
        let claimed =
            foreign.body.as_deref().and_then(claimed).filter(|claimed| *claimed < newest + PLAUSIBLE);
        let revision = self.position.revision;
        let ExternalWrite { bucket, sequence, .. } = foreign;
        let source = RecoverySource::Document {
            document: serde_json::to_value(&self.document).expect("BUG: a document is plain data"),
            restored_from: revision,
            broken_at: revision,
            highest_sequence: claimed.map_or(newest, |claimed| claimed.max(newest)),
            problem: format!("entry {sequence} of the bucket `{bucket}` is not ours: {}", refused.why),
            quarantine: refused.kept.clone(),
        };
        Input::Recovered { source }
    }
}

/// The number that a foreign document says it has.
fn claimed(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(body).ok()?.get("sequence")?.as_u64()
}

/// Puts the document of a run back into a bucket from which it is gone; what the journal has is the truth. Changes nothing
/// where it is still there. `None` when there is no such run.
pub async fn rebuild_document<P: Protocol, S: Store>(
    store: &S,
    clock: &Clock,
    run: &RunId,
) -> Result<Option<Option<Settled>>, LoadError> {
    let Some(mut journal) = Journal::<P, S>::load(store, clock, run).await? else { return Ok(None) };
    journal.settle().await?;
    Ok(Some(journal.settled))
}
