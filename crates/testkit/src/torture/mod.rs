//! Crash torture: runs random workflows and peer cycles. Kills engines, shims and the NATS server with `kill -9` at random
//! times, and pauses and stops runs. Continues each run with `resume`, `retry` or `peer --continue` until it is done.
//!
//! Other trials add what these lack. Runs of the protocol [`items`](crate::items): people, effects and edited files. Workflows
//! with worktrees: merges. Workflows with data loops: people, conditions and checks. Runs of `issue`: effects on git and on a
//! tracker. Runs of `cycle`: iterations, extensions and parallel tasks. Runs of `team`: groups that are planned, merged and
//! sent back.
//!
//! In the end every step must be done. No step may have started again without a loop-back. Every attempt that started
//! must have ended exactly once. Every retry must have a killed shim or a planned failure as its reason. No process
//! may be left. A concurrent reader must never have seen a view that breaks the format's rules. For peer
//! cycles, every document of every revision must keep the rules, and no phase may be completed twice.

mod chaos;
mod development;
mod issues;
mod items;
mod peer_cycles;
mod run_history;
mod tally;
mod teams;
mod workflows;

use std::path::PathBuf;
use std::time::Instant;

pub use tally::Tally;

/// How many kills one trial may have.
pub const KILLS_PER_TRIAL: u32 = 12;

// The kind of a trial follows from its seed, modulo these numbers. [`Torture::run`] takes the first kind that matches, so a kind
// is at most one trial in this many.

/// Peer cycles: runs of the protocol `peer`.
const PEER_CYCLES: u64 = 3;
/// Runs of the protocol `items`.
const ITEMS: u64 = 5;
/// Workflows with steps in worktrees, which are merged.
const WORKTREES: u64 = 4;
/// Workflows with data loops, checks, conditions and approvals.
const DATA_LOOPS: u64 = 8;
/// Runs of the protocol `issue`.
const ISSUES: u64 = 7;
/// Development cycles: runs of the protocol `cycle`.
const DEVELOPMENT: u64 = 4;
/// Runs of the protocol `team`.
const TEAMS: u64 = 6;

/// A torture to run.
#[derive(Debug, Clone)]
pub struct Torture {
    /// The built `callboard`.
    pub program: PathBuf,
    /// The built example `items`: a `callboard` with one more protocol.
    pub items: PathBuf,
    pub kills: u32,
    pub seed: u64,
}

impl Torture {
    /// Runs trials until the number of kills is reached and every run is done. Panics at the first guarantee that does
    /// not hold.
    pub fn run(&self) -> Tally {
        let start = Instant::now();
        let mut tally = Tally { seed: self.seed, ..Tally::default() };
        // Each trial has a seed of its own, so that a failed one can be repeated alone.
        let mut seed = self.seed;
        while tally.kills() < self.kills {
            let kills = (self.kills - tally.kills()).min(KILLS_PER_TRIAL);
            // The thread that answers questions in `items` needs a store that never fails, so these trials use the embedded one.
            if seed.is_multiple_of(ITEMS) && !crate::on_nats() {
                items::torture(&self.items, seed, kills, &mut tally);
            } else if seed % DATA_LOOPS == 1 {
                workflows::data_loops::torture(self, seed, kills, &mut tally);
            } else if seed % TEAMS == 2 {
                teams::torture(self, seed, kills, &mut tally);
            } else if seed.is_multiple_of(WORKTREES) {
                workflows::worktrees::torture(self, seed, kills, &mut tally);
            } else if seed.is_multiple_of(ISSUES) {
                issues::torture(self, seed, kills, &mut tally);
            } else if seed.wrapping_add(1).is_multiple_of(DEVELOPMENT) {
                development::torture(self, seed, kills, &mut tally);
            } else if seed.is_multiple_of(PEER_CYCLES) {
                peer_cycles::torture(self, seed, kills, &mut tally);
            } else {
                workflows::torture(self, seed, kills, &mut tally);
            }
            seed = seed.wrapping_add(1);
        }
        tally.took = start.elapsed();
        tally
    }
}
