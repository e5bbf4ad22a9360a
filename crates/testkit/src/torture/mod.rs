//! Crash torture: random workflows with gates, `kill -9` of engines and shims at random moments, pauses, `resume` and
//! `retry` until done.
//!
//! Whatever is killed, in the end every step must be done, none may have begun again unless it was sent back, every
//! attempt that began must be over exactly once, every repeated try must be explained by a killed shim or a planned
//! failure, no process may be left, and a reader beside it must never have seen a view that breaks the seed's rules.

mod check;
mod workflow;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::command::Running;
use crate::process::{Held, attempt_dirs};
use crate::reader::{Seen, ViewReader};
use crate::scene::Scene;
use workflow::RandomWorkflow;

/// Beyond this an engine repeats nothing any more: five interruptions of a turn are its limit. We stay well below.
const SHIM_KILLS_PER_STEP: u32 = 3;
/// So that one unlucky workflow does not use up all kills.
const KILLS_PER_WORKFLOW: u32 = 12;

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Torture {
    /// The built `callboard`.
    pub program: PathBuf,
    pub kills: u32,
    pub seed: u64,
}

/// What was done.
#[derive(Debug, Default)]
pub struct Tally {
    pub seed: u64,
    pub engine_kills: u32,
    pub shim_kills: u32,
    pub workflows: u32,
    pub steps: usize,
    pub attempts: usize,
    pub interrupted: usize,
    pub planned_failures: usize,
    pub resumes: u32,
    pub retries: u32,
    pub pauses: u32,
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
            "torture: {} kills ({} engines, {} shims) over {} workflows, seed {}: {} steps delivered in {} \
             attempts ({} interrupted, {} failed as planned, {} adopted), {} loop-backs, {} pauses, {} retries, {} \
             resumes; {} views read, {} different, {} bad; 0 repeated, 0 lost, 0 hung, 0 orphans; {:.0} s",
            self.engine_kills + self.shim_kills,
            self.engine_kills,
            self.shim_kills,
            self.workflows,
            self.seed,
            self.steps,
            self.attempts,
            self.interrupted,
            self.planned_failures,
            self.adopted,
            self.resets,
            self.pauses,
            self.retries,
            self.resumes,
            self.seen.reads,
            self.seen.versions,
            self.seen.bad.len(),
            self.took.as_secs_f64(),
        )
    }
}

impl Torture {
    /// Kills until the number is reached and every workflow is done; panics at the first broken promise.
    pub fn run(&self) -> Tally {
        let begun = Instant::now();
        let mut tally = Tally { seed: self.seed, ..Tally::default() };
        while tally.engine_kills + tally.shim_kills < self.kills {
            // Each workflow has a seed of its own, so that one that fails can be repeated alone.
            let seed = self.seed.wrapping_add(u64::from(tally.workflows));
            let left = self.kills - tally.engine_kills - tally.shim_kills;
            self.one_workflow(seed, left.min(KILLS_PER_WORKFLOW), &mut tally);
            tally.workflows += 1;
        }
        tally.took = begun.elapsed();
        tally
    }

    fn one_workflow(&self, seed: u64, kills: u32, tally: &mut Tally) {
        let mut random = Rng::with_seed(seed);
        let workflow = RandomWorkflow::new(&mut random);
        let scene = Scene::new(&self.program);
        workflow.write(&scene);
        let reader = ViewReader::start(&scene.view("trial"));
        let mut killer = Killer {
            scene: &scene,
            random,
            left: kills,
            engines: 0,
            shims: BTreeMap::new(),
            resumes: 0,
            retries: 0,
            pauses: 0,
        };
        killer.until_delivered(seed);
        let seen = reader.finish();
        let found = check::check(&scene, &workflow, &killer.shims, &seen, seed);
        tally.engine_kills += killer.engines;
        tally.shim_kills += killer.shims.values().sum::<u32>();
        tally.steps += workflow.steps.len();
        tally.attempts += found.attempts;
        tally.interrupted += found.interrupted;
        tally.planned_failures += found.failed;
        tally.adopted += found.adopted;
        tally.resets += found.resets;
        tally.resumes += killer.resumes;
        tally.retries += killer.retries;
        tally.pauses += killer.pauses;
        tally.seen.reads += seen.reads;
        tally.seen.versions += seen.versions;
        tally.seen.bad.extend(seen.bad);
    }
}

