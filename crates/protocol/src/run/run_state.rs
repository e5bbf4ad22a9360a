//! The state after replaying the journal: the run, its timers, the hosts of its attempts and its clock.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::change::Change;
use super::state::{ActiveTurn, Run, RunStatus};
use crate::entry::{BadEntry, Entry, Input, RecoverySource, Timer};
use crate::machine::Machine;
use crate::{AttemptId, StepId, Timestamp, Turn};

/// A run after the entries of its journal.
#[derive(Debug, Clone, PartialEq)]
pub struct RunState {
    pub run: Run,
    pub timers: BTreeMap<AttemptId, Timer>,
    /// The host of each attempt that may be alive: the host of the entry that started it. A person's entry starts an
    /// attempt only if the command was also the engine, so its host is right, too.
    pub hosts: BTreeMap<AttemptId, String>,
    /// The time of the last entry.
    pub at: Timestamp,
}

/// The stored form of a run's state, without definition and document.
#[derive(Serialize, Deserialize)]
struct Snapshot {
    status: RunStatus,
    active_turns: BTreeMap<StepId, ActiveTurn>,
    turns: BTreeMap<StepId, Turn>,
    state: Box<RawValue>,
    timers: BTreeMap<AttemptId, Timer>,
    hosts: BTreeMap<AttemptId, String>,
    at: Timestamp,
}

impl RunState {
    /// Returns the state before the first entry.
    pub fn empty(machine: Box<dyn Machine>, at: Timestamp) -> Self {
        Self { run: Run::empty(machine), timers: BTreeMap::new(), hosts: BTreeMap::new(), at }
    }

    /// Returns the state as a snapshot.
    pub fn encode_snapshot(&self) -> String {
        let snapshot = Snapshot {
            status: self.run.status,
            active_turns: self.run.active_turns.clone(),
            turns: self.run.turns.clone(),
            state: self.run.machine.state(),
            timers: self.timers.clone(),
            hosts: self.hosts.clone(),
            at: self.at,
        };
        serde_json::to_string(&snapshot).expect("BUG: the state of a run is plain data")
    }

    /// Returns the state in a snapshot, with the definition and the document of the machine.
    pub fn decode_snapshot(mut machine: Box<dyn Machine>, text: &str) -> Result<Self, serde_json::Error> {
        let Snapshot { status, active_turns, turns, state, timers, hosts, at } = serde_json::from_str(text)?;
        machine.set_state(&state)?;
        Ok(Self { run: Run { status, machine, active_turns, turns }, timers, hosts, at })
    }

    /// Applies an entry that was read from the journal. The document stays as it is.
    pub fn fold(&mut self, entry: &Entry) -> Result<(), BadEntry> {
        for change in &entry.changes {
            self.run.apply(change)?;
        }
        self.fold_timers_and_hosts(entry);
        Ok(())
    }

    /// Applies the clock, the timers and the hosts of an entry whose changes the run already has.
    pub fn fold_timers_and_hosts(&mut self, entry: &Entry) {
        self.at = self.at.max(entry.at);
        for change in &entry.changes {
            match change {
                Change::BackoffElapsed { step } | Change::Dequeued { step } => {
                    self.timers.retain(|attempt, _| attempt.step != *step);
                }
                Change::Queued { step, .. } => {
                    self.hosts.retain(|attempt, _| attempt.step != *step);
                }
                Change::Started { attempt, .. } => {
                    self.hosts.insert(attempt.clone(), entry.by.host().to_owned());
                }
                Change::Ended { attempt, .. } => {
                    self.hosts.remove(attempt);
                }
                Change::Status { .. }
                | Change::Protocol { .. }
                | Change::StopRequested { .. }
                | Change::Waiting { .. }
                | Change::Answered { .. } => {}
            }
        }
        self.timers.extend(entry.timers.iter().map(|timer| (timer.attempt.clone(), timer.clone())));
        if let Input::Recovered { source: RecoverySource::Archive { .. } } = &entry.input {
            // An archive brings the directories of its attempts along, so the importing host owns the open ones.
            self.hosts.values_mut().for_each(|host| entry.by.host().clone_into(host));
        }
    }

    /// Returns the attempts that may be alive on hosts other than `local_host`, each with its host.
    pub fn remote<'a>(&'a self, local_host: &'a str) -> impl Iterator<Item = (AttemptId, &'a str)> {
        self.run.live_attempts().filter_map(move |(attempt, _)| {
            let host = self.hosts.get(&attempt)?;
            (host != local_host).then_some((attempt, host.as_str()))
        })
    }
}
