//! The subject of a run: its messages, and how to find a revision among sequences that all runs share.

use std::collections::BTreeSet;

use protocol::{Revision, RunId};

use super::channel::{Overtaken, Which};
use super::known::Seen;
use super::message::{Committed, Content, Delta, Place, Record};
use super::server::Server;
use super::wire::{BadMessage, decode, encode};
use crate::error::{ReadError, Unavailable};

pub(super) const RUNS: &str = "callboard.run.";

/// One token: what separates tokens in a subject, or could be taken for an escape, is escaped.
pub(super) fn subject(run: &RunId) -> String {
    format!("{RUNS}{}", escaped(run))
}

pub(super) fn escaped(run: &RunId) -> String {
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

/// The run of a subject, `None` if it is no run's.
pub(super) fn run_of(subject: &str) -> Option<RunId> {
    let token = subject.strip_prefix(RUNS)?;
    let run = RunId::new(token.replace("=2E", ".").replace("=3D", "=")).ok()?;
    (escaped(&run) == token).then_some(run)
}

/// Whether the server has answered, and what it has of a run is not as we write it.
pub(super) fn is_not_understood(error: &Unavailable) -> bool {
    matches!(error, Unavailable::NotUnderstood { .. } | Unavailable::NewerWriter { .. })
}

impl Server {
    pub(super) fn bad_message(&self, run: &RunId, error: BadMessage) -> Unavailable {
        let (server, run) = (self.journal.server.clone(), run.clone());
        match error {
            BadMessage::Newer { .. } => Unavailable::NewerWriter { server, run, source: error.into() },
            BadMessage::ExternalWrite { .. }
            | BadMessage::Unlike { .. }
            | BadMessage::Ahead { .. }
            | BadMessage::Torn { .. }
            | BadMessage::Missing { .. }
            | BadMessage::NoBlob { .. } => Unavailable::NotUnderstood { server, run, source: error.into() },
        }
    }

    async fn record(&self, run: &RunId, which: Which) -> Result<Option<Record>, Unavailable> {
        let found = self.journal.find(&subject(run), which).await?;
        found.map(|found| decode(&found).map_err(|error| self.bad_message(run, error))).transpose()
    }

    /// The newest message, whatever it is.
    pub(super) async fn last(&self, run: &RunId) -> Result<Option<Record>, Unavailable> {
        self.record(run, Which::Last).await
    }

    /// The first message from a sequence on.
    pub(super) async fn from(&self, run: &RunId, sequence: u64) -> Result<Option<Record>, Unavailable> {
        self.record(run, Which::From(sequence)).await
    }

    /// The newest message of a run that exists.
    ///
    /// What was acknowledged is in the journal; so the past can be read even if the bucket of its document is gone.
    pub(super) async fn newest(&self, run: &RunId) -> Result<Option<Record>, Unavailable> {
        let record = match self.look(run).await {
            Ok(look) => look.record,
            Err(Unavailable::NoStream { stream, .. }) if stream != self.journal.name => {
                self.last(run).await?
            }
            Err(unavailable) => return Err(unavailable),
        };
        Ok(record.filter(|record| record.head.exists()))
    }

    pub(super) async fn records(&self, run: &RunId, from: u64, to: u64) -> Result<Vec<Record>, Unavailable> {
        let found = self.journal.scan(&subject(run), from, to).await?;
        found.iter().map(|found| decode(found).map_err(|error| self.bad_message(run, error))).collect()
    }

    /// The commit that made a revision, which is not newer than `newest`. Revisions grow with sequences, so it is found
    /// by halving what lies before it; what other runs wrote there is skipped by the server.
    pub(super) async fn commit_of(
        &self,
        run: &RunId,
        revision: Revision,
        newest: &Record,
    ) -> Result<Option<Record>, Unavailable> {
        let (mut low, mut high) = (1, newest.head.commit);
        let mut found = None;
        if let Some(seen) = self.known.get(run).filter(|seen| seen.head.revision == revision) {
            (low, high) = (seen.head.commit, seen.head.commit);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.from(run, middle).await? {
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
            _ => Ok(self.from(run, low).await?.filter(|record| record.head.revision == revision)),
        }
    }

    /// Adds a message that is no commit, after what was seen. The run goes on where it stands.
    pub(super) async fn add(
        &self,
        run: &RunId,
        mut seen: Seen,
        content: &Content,
    ) -> Result<Result<(), Overtaken>, Unavailable> {
        let payload = encode(&seen.head, content);
        let sequence = match self.journal.append(&subject(run), seen.sequence, payload).await? {
            Ok(sequence) => sequence,
            Err(overtaken) => return Ok(Err(overtaken)),
        };
        if let Some(known) = self.known.take(run, seen.head.token())
            && known.sequence == seen.sequence
        {
            seen.fold = known.fold;
            if let (Some(fold), Content::Marks { views, .. }) = (&mut seen.fold, content) {
                fold.mark(views);
            }
        }
        self.known.put(run, Seen { sequence, ..seen });
        Ok(Ok(()))
    }

    /// What a commit changed, from wherever it is.
    pub(super) async fn delta(
        &self,
        run: &RunId,
        sequence: u64,
        committed: &Committed,
    ) -> Result<Delta, ReadError> {
        let bad = |error| ReadError::from(self.bad_message(run, error));
        let foreign = |source| bad(BadMessage::ExternalWrite { sequence, source });
        match &committed.delta {
            Place::Workspace(text) => serde_json::from_str(text.get()).map_err(foreign),
            Place::Behind(behind) => behind.delta().ok_or_else(|| bad(BadMessage::Torn { sequence })),
            Place::Blob(digest) => match self.blob(digest).await? {
                Some(body) => serde_json::from_slice(&body).map_err(foreign),
                None => Err(bad(BadMessage::NoBlob { sequence, digest: digest.clone() })),
            },
        }
    }

    /// The runs that have messages, whoever wrote them.
    pub(super) async fn with_messages(&self) -> Result<BTreeSet<RunId>, Unavailable> {
        let subjects = self.journal.subjects(&format!("{RUNS}*")).await?;
        Ok(subjects.iter().filter_map(|subject| run_of(subject)).collect())
    }

    /// The runs that have messages, in the order of their names, and those whose first commit is only in the bucket.
    /// Somebody may lead a run that has no commit yet.
    pub(super) async fn names(&self) -> Result<Vec<RunId>, Unavailable> {
        let mut runs = self.with_messages().await?;
        let uncopied = self.keys_but(&runs).await?;
        runs.extend(uncopied);
        Ok(runs.into_iter().collect())
    }
}

impl Record {
    pub(super) fn committed(&self) -> Option<&Committed> {
        match &self.content {
            Content::Commit(committed) => Some(committed),
            Content::EngineLock { .. } | Content::Marks { .. } | Content::Fence { .. } => None,
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
