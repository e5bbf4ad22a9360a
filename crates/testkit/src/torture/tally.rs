//! What a torture has done, in numbers.

use std::fmt;
use std::time::Duration;

use super::killer::Killer;
use super::lives::Journal;
use crate::reader::Seen;

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    pub seed: u64,
    pub engine_kills: u32,
    pub shim_kills: u32,
    /// Of the servers of NATS that the runs were on.
    pub server_kills: u32,
    pub workflows: u32,
    /// A trial of cycles plays as many as it takes to complete one.
    pub cycles: usize,
    /// Phases that were completed by being played, and those that were taken over.
    pub phases: usize,
    pub reused: usize,
    /// Documents of cycles, one for each revision.
    pub documents: usize,
    pub steps: usize,
    pub attempts: usize,
    pub interrupted: usize,
    pub planned_failures: usize,
    pub resumes: u32,
    pub retries: u32,
    pub pauses: u32,
    pub stops: usize,
    /// Ways back that were taken.
    pub resets: usize,
    pub adopted: usize,
    pub seen: Seen,
    pub took: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "torture: {} kills ({} engines, {} shims, {} servers) over {} workflows and {} peer cycles, seed {}: {} steps and {} \
             phases succeeded in {} attempts ({} interrupted, {} failed as planned, {} adopted), {} loop-backs, {} \
             pauses, {} stops, {} retries, {} resumes, {} phases reused; {} views read, {} different, {} bad; {} \
             documents of cycles checked; 0 repeated, 0 lost, 0 hung, 0 orphans; {:.0} s",
            self.kills(),
            self.engine_kills,
            self.shim_kills,
            self.server_kills,
            self.workflows,
            self.cycles,
            self.seed,
            self.steps,
            self.phases,
            self.attempts,
            self.interrupted,
            self.planned_failures,
            self.adopted,
            self.resets,
            self.pauses,
            self.stops,
            self.retries,
            self.resumes,
            self.reused,
            self.seen.reads,
            self.seen.versions,
            self.seen.bad.len(),
            self.documents,
            self.took.as_secs_f64(),
        )
    }
}

impl Tally {
    pub(super) fn kills(&self) -> u32 {
        self.engine_kills + self.shim_kills + self.server_kills
    }

    pub(super) fn add(&mut self, killer: &Killer<'_>) {
        self.engine_kills += killer.engines;
        self.shim_kills += killer.shims.values().sum::<u32>();
        self.server_kills += killer.servers;
        self.pauses += killer.pauses;
        self.stops += killer.stopped.len();
    }

    pub(super) fn add_lives(&mut self, journal: &Journal) {
        self.adopted += journal.adopted;
        self.resets += journal.resets;
        for life in journal.lives.values() {
            self.attempts += life.began.len();
            self.interrupted += life.interrupted as usize;
            self.planned_failures += (life.repeats + life.gave_up) as usize;
        }
    }
}
