//! Crash torture: random workflows, `kill -9` of engines and shims at random moments, `resume` until done.
//!
//! Whatever is killed, in the end every step's report must have been accepted exactly once, nothing that was finished
//! may have run again, every repeated try must be explained by a killed shim or a planned failure, no process may be
//! left, and a reader beside it must never have seen a bad view.

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
    pub adopted: usize,
    pub seen: Seen,
    pub took: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "torture: {} kills ({} engines, {} shims) over {} workflows, seed {}: {} steps delivered once each in {} \
             attempts ({} interrupted, {} failed as planned, {} adopted), {} resumes; {} views read, {} different, \
             {} bad; 0 repeated, 0 lost, 0 hung, 0 orphans; {:.0} s",
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
        let mut killer = Killer { scene: &scene, random, left: kills, engines: 0, shims: BTreeMap::new() };
        let resumes = killer.until_delivered(seed);
        let seen = reader.finish();
        let found = check::check(&scene, &workflow, &killer.shims, &seen, seed);
        tally.engine_kills += killer.engines;
        tally.shim_kills += killer.shims.values().sum::<u32>();
        tally.steps += workflow.steps.len();
        tally.attempts += found.attempts;
        tally.interrupted += found.interrupted;
        tally.planned_failures += found.failed;
        tally.adopted += found.adopted;
        tally.resumes += resumes;
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
}

impl<'s> Killer<'s> {
    /// Starts and kills until an engine comes to its end unharmed. Says how often it resumed.
    fn until_delivered(&mut self, seed: u64) -> u32 {
        let mut resumes = 0;
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
                resumes += 1;
                continue;
            }
            let session = engine.wait();
            // The one before may have been killed when all was done but the farewell: then there is nothing to resume.
            let was_done = session.code == 3 && session.stderr.contains("it was delivered");
            assert!(session.code == 0 || was_done, "seed {seed}: undelivered:\n{}", session.transcript());
            return resumes;
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
