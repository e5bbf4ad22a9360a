//! Messages that somebody else has put on the subject of a run. Compare-and-set keeps the order of what is written there, not
//! its meaning: nobody can go on behind one, and so nothing of ours ever follows it.
//!
//! To take it away is a person's word. It is kept under a name of its own first; then the run ends with what we wrote last.

use futures_util::{StreamExt as _, TryStreamExt as _};
use protocol::RunId;

use super::channel::Which;
use super::fault::Fault;
use super::journal::{is_not_understood, subject};
use super::read::AT_ONCE;
use super::server::Server;
use super::wire::{BadMessage, decode};
use crate::error::Unavailable;

/// A message on the subject of a run that is not ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranger {
    pub run: RunId,
    /// Its number in the journal.
    pub sequence: u64,
}

impl Stranger {
    /// What it is called when it is set aside, among the objects of the store.
    #[must_use]
    pub fn name(&self) -> String {
        format!("recovery.{}.{}", self.run, self.sequence)
    }
}

impl Server {
    /// All of them. What says that it is ours is none, though we cannot read it: a newer program may have written it.
    pub(super) async fn strangers(&self) -> Result<Vec<Stranger>, Unavailable> {
        let runs = self.with_messages().await?.into_iter().map(async |run| self.strangers_of(run).await);
        let found: Vec<_> = futures_util::stream::iter(runs).buffered(AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    async fn strangers_of(&self, run: RunId) -> Result<Vec<Stranger>, Unavailable> {
        match self.last(&run).await {
            // Whoever writes looks at the last message first: where that is ours, all are.
            Ok(_) => return Ok(Vec::new()),
            Err(error) if is_not_understood(&error) => {}
            Err(error) => return Err(error),
        }
        let subject = subject(&run);
        let Some(last) = self.journal.find(&subject, Which::Last).await? else { return Ok(Vec::new()) };
        let found = self.journal.scan(&subject, 1, last.sequence).await?;
        let strange =
            found.iter().filter(|found| matches!(decode(found), Err(BadMessage::ExternalWrite { .. })));
        Ok(strange.map(|found| Stranger { run: run.clone(), sequence: found.sequence }).collect())
    }

    /// Keeps a message under its name, and takes it out of the journal. Twice is once.
    pub(super) async fn set_stranger_aside(&self, stranger: &Stranger) -> Result<(), Unavailable> {
        let (subject, sequence) = (subject(&stranger.run), stranger.sequence);
        let mut outage = self.journal.writing("set a message aside at");
        loop {
            let found = self.journal.find(&subject, Which::From(sequence)).await?;
            let Some(found) = found.filter(|found| found.sequence == sequence) else { return Ok(()) };
            if !matches!(decode(&found), Err(BadMessage::ExternalWrite { .. })) {
                return Ok(());
            }
            self.put_object(&stranger.name(), &found.payload).await?;
            let remove = async {
                let removed = self.journal.stream.delete_message(sequence).await;
                removed.map_err(|error| Fault::of_question(error, &self.journal.name))
            };
            let Err(fault) = self.journal.asked(remove).await else { return Ok(()) };
            let left = self.journal.find(&subject, Which::From(sequence)).await?;
            if left.is_some_and(|left| left.sequence == sequence) {
                outage.bear(fault).await?;
            }
        }
    }
}
