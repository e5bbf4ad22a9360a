//! The attempts and loop-backs in the journal of the demo's run.

use protocol::entry::{Author, Entry};
use protocol::run::{AttemptConsequence, Change};
use protocol::steps::{Change as Transition, Steps};
use protocol::{AttemptId, Revision, RunId};
use store::{Location, SqliteStore, Store as _};

use super::sandbox::{RUN, Sandbox};
use crate::failure::{Exit, Failure};

/// A start, an end or a loop-back in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttemptEvent {
    Started {
        attempt: AttemptId,
        /// The process that wrote the entry; `None` if it was not an engine.
        engine_pid: Option<u32>,
    },
    Ended {
        attempt: AttemptId,
        /// The process that wrote the entry; `None` if it was not an engine.
        engine_pid: Option<u32>,
        /// Whether it ended with a valid report.
        reported: bool,
        logs: Vec<String>,
    },
    LoopedBack,
}

/// Reads the current journal, oldest entry first.
pub(super) async fn read(sandbox: &Sandbox) -> Result<Vec<AttemptEvent>, Failure> {
    let location = location(sandbox)?;
    let run = RunId::new(RUN).expect("BUG: the demo's run has a name");
    let Some(store) = SqliteStore::open_existing(&location)? else { return Ok(Vec::new()) };
    let mut events = Vec::new();
    for stored in store.entries(&run, Revision(0)).await? {
        let entry = Entry::decode(&stored.body).and_then(|entry| entry.typed::<Steps>());
        events.extend(events_of(&entry.map_err(|error| Failure::from_error(Exit::Store, &error))?));
    }
    Ok(events)
}

pub(super) fn location(sandbox: &Sandbox) -> Result<Location, Failure> {
    Ok(Location::find(sandbox.repo(), None)?)
}

fn events_of(entry: &Entry<Steps>) -> impl Iterator<Item = AttemptEvent> {
    let engine_pid = match &entry.by {
        Author::Engine { pid, .. } => Some(*pid),
        Author::Person { .. } | Author::BucketClient { .. } => None,
    };
    let report = entry.input.evidence().and_then(|evidence| evidence.report.as_ref());
    let logs = report.map(|report| report.logs.clone()).unwrap_or_default();
    entry.changes.iter().filter_map(move |change| match change {
        Change::Started { attempt, .. } => {
            Some(AttemptEvent::Started { attempt: attempt.clone(), engine_pid })
        }
        Change::Ended { attempt, consequence, .. } => Some(AttemptEvent::Ended {
            attempt: attempt.clone(),
            engine_pid,
            reported: *consequence == AttemptConsequence::Reported,
            logs: logs.clone(),
        }),
        Change::Protocol { transition: Transition::Reset { .. } } => Some(AttemptEvent::LoopedBack),
        Change::Protocol { .. }
        | Change::Status { .. }
        | Change::Queued { .. }
        | Change::Waiting { .. }
        | Change::Answered { .. }
        | Change::BackoffElapsed { .. }
        | Change::StopRequested { .. }
        | Change::Dequeued { .. } => None,
    })
}
