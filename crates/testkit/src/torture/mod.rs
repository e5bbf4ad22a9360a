//! Crash torture: random workflows with gates and random peer cycles, `kill -9` of engines, shims and (where the runs are on
//! NATS) the server at random moments, pauses and stops, `resume`, `retry` and `peer --continue` until done.
//!
//! Whatever is killed, in the end every step must be done, none may have begun again unless it was sent back, every
//! attempt that began must be over exactly once, every repeated try must be explained by a killed shim or a planned
//! failure, no process may be left, and a reader beside it must never have seen a view that breaks the seed's rules. Of
//! cycles, every document that there ever was must keep the rules, and no phase may be completed twice.

mod cycles;
mod killer;
mod lives;
mod tally;
mod workflows;

use std::path::PathBuf;
use std::time::Instant;

pub use tally::Tally;

/// So that one unlucky trial does not use up all kills.
const KILLS_PER_TRIAL: u32 = 12;

/// One trial in so many is one of cycles.
const CYCLES: u64 = 3;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Torture {
    /// The built `callboard`.
    pub program: PathBuf,
    pub kills: u32,
    pub seed: u64,
}

impl Torture {
    /// Kills until the number is reached and every run is done; panics at the first broken promise.
    pub fn run(&self) -> Tally {
        let begun = Instant::now();
        let mut tally = Tally { seed: self.seed, ..Tally::default() };
        // Each trial has a seed of its own, so that one that fails can be repeated alone.
        let mut seed = self.seed;
        while tally.kills() < self.kills {
            let kills = (self.kills - tally.kills()).min(KILLS_PER_TRIAL);
            if seed.is_multiple_of(CYCLES) {
                cycles::torture(self, seed, kills, &mut tally);
            } else {
                workflows::torture(self, seed, kills, &mut tally);
            }
            seed = seed.wrapping_add(1);
        }
        tally.took = begun.elapsed();
        tally
    }
}
