//! The statistics of a torture.

use std::fmt;
use std::time::Duration;

use super::chaos::Chaos;
use super::run_history::RunHistory;
use crate::view_reader::ReadStats;

/// What a torture did.
#[derive(Debug, Default)]
pub struct Tally {
    pub seed: u64,
    pub engine_kills: u32,
    pub shim_kills: u32,
    /// Kills of NATS servers.
    pub server_kills: u32,
    pub workflows: u32,
    /// Workflows whose steps work in worktrees and are merged.
    pub worktree_runs: u32,
    /// Workflows with data loops, checks, conditions and approvals.
    pub data_loop_runs: u32,
    /// Peer cycles. A trial runs as many as it needs to complete one.
    pub peer_cycles: usize,
    /// Phases of peer cycles that were completed by agents.
    pub phases: usize,
    /// Phases whose result was taken over from an earlier cycle.
    pub reused: usize,
    /// Documents of peer cycles that were checked, one for each revision.
    pub documents: usize,
    /// Runs of `items`, a protocol of the tests. Not on NATS.
    pub items_runs: u32,
    /// Runs of `issue`.
    pub issue_runs: u32,
    /// Development cycles: runs of `cycle`.
    pub cycle_runs: u32,
    /// Runs of `team`.
    pub team_runs: u32,
    pub steps: usize,
    pub attempts: usize,
    pub interrupted: usize,
    pub planned_failures: usize,
    pub resumes: u32,
    /// Calls of `callboard retry`. Failed attempts are in `planned_failures`.
    pub retries: u32,
    pub pauses: u32,
    pub stops: usize,
    /// Each counts once, however many steps it resets.
    pub loop_backs: usize,
    pub adopted: usize,
    pub reads: ReadStats,
    pub took: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The zeros are constant: a torture that finds such a defect fails instead of printing a tally.
        write!(
            f,
            "torture: {} kills ({} engines, {} shims, {} servers) over {} random workflows, {} \
             workflows with worktrees, {} with data loops, {} peer cycles, {} development cycles, {} runs of items, {} of \
             issue and {} of team, seed {}: {} steps of workflows and {} phases of peer cycles succeeded in {} attempts ({} interrupted, {} failed as planned, {} adopted), {} loop-backs, {} \
             pauses, {} stops, {} retries, {} resumes, {} phases reused; {} views read, {} different, {} bad; {} \
             documents of cycles checked; 0 repeated, 0 lost, 0 hung, 0 orphans; {:.0} s",
            self.kills(),
            self.engine_kills,
            self.shim_kills,
            self.server_kills,
            self.workflows,
            self.worktree_runs,
            self.data_loop_runs,
            self.peer_cycles,
            self.cycle_runs,
            self.items_runs,
            self.issue_runs,
            self.team_runs,
            self.seed,
            self.steps,
            self.phases,
            self.attempts,
            self.interrupted,
            self.planned_failures,
            self.adopted,
            self.loop_backs,
            self.pauses,
            self.stops,
            self.retries,
            self.resumes,
            self.reused,
            self.reads.reads,
            self.reads.versions,
            self.reads.bad.len(),
            self.documents,
            self.took.as_secs_f64(),
        )
    }
}

impl Tally {
    pub(super) fn kills(&self) -> u32 {
        self.engine_kills + self.shim_kills + self.server_kills
    }

    pub(super) fn add(&mut self, chaos: &Chaos<'_>) {
        self.engine_kills += chaos.engine_kills;
        self.shim_kills += chaos.shim_kills.values().sum::<u32>();
        self.server_kills += chaos.server_kills;
        self.pauses += chaos.pauses;
        self.stops += chaos.stopped.len();
    }

    pub(super) fn add_history(&mut self, run_history: &RunHistory) {
        self.adopted += run_history.adopted;
        self.loop_backs += run_history.loop_backs;
        for history in run_history.steps.values() {
            self.attempts += history.started.len();
            self.interrupted += history.interrupted as usize;
            self.planned_failures += (history.retries + history.exhausted) as usize;
        }
    }
}
