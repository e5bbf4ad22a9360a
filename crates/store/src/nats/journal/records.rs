//! Subjects of runs, and how messages are found on them. All runs share the sequences of the stream.

use std::collections::BTreeSet;

use protocol::{Revision, RunId};

use super::cache::JournalEnd;
use super::message::{CommitMessage, Content, Delta, DeltaLocation, Record};
use super::wire::{MessageError, decode, encode};
use crate::error::{ReadError, Unavailable};
use crate::nats::connection::{Conflict, Lookup, Session};

/// The subject of a run is this and its escaped name.
pub(in crate::nats) const RUN_SUBJECT_PREFIX: &str = "callboard.run.";

/// Returns the subject of a run. Its name is one token: `.` and `=` are escaped.
pub(in crate::nats) fn subject(run: &RunId) -> String {
    format!("{RUN_SUBJECT_PREFIX}{}", escape(run))
}

pub(in crate::nats) fn escape(run: &RunId) -> String {
    let mut token = String::with_capacity(run.as_str().len());
    for character in run.as_str().chars() {
        match character {
            '.' => token.push_str("=2E"),
            '=' => token.push_str("=3D"),
            character => token.push(character),
        }
    }
    token
}

/// Returns the run of a subject, or `None` if the subject is not the one that [`subject`] makes of a run.
pub(in crate::nats) fn run_of(subject: &str) -> Option<RunId> {
    let token = subject.strip_prefix(RUN_SUBJECT_PREFIX)?;
    let run = RunId::new(token.replace("=2E", ".").replace("=3D", "=")).ok()?;
    (escape(&run) == token).then_some(run)
}

/// Whether the servers answered and the run's messages cannot be parsed.
pub(in crate::nats) fn is_unreadable(error: &Unavailable) -> bool {
    matches!(error, Unavailable::BadJournal { .. } | Unavailable::NewerWriter { .. })
}

impl Session {
    pub(in crate::nats) fn message_error(&self, run: &RunId, error: MessageError) -> Unavailable {
        let (server, run) = (self.journal.server.clone(), run.clone());
        match error {
            MessageError::Newer { .. } => Unavailable::NewerWriter { server, run, source: error.into() },
            MessageError::Unknown { .. }
            | MessageError::Malformed { .. }
            | MessageError::Gap { .. }
            | MessageError::Truncated { .. }
            | MessageError::Missing { .. }
            | MessageError::MissingBlob { .. } => {
                Unavailable::BadJournal { server, run, source: error.into() }
            }
        }
    }

    async fn get_record(&self, run: &RunId, lookup: Lookup) -> Result<Option<Record>, Unavailable> {
        let found = self.journal.find(&subject(run), lookup).await?;
        found.map(|found| decode(&found).map_err(|error| self.message_error(run, error))).transpose()
    }

    /// Returns the last message on the run's subject, a commit or not. Does not look into the bucket.
    pub(in crate::nats) async fn last_journal_record(
        &self,
        run: &RunId,
    ) -> Result<Option<Record>, Unavailable> {
        self.get_record(run, Lookup::Last).await
    }

    /// Returns the first message at or after a sequence.
    pub(super) async fn first_record_from(
        &self,
        run: &RunId,
        sequence: u64,
    ) -> Result<Option<Record>, Unavailable> {
        self.get_record(run, Lookup::From(sequence)).await
    }

    /// Copies what was committed in the bucket to the journal, then returns the last message of the run; `None` if the run
    /// does not exist.
    ///
    /// If the bucket was deleted, returns the last message of the journal, so that the past stays readable.
    pub(in crate::nats) async fn reconcile_and_read_last(
        &self,
        run: &RunId,
    ) -> Result<Option<Record>, Unavailable> {
        let record = match self.reconcile(run).await {
            Ok(current) => current.record,
            Err(Unavailable::StreamDeleted { stream, .. }) if stream != self.journal.name => {
                self.last_journal_record(run).await?
            }
            Err(unavailable) => return Err(unavailable),
        };
        Ok(record.filter(|record| record.head.exists()))
    }

    pub(in crate::nats) async fn records(
        &self,
        run: &RunId,
        from: u64,
        to: u64,
    ) -> Result<Vec<Record>, Unavailable> {
        let found = self.journal.scan(&subject(run), from, to).await?;
        found.iter().map(|found| decode(found).map_err(|error| self.message_error(run, error))).collect()
    }

