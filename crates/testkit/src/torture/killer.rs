//! Who kills, pauses and stops, at random moments.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::backing::Backing;
use crate::command::{Running, Session};
use crate::process::{Held, attempt_dirs, attempted_runs};
use crate::scene::Scene;

/// Beyond this an engine repeats nothing any more: five interruptions of a turn are its limit. We stay well below.
const SHIM_KILLS_PER_STEP: u32 = 3;

pub(super) struct Killer<'s> {
    pub(super) scene: &'s Scene,
    pub(super) random: Rng,
    pub(super) left: u32,
    /// The longest time, in seconds, that an engine is left alone.
    pub(super) longest: f64,
    /// How many runs may still be stopped for good.
    pub(super) may_stop: u32,
    pub(super) engines: u32,
    /// Of the server that the runs are on, if they are on one.
    pub(super) servers: u32,
    /// By run and step.
    pub(super) shims: BTreeMap<(String, String), u32>,
    /// Runs that were stopped.
    pub(super) stopped: Vec<String>,
    pub(super) pauses: u32,
}

impl<'s> Killer<'s> {
    pub(super) fn new(scene: &'s Scene, random: Rng, kills: u32) -> Self {
        Self {
            scene,
            random,
            left: kills,
            longest: 0.15,
            may_stop: 0,
            engines: 0,
            servers: 0,
            shims: BTreeMap::new(),
            stopped: Vec::new(),
            pauses: 0,
        }
    }

    /// Plays with an engine until it is killed (true) or has come to its end (false).
    pub(super) fn torment(&mut self, engine: &Running<'_>) -> bool {
        loop {
            if self.left == 0 {
                return false;
            }
            // The one place where a run_at is chosen by the clock, for to hit any instruction is the point. Short
            // times are likelier: much happens soon after a start.
            let run_at = Duration::from_secs_f64(self.longest * self.random.f64() * self.random.f64());
            if engine.ends_within(run_at) {
                return false;
            }
            if self.random.u8(..5) < 2 && self.kill_a_shim() {
                continue;
            }
            if self.random.u8(..6) == 0 && self.kill_the_server() {
                continue;
            }
            if self.random.u8(..6) == 0 && self.pause(engine) {
                continue;
            }
            if self.may_stop > 0 && self.random.u8(..6) == 0 {
                match self.stop() {
                    Stop::Granted => continue,
                    // Now and then the engine dies with whoever asked.
                    Stop::Killed if self.random.bool() => continue,
                    Stop::Killed | Stop::Refused => {}
                }
            }
            engine.kill();
            // It may have come to its own end in the last run_at; then nothing was killed.
            if engine.was_killed() {
                self.left -= 1;
                self.engines += 1;
                return true;
            }
            return false;
        }
    }

    /// Kills the server, lets everybody look for it for a while, and starts it with what is in its directory.
    fn kill_the_server(&mut self) -> bool {
        if let Backing::Embedded = self.scene.backing() {
            return false;
        }
        let mut server = self.scene.backing().server();
        server.kill();
        // By the clock, like the moments of all kills.
        std::thread::sleep(Duration::from_secs_f64(self.longest * self.random.f64()));
        server.restart();
        self.left -= 1;
        self.servers += 1;
        true
    }

    /// Pauses the run. Then its engine is told to go on. False if there was nothing to pause.
    fn pause(&mut self, engine: &Running<'_>) -> bool {
        let Some(run) = self.played() else { return false };
        let paused = self.scene.callboard(&["pause", &run]).run();
        if paused.code != 0 || engine.ends_within(Duration::ZERO) {
            return false;
        }
        self.pauses += 1;
        // Nobody but us kills the engine: it is there to be told, unless it has just come to its end.
        let resumed = self.scene.callboard(&["resume", &run, "--jobs", "3"]).run();
        assert!(matches!(resumed.code, 0 | 1 | 3 | 5), "{}", resumed.transcript());
        true
    }

    /// Kills a shim at work, if there is one that may still be killed.
    pub(super) fn kill_a_shim(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let Some(run) = self.played() else { return false };
        let mut dirs = attempt_dirs(&self.scene.store(), &run);
        self.random.shuffle(&mut dirs);
        for (step, dir) in dirs {
            let kills = self.shims.entry((run.clone(), step)).or_default();
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

    /// Stops the run that is played, for good; whoever asks for it may be killed meanwhile.
    fn stop(&mut self) -> Stop {
        let Some(run) = self.played().filter(|run| !self.stopped.contains(run)) else {
            return Stop::Refused;
        };
        let asking = self.scene.callboard(&["stop", &run]).start();
        let run_at = Duration::from_secs_f64(self.longest * self.random.f64());
        let killed = self.random.bool() && !asking.ends_within(run_at) && {
            asking.kill();
            asking.was_killed()
        };
        let asked = asking.wait();
        assert!(killed || matches!(asked.code, 0 | 3), "{}", asked.transcript());
        if !killed && asked.code == 3 {
            return Stop::Refused;
        }
        self.may_stop -= 1;
        self.stopped.push(run);
        if killed { Stop::Killed } else { Stop::Granted }
    }

    /// Waits for an engine that was killed; a shim alone may die before the next one comes, too.
    pub(super) fn bury(&mut self, engine: Running<'_>, seed: u64) {
        let session = engine.wait();
        if self.random.u8(..4) == 0 {
            self.kill_a_shim();
        }
        let said = session.transcript();
        assert_eq!(session.code, -1, "seed {seed}: killed, yet it ended by itself:\n{said}");
    }

    /// What `ls` tells of all runs.
    pub(super) fn runs(&self, seed: u64) -> Vec<Value> {
        let listed = self.scene.callboard(&["ls", "--json"]).run();
        assert_eq!(listed.code, 0, "seed {seed}: {}", listed.transcript());
        listed.json().as_array().cloned().unwrap_or_default()
    }

    /// The run that is played: the newest of those that have started somebody.
    fn played(&self) -> Option<String> {
        attempted_runs(&self.scene.store()).pop()
    }
}

/// What became of a stop.
enum Stop {
    Granted,
    /// Whoever asked was killed, before or after it was granted.
    Killed,
    Refused,
}

/// Whether a command came while the server was away. Only those who know it wait for it.
pub(super) fn found_no_server(session: &Session) -> bool {
    session.code == 5 && session.stderr.contains("could not connect to the NATS server")
}

/// The shim of an attempt that is not over.
fn at_work(dir: &Path) -> Option<Held> {
    Held::shim(dir).filter(|_| !dir.join("exit.json").exists())
}
