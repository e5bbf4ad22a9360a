//! Edits of a run's document: read, change, check, compare-and-set.
//!
//! The caller names the document it has read by its sequence number. After a conflict the protocol says whether the
//! patch still applies; `conflict_backoff` says how often and how long to wait.

use protocol::edit::{EditAuthor, EditRefusal, Patch};
use protocol::entry::{Author, Input};
use protocol::run::Decision;
use protocol::{AttemptId, Document, Revision};
use serde_json::Value;
use store::CommitError;

use super::conflict_backoff::ConflictBackoff;
use crate::run::{CommitContext, Journal, LoadError, ReloadError};

/// The result of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edited {
    /// The sequence number of the document.
    pub sequence: u64,
    pub revision: Revision,
    /// `false` if the document already contained the change, so that nothing was written.
    pub written: bool,
}

/// Why a document was not edited.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    Refused(#[from] EditRefusal),
    #[error(transparent)]
    Conflict(#[from] Box<SequenceConflict>),
    /// The attempt has ended or was replaced by a later one. Its writes are not applied any more.
    #[error("attempt `{attempt}` is not running any more{}", list_live(live_attempts))]
    AttemptNotLive { attempt: AttemptId, live_attempts: Vec<AttemptId> },
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Commit(CommitError),
}

impl From<ReloadError> for EditError {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Load(error) => Self::Load(error),
            ReloadError::NotMoved(error) => Self::Commit(error.into()),
        }
    }
}

/// Error code `sequence_conflict`: the document has changed since it was read, and the patch does not apply any more.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("it was read at sequence {expected}{}, and is at {found} (revision {found_revision}) now: {why}", in_parentheses(*expected_revision))]
pub struct SequenceConflict {
    pub expected: u64,
    pub found: u64,
    /// The newest revision that has the document as it was read, or `None` if there was no such document.
    pub expected_revision: Option<Revision>,
    pub found_revision: Revision,
    /// How many tries to commit were made.
    pub tries: usize,
    pub why: String,
    /// The history entry of the last change.
    pub last: Option<Value>,
}

fn in_parentheses(revision: Option<Revision>) -> String {
    revision.map(|revision| format!(" (revision {revision})")).unwrap_or_default()
}

fn list_live(live_attempts: &[AttemptId]) -> String {
    match live_attempts {
        [] => String::new(),
        [..] => {
            let names: Vec<_> = live_attempts.iter().map(|attempt| format!("`{attempt}`")).collect();
            let verb = if names.len() == 1 { "is" } else { "are" };
            format!("; {} {verb}", names.join(" and "))
        }
    }
}

/// Edits the document that was read at sequence number `expected`. A change that the document already contains is
/// granted without a commit.
///
/// `from` is the attempt that makes the edit, if one does. It may write what its step may write, as long as it is the
/// step's live attempt.
pub async fn edit(
    journal: &mut Journal,
    by: Author,
    from: Option<AttemptId>,
    expected: u64,
    patch: &Patch,
) -> Result<Edited, EditError> {
    if journal.external_write.is_some() {
        journal.reload().await?;
    }
    let base = find_document(journal, expected).await?;
    let (mut backoff, mut tries) = (ConflictBackoff::within(journal.store.conflict_timeout()), 0);
    loop {
        tries += 1;
        let Some(found) = journal.document().sequence() else {
            return Err(EditRefusal::DocumentNotEditable.into());
        };
        let Some((base_revision, base_document)) = &base else {
            return Err(conflict(journal, expected, None, tries, "there was no such document"));
        };
        let author = author(journal, from.as_ref())?;
        let edit = match journal.machine().edit(base_document, &author, patch) {
            Ok(Some(edit)) => edit,
            Ok(None) => {
                let revision = journal.position.revision;
                return Ok(Edited { sequence: found, revision, written: false });
            }
            Err(EditRefusal::Conflict { why }) => {
                return Err(conflict(journal, expected, Some(*base_revision), tries, &why));
            }
            Err(refused) => return Err(refused.into()),
        };
        let input = Input::Edited { edit, from: from.clone() };
        match journal.commit(by.clone(), input, Decision::nothing(), CommitContext::default()).await {
            Ok(_) => {
                let sequence = journal.document().sequence().unwrap_or(found);
                return Ok(Edited { sequence, revision: journal.position.revision, written: true });
            }
            Err(CommitError::Conflict { .. }) => {
                let may_retry = backoff.wait().await;
                journal.reload_after_conflict().await?;
                if !may_retry {
                    return Err(conflict(
                        journal,
                        expected,
                        Some(*base_revision),
                        tries,
                        "other clients kept writing",
                    ));
                }
            }
            Err(error) => return Err(EditError::Commit(error)),
        }
    }
}

fn conflict(
    journal: &Journal,
    expected: u64,
    expected_revision: Option<Revision>,
    tries: usize,
    why: &str,
) -> EditError {
    let conflict = SequenceConflict {
        expected,
        found: journal.document().sequence().unwrap_or_default(),
        expected_revision,
        found_revision: journal.position.revision,
        tries,
        why: why.to_owned(),
        last: journal.document().last_change(),
    };
    EditError::Conflict(Box::new(conflict))
}

/// Returns the author of the edit: the step of the live attempt `from`, or an outside author.
fn author(journal: &Journal, from: Option<&AttemptId>) -> Result<EditAuthor, EditError> {
    let Some(from) = from else { return Ok(EditAuthor::Outside) };
    let mut live_attempts = Vec::new();
    for (attempt, _) in journal.state.run.live_attempts() {
        let id = attempt.clone();
        if id == *from {
            return Ok(EditAuthor::Step(attempt.step));
        }
        live_attempts.push(id);
    }
    Err(EditError::AttemptNotLive { attempt: from.clone(), live_attempts })
}

/// Returns the document that had this sequence number, with the newest revision that has it.
///
/// A commit raises the number by at most one. So a number that is N lower is at least N revisions back, and more if entries
/// did not change the document. The search steps back by the difference or by a stride that doubles, whichever is more,
/// until it has passed the number; then it bisects.
async fn find_document(journal: &Journal, sequence: u64) -> Result<Option<(Revision, Document)>, LoadError> {
    let mut newer = journal.position.revision;
    let mut behind = match journal.document().sequence() {
        Some(found) if found == sequence => return Ok(Some((newer, journal.document()))),
        Some(found) if found > sequence => found - sequence,
        Some(_) | None => return Ok(None),
    };
    let mut older = Revision(0);
    let mut stride = 1;
    while let Some(revision) = newer.0.checked_sub(behind.max(stride)).filter(|revision| *revision > 0) {
        let document = journal.document_at(Revision(revision)).await?;
        match document.as_ref().and_then(Document::sequence) {
            Some(found) if found > sequence => {
                (newer, behind) = (Revision(revision), found - sequence);
            }
            // Every revision since has changed the document, so this is the newest with that number.
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
        match journal.document_at(middle).await?.as_ref().and_then(Document::sequence) {
            Some(found) if found > sequence => newer = middle,
            Some(_) | None => older = middle,
        }
    }
    let document = if older.0 == 0 { None } else { journal.document_at(older).await? };
    let same = document.filter(|document| document.sequence() == Some(sequence));
    Ok(same.map(|document| (older, document)))
}
