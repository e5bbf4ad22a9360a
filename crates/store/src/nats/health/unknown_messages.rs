//! Messages on the subject of a run that Callboard did not write.
//!
//! Compare-and-set protects the order of messages, not their content. Callboard does not commit to a run whose last message is
//! unknown. `callboard recover` stores such a message as an object and removes it; the run then continues after the last
//! message of ours.

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::RunId;

use crate::error::Unavailable;
use crate::nats::connection::{Lookup, RequestFailure, Session};
use crate::nats::journal::{CONCURRENCY, MessageError, decode, is_unreadable, subject};

/// A message on the subject of a run that Callboard did not write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownMessage {
    pub run: RunId,
    /// Its number in the journal stream.
    pub sequence: u64,
}

impl UnknownMessage {
    /// The name of the object that keeps the message.
    #[must_use]
    pub fn name(&self) -> String {
        format!("recovery.{}.{}", self.run, self.sequence)
    }
}

impl Session {
    /// Returns all unknown messages. A message in our format that cannot be parsed is not one of them: a newer program
    /// may have written it.
    pub(in crate::nats) async fn unknown_messages(&self) -> Result<Vec<UnknownMessage>, Unavailable> {
        let runs =
            self.runs_with_messages().await?.into_iter().map(async |run| self.unknown_messages_of(run).await);
        let found: Vec<_> = futures_util::stream::iter(runs).buffered(CONCURRENCY).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn unknown_messages_of(&self, run: RunId) -> Result<Vec<UnknownMessage>, Unavailable> {
        match self.last_journal_record(&run).await {
            // Callboard reads the last message before each write. If the last one is ours, all are.
            Ok(_) => return Ok(Vec::new()),
            Err(error) if is_unreadable(&error) => {}
            Err(error) => return Err(error),
        }
        let subject = subject(&run);
        let Some(last) = self.journal.find(&subject, Lookup::Last).await? else { return Ok(Vec::new()) };
        let found = self.journal.scan(&subject, 1, last.sequence).await?;
        let unknown = found.iter().filter(|found| matches!(decode(found), Err(MessageError::Unknown { .. })));
        Ok(unknown.map(|found| UnknownMessage { run: run.clone(), sequence: found.sequence }).collect())
    }

    /// Stores an unknown message as an object and removes it from the journal. Idempotent.
    pub(in crate::nats) async fn quarantine_message(
        &self,
        message: &UnknownMessage,
    ) -> Result<(), Unavailable> {
        let (subject, sequence) = (subject(&message.run), message.sequence);
        let mut backoff = self.journal.write_backoff("remove a message from");
        loop {
            let found = self.journal.find(&subject, Lookup::From(sequence)).await?;
            let Some(found) = found.filter(|found| found.sequence == sequence) else { return Ok(()) };
            if !matches!(decode(&found), Err(MessageError::Unknown { .. })) {
                return Ok(());
            }
            self.put_object(&message.name(), &found.payload).await?;
            let remove = async {
                let removed = self.journal.stream.delete_message(sequence).await;
                removed.map_err(|error| RequestFailure::from_request(error, &self.journal.name))
            };
            let Err(failure) = self.journal.on_same_store(remove).await else { return Ok(()) };
            let left = self.journal.find(&subject, Lookup::From(sequence)).await?;
            if left.is_some_and(|left| left.sequence == sequence) {
                backoff.wait(failure).await?;
            }
        }
    }
}
