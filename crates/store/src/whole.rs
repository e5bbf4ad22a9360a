//! A run written in one go: it came from elsewhere, or is built again, and is there whole or not at all.

use std::path::Path;

use jiff::Timestamp;
use protocol::{Epoch, RunId};
use rusqlite::Transaction;

use crate::commit::{Commit, Position, Token};
use crate::error::CommitError;
use crate::sqlite::{DraftError, TransactionWriter};
use crate::{Digest, KvEntry};

/// The hand that writes one run.
#[derive(Debug)]
pub struct RunWriter<'t>(EditAuthor<'t>);

#[derive(Debug)]
enum EditAuthor<'t> {
    Transaction(TransactionWriter<'t>),
    Gathering(&'t mut Gathering),
}

/// A run that is written when all of it is known.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    pub(crate) commits: Vec<Commit>,
    pub(crate) blobs: Vec<Vec<u8>>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) epoch: Epoch,
    /// The entry of others, under the key of this run, in whose place it comes.
    pub(crate) over: Option<KvEntry>,
}

impl<'t> RunWriter<'t> {
    pub(crate) fn within(transaction: &'t Transaction<'t>, path: &'t Path) -> Self {
        Self(EditAuthor::Transaction(TransactionWriter::new(transaction, path)))
    }

    pub(crate) fn gathering(gathering: &'t mut Gathering) -> Self {
        Self(EditAuthor::Gathering(gathering))
    }

    /// The same as a commit, except that it lands only with all the others.
    pub fn append(&mut self, commit: &Commit) -> Result<Position, DraftError> {
        match &mut self.0 {
            EditAuthor::Transaction(writer) => writer.append(commit),
            EditAuthor::Gathering(gathering) => gathering.append(commit),
        }
    }

    pub fn blob(&mut self, body: &Vec<u8>) -> Result<Digest, DraftError> {
        match &mut self.0 {
            EditAuthor::Transaction(writer) => writer.blob(body),
            EditAuthor::Gathering(gathering) => {
                gathering.blobs.push(body.clone());
                Ok(Digest::of(body))
            }
        }
    }

    /// Says that the run is made of an entry of others that has its very key in a bucket of documents, and takes its place.
    /// Where there is no such bucket, or something else stands there by now, it means nothing.
    pub fn takes_the_place_of(&mut self, entry: KvEntry) {
        match &mut self.0 {
            EditAuthor::Transaction(_) => {}
            EditAuthor::Gathering(gathering) => gathering.over = Some(entry),
        }
    }

    /// When the run was created, and below which epoch no engine may come back.
    pub fn remember(&mut self, run: &RunId, created: Timestamp, epoch: Epoch) -> Result<(), DraftError> {
        match &mut self.0 {
            EditAuthor::Transaction(writer) => writer.remember(run, created, epoch),
            EditAuthor::Gathering(gathering) => {
                gathering.created = Some(created);
                gathering.epoch = gathering.epoch.max(epoch);
                Ok(())
            }
        }
    }
}

impl Gathering {
    /// Whoever writes it gives each commit its real token.
    fn append(&mut self, commit: &Commit) -> Result<Position, DraftError> {
        let found = self.commits.last().map_or(Position::absent(), |last| next(last.expected));
        if commit.expected != found {
            let (run, expected) = (commit.run.clone(), commit.expected.revision);
            return Err(CommitError::Conflict { run, expected, found: found.revision }.into());
        }
        self.commits.push(commit.clone());
        Ok(next(found))
    }
}

fn next(position: Position) -> Position {
    let revision = position.revision.next();
    Position { revision, token: Token(revision.0) }
}
