//! Edits of a run's document from anybody: read, change, check, compare-and-set.
//!
//! The author names the document it has read by that document's own count of changes. If others were faster, the protocol
//! says whether the patch still applies; how often that is tried, and how long is waited in between, `race` says.

use protocol::edit::{EditAuthor, EditRefusal, Patch};
use protocol::entry::{Author, Input};
use protocol::run::{Decision, Run};
use protocol::{AttemptId, Protocol, Revision};
use serde_json::Value;
use store::{CommitError, Store};

use crate::journal::{CommitContext, Journal, LoadError, Reloading};
use crate::race::Waits;

/// What an edit has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edited {
    /// The document's count of changes.
    pub sequence: u64,
    pub revision: Revision,
    /// False if all was already as the patch wants it: then nothing was written.
    pub written: bool,
}

/// Why a document was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    Refused(#[from] EditRefusal),
    #[error(transparent)]
    Conflict(#[from] Box<SequenceConflict>),
    /// An attempt that is over, or was replaced by a later one. What it still writes counts no more.
    #[error("attempt `{attempt}` is not at work any more{}", now_at_work(live_attempts))]
    Straggler { attempt: AttemptId, live_attempts: Vec<AttemptId> },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Commit(CommitError),
}

impl From<Reloading> for EditError {
    fn from(error: Reloading) -> Self {
        match error {
            Reloading::Load(error) => Self::Load(error),
            Reloading::Unmoved(error) => Self::Commit(error.into()),
        }
    }
}

/// `sequence_conflict`: others have written since the document was read, and the patch cannot be applied to what they left.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("it was read at sequence {expected}{}, and is at {found} (revision {found_revision}) now: {why}", known(*expected_revision))]
pub struct SequenceConflict {
    pub expected: u64,
    pub found: u64,
    /// The newest revision that has the document as it was read; none if there was no such document.
    pub expected_revision: Option<Revision>,
    pub found_revision: Revision,
    /// How often it was tried.
    pub attempts: usize,
    pub why: String,
    /// What the other writer said of the last change.
    pub last: Option<Value>,
}

fn known(revision: Option<Revision>) -> String {
    revision.map(|revision| format!(" (revision {revision})")).unwrap_or_default()
}

fn now_at_work(live_attempts: &[AttemptId]) -> String {
    match live_attempts {
        [] => String::new(),
        [..] => {
            let names: Vec<_> = live_attempts.iter().map(|attempt| format!("`{attempt}`")).collect();
            format!("; {} is", names.join(" and "))
        }
    }
}

/// Edits the document that was read at this count of its changes. What is already so is granted without a commit.
///
/// `from` is the attempt from inside which it is asked: it may write what its step may, as long as it is the one that has the
/// step.
pub async fn edit<P: Protocol, S: Store>(
    journal: &mut Journal<P, S>,
    by: Author,
    from: Option<AttemptId>,
    expected: u64,
    patch: &Patch,
) -> Result<Edited, EditError> {
    if journal.foreign.is_some() {
        journal.reload().await?;
    }
    let based_on = read_at(journal, expected).await?;
    let (mut waits, mut attempts) = (Waits::within(journal.store.races()), 0);
    loop {
        attempts += 1;
        let Some(found) = P::sequence(&journal.document) else { return Err(EditRefusal::EngineOnly.into()) };
        let Some((read_at, based_on)) = &based_on else {
            return Err(conflict(journal, expected, None, attempts, "there was no such document"));
        };
        let author = author(journal, from.as_ref())?;
        let edit = match P::edit(&journal.spec.definition, based_on, &journal.document, &author, patch) {
            Ok(Some(edit)) => edit,
            Ok(None) => {
                let revision = journal.position.revision;
                return Ok(Edited { sequence: found, revision, written: false });
            }
            Err(EditRefusal::Conflict { why }) => {
                return Err(conflict(journal, expected, Some(*read_at), attempts, &why));
            }
            Err(refused) => return Err(refused.into()),
        };
        let input = Input::Edited { edit, from: from.clone() };
        match journal.commit(by.clone(), input, Decision::nothing(), CommitContext::default()).await {
            Ok(_) => {
                let sequence = P::sequence(&journal.document).unwrap_or(found);
                return Ok(Edited { sequence, revision: journal.position.revision, written: true });
            }
            Err(CommitError::Conflict { .. }) => {
                let goes_on = waits.once_more().await;
                journal.reload_after_conflict().await?;
                if !goes_on {
                    return Err(conflict(journal, expected, Some(*read_at), attempts, "others kept writing"));
                }
            }
            Err(error) => return Err(EditError::Commit(error)),
        }
    }
}