    /// Finds the commit of a revision, which is not newer than `newest`.
    ///
    /// Revisions grow with sequences, so a binary search finds it. The server skips messages of other runs. Messages that are
    /// not commits have the revision of the commit before them.
    pub(super) async fn find_commit(
        &self,
        run: &RunId,
        revision: Revision,
        newest: &Record,
    ) -> Result<Option<Record>, Unavailable> {
        let (mut low, mut high) = (1, newest.head.commit);
        let mut found = None;
        if let Some(tip) = self.cache.get(run).filter(|tip| tip.head.revision == revision) {
            (low, high) = (tip.head.commit, tip.head.commit);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.first_record_from(run, middle).await? {
                Some(record) if record.head.revision < revision => low = record.sequence + 1,
                Some(record) => {
                    found = Some(record);
                    high = middle;
                }
                None => return Ok(None),
            }
        }
        match found {
            Some(record) if record.sequence >= low && record.head.revision == revision => Ok(Some(record)),
            _ => {
                Ok(self.first_record_from(run, low).await?.filter(|record| record.head.revision == revision))
            }
        }
    }

    /// Appends a message that is not a commit after `tip`.
    pub(in crate::nats) async fn append_content(
        &self,
        run: &RunId,
        mut tip: JournalEnd,
        content: &Content,
    ) -> Result<Result<(), Conflict>, Unavailable> {
        let payload = encode(&tip.head, content);
        let sequence = match self.journal.append(&subject(run), tip.sequence, payload).await? {
            Ok(sequence) => sequence,
            Err(conflict) => return Ok(Err(conflict)),
        };
        if let Some(cached) = self.cache.take(run, tip.head.token())
            && cached.sequence == tip.sequence
        {
            tip.index = cached.index;
            if let (Some(index), Content::ViewMarks { views, .. }) = (&mut tip.index, content) {
                index.record_view_marks(views);
            }
        }
        self.cache.put(run, JournalEnd { sequence, ..tip });
        Ok(Ok(()))
    }

    /// Returns what a commit changed, wherever that is stored.
    pub(in crate::nats) async fn delta(
        &self,
        run: &RunId,
        sequence: u64,
        committed: &CommitMessage,
    ) -> Result<Delta, ReadError> {
        let bad = |error| ReadError::from(self.message_error(run, error));
        let unknown = |source| bad(MessageError::Unknown { sequence, source });
        match &committed.delta {
            DeltaLocation::Inline(text) => serde_json::from_str(text.get()).map_err(unknown),
            DeltaLocation::Trailer(trailer) => {
                trailer.delta().ok_or_else(|| bad(MessageError::Truncated { sequence }))
            }
            DeltaLocation::Blob(digest) => match self.blob(digest).await? {
                Some(body) => serde_json::from_slice(&body).map_err(unknown),
                None => Err(bad(MessageError::MissingBlob { sequence, digest: digest.clone() })),
            },
        }
    }

    /// Returns the runs whose subject has messages, written by Callboard or not.
    pub(in crate::nats) async fn runs_with_messages(&self) -> Result<BTreeSet<RunId>, Unavailable> {
        let subjects = self.journal.subjects(&format!("{RUN_SUBJECT_PREFIX}*")).await?;
        Ok(subjects.iter().filter_map(|subject| run_of(subject)).collect())
    }

    /// Returns the runs that have messages in the journal, or a first commit in the bucket that was not copied to it yet,
    /// sorted by name. A run that has only an engine lock is among them.
    pub(in crate::nats) async fn run_names(&self) -> Result<Vec<RunId>, Unavailable> {
        let mut runs = self.runs_with_messages().await?;
        let uncopied = self.uncopied_runs(&runs).await?;
        runs.extend(uncopied);
        Ok(runs.into_iter().collect())
    }
}

impl Record {
    pub(in crate::nats) fn commit(&self) -> Option<&CommitMessage> {
        match &self.content {
            Content::Commit(committed) => Some(committed),
            Content::EngineLock { .. } | Content::ViewMarks { .. } | Content::Fence { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_one_token_of_a_subject_and_can_be_read_back() {
        for (name, token) in [("fix", "fix"), ("a.b", "a=2Eb"), ("a=2Eb", "a=3D2Eb"), ("A_-9.", "A_-9=2E")] {
            let run = RunId::new(name).unwrap();
            assert_eq!(subject(&run), format!("callboard.run.{token}"));
            assert_eq!(run_of(&subject(&run)), Some(run));
        }
        for other in ["callboard.lease.fix", "callboard.run.=bucket-a", "callboard.run.=2e"] {
            assert_eq!(run_of(other), None, "{other}");
        }
    }
}