struct Killer<'s> {
    scene: &'s Scene,
    random: Rng,
    left: u32,
    engines: u32,
    /// By step.
    shims: BTreeMap<String, u32>,
    resumes: u32,
    retries: u32,
    pauses: u32,
}

impl<'s> Killer<'s> {
    /// Starts and kills until an engine comes to its end unharmed.
    fn until_delivered(&mut self, seed: u64) {
        let mut engine = self.scene.run(&["--jobs", "3"]).start();
        loop {
            if self.torment(&engine) {
                let session = engine.wait();
                // A shim alone may die before the next engine comes, too.
                if self.random.u8(..4) == 0 {
                    self.kill_a_shim();
                }
                assert_eq!(
                    session.code,
                    -1,
                    "seed {seed}: killed, yet it ended by itself:\n{}",
                    session.transcript()
                );
                engine = self.next_engine(seed);
                continue;
            }
            let session = engine.wait();
            // The one before may have been killed when all was done but the farewell: then there is nothing to resume.
            let refused = |because: &str| session.code == 3 && session.stderr.contains(because);
            if session.code == 0 || refused("it was delivered") {
                return;
            }
            // A step has died for good, as planned: now or before the engine that told it was killed.
            let died = session.code == 1 || refused("it ended undelivered");
            assert!(died, "seed {seed}: undelivered:\n{}", session.transcript());
            self.retries += 1;
            assert!(self.retries < 20, "seed {seed}: retried for ever:\n{}", session.transcript());
            engine = self.scene.callboard(&["retry", "trial", "--jobs", "3"]).start();
        }
    }

    /// Plays with an engine until it is killed (true) or has come to its end (false).
    fn torment(&mut self, engine: &Running<'_>) -> bool {
        loop {
            if self.left == 0 {
                return false;
            }
            // The one place where a moment is chosen by the clock, for to hit any instruction is the point. Short
            // times are likelier: much happens soon after a start.
            let moment = Duration::from_secs_f64(0.15 * self.random.f64() * self.random.f64());
            if engine.ends_within(moment) {
                return false;
            }
            if self.random.u8(..5) < 2 && self.kill_a_shim() {
                continue;
            }
            if self.random.u8(..6) == 0 && self.pause(engine) {
                continue;
            }
            engine.kill();
            // It may have come to its own end in the last moment; then nothing was killed.
            if engine.was_killed() {
                self.left -= 1;
                self.engines += 1;
                return true;
            }
            return false;
        }
    }

    /// Pauses the run. Then its engine is told to go on. False if there was nothing to pause.
    fn pause(&mut self, engine: &Running<'_>) -> bool {
        let paused = self.scene.callboard(&["pause", "trial"]).run();
        if paused.code != 0 || engine.ends_within(Duration::ZERO) {
            return false;
        }
        self.pauses += 1;
        // Nobody but us kills the engine: it is there to be told, unless it has just come to its end.
        let resumed = self.scene.callboard(&["resume", "trial", "--jobs", "3"]).run();
        assert!(matches!(resumed.code, 0 | 1 | 3 | 5), "{}", resumed.transcript());
        true
    }

    /// Kills a shim at work, if there is one that may still be killed.
    fn kill_a_shim(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let mut dirs = attempt_dirs(&self.scene.store(), "trial");
        self.random.shuffle(&mut dirs);
        for (step, dir) in dirs {
            let kills = self.shims.entry(step).or_default();
            if *kills < SHIM_KILLS_PER_STEP
                && let Some(shim) = at_work(&dir)
            {
                shim.kill();
                shim.wait();
                *kills += 1;
                self.left -= 1;
                return true;
            }
        }
        false
    }

    /// `resume`, or `run` again if the first one was killed before there was a run.
    fn next_engine(&mut self, seed: u64) -> Running<'s> {
        self.resumes += 1;
        let listed = self.scene.callboard(&["ls", "--json"]).run();
        assert_eq!(listed.code, 0, "seed {seed}: {}", listed.transcript());
        let exists = listed.json().as_array().is_some_and(|runs| !runs.is_empty());
        if exists {
            self.scene.callboard(&["resume", "trial", "--jobs", "3"]).start()
        } else {
            self.scene.run(&["--jobs", "3"]).start()
        }
    }
}

/// The shim of an attempt that is not over.
fn at_work(dir: &Path) -> Option<Held> {
    Held::shim(dir).filter(|_| !dir.join("exit.json").exists())
}