fn conflict<P: Protocol, S>(
    journal: &Journal<P, S>,
    expected: u64,
    expected_revision: Option<Revision>,
    attempts: usize,
    why: &str,
) -> EditError {
    let conflict = SequenceConflict {
        expected,
        found: P::sequence(&journal.document).unwrap_or_default(),
        expected_revision,
        found_revision: journal.position.revision,
        attempts,
        why: why.to_owned(),
        last: P::last_change(&journal.document),
    };
    EditError::Conflict(Box::new(conflict))
}

/// Whose hand it is: of the step whose attempt this is, if it is the one at work.
fn author<P: Protocol, S>(
    journal: &Journal<P, S>,
    from: Option<&AttemptId>,
) -> Result<EditAuthor<P::Step>, EditError> {
    let Some(from) = from else { return Ok(EditAuthor::Outside) };
    let mut live_attempts = Vec::new();
    for (attempt, _) in journal.state.run.live_attempts() {
        let id = Run::<P>::id(&attempt);
        if id == *from {
            return Ok(EditAuthor::Step(attempt.step));
        }
        live_attempts.push(id);
    }
    Err(EditError::Straggler { attempt: from.clone(), live_attempts })
}

/// The document as it was at this count of its changes, with the newest revision that has it so.
///
/// A commit adds at most one to the count, so it is at least as many revisions back as the count is behind; where the engine
/// wrote of its own affairs in between, further. From there on backwards in steps that double, then by halves.
async fn read_at<P: Protocol, S: Store>(
    journal: &Journal<P, S>,
    sequence: u64,
) -> Result<Option<(Revision, P::Document)>, LoadError> {
    let mut newer = journal.position.revision;
    let mut behind = match P::sequence(&journal.document) {
        Some(found) if found == sequence => return Ok(Some((newer, journal.document.clone()))),
        Some(found) if found > sequence => found - sequence,
        Some(_) | None => return Ok(None),
    };
    let mut older = Revision(0);
    let mut stride = 1;
    while let Some(revision) = newer.0.checked_sub(behind.max(stride)).filter(|revision| *revision > 0) {
        let document = journal.document_at(Revision(revision)).await?;
        match document.as_ref().and_then(P::sequence) {
            Some(found) if found > sequence => {
                (newer, behind) = (Revision(revision), found - sequence);
            }
            // Every revision since has counted, so this is the newest of its count.
            Some(found) if found == sequence && behind >= stride => {
                return Ok(document.map(|document| (Revision(revision), document)));
            }
            Some(_) | None => {
                older = Revision(revision);
                break;
            }
        }
        stride *= 2;
    }
    while newer.0 - older.0 > 1 {
        let middle = Revision(older.0 + (newer.0 - older.0) / 2);
        match journal.document_at(middle).await?.as_ref().and_then(P::sequence) {
            Some(found) if found > sequence => newer = middle,
            Some(_) | None => older = middle,
        }
    }
    let document = if older.0 == 0 { None } else { journal.document_at(older).await? };
    let same = document.filter(|document| P::sequence(document) == Some(sequence));
    Ok(same.map(|document| (older, document)))
}
