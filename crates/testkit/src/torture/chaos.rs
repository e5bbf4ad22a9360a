//! Kills, pauses and stops at random times.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use serde_json::Value;

use crate::process::{ProcessHandle, attempt_dirs, attempted_runs};
use crate::test_env::Backend;
use crate::test_env::TestEnv;
use crate::test_env::{CallOutput, Running};

/// An engine gives up after five interruptions of a turn. The torture stays well below.
const SHIM_KILLS_PER_STEP: u32 = 3;

/// Kills, pauses and stops at random, and counts what it did.
pub(super) struct Chaos<'s> {
    pub(super) test_env: &'s TestEnv,
    pub(super) random: Rng,
    /// How many kills are still to come.
    pub(super) kills_left: u32,
    /// The longest time, in seconds, from one disturbance of an engine to the next.
    pub(super) longest_delay: f64,
    /// How many runs may still be stopped. Only for trials of peer cycles: there a stopped run has failed for good, and the next
    /// cycle continues it.
    pub(super) stops_left: u32,
    pub(super) engine_kills: u32,
    /// Kills of the NATS server, if there is one.
    pub(super) server_kills: u32,
    /// By run and step.
    pub(super) shim_kills: BTreeMap<(String, String), u32>,
    /// Runs that were stopped.
    pub(super) stopped: Vec<String>,
    pub(super) pauses: u32,
}

impl<'s> Chaos<'s> {
    pub(super) fn new(test_env: &'s TestEnv, random: Rng, kills: u32) -> Self {
        Self {
            test_env,
            random,
            kills_left: kills,
            longest_delay: 0.15,
            stops_left: 0,
            engine_kills: 0,
            server_kills: 0,
            shim_kills: BTreeMap::new(),
            stopped: Vec::new(),
            pauses: 0,
        }
    }

    /// Disturbs an engine until it is killed. Returns `false` if it has exited by itself, or if no kill is left.
    pub(super) fn disturb(&mut self, engine: &Running<'_>) -> bool {
        loop {
            if self.kills_left == 0 {
                return false;
            }
            // Random, so that a kill may hit any instruction. Short times are more likely, because much happens right after
            // a start.
            let delay = Duration::from_secs_f64(self.longest_delay * self.random.f64() * self.random.f64());
            if engine.ends_within(delay) {
                return false;
            }
            if self.random.u8(..5) < 2 && self.kill_shim() {
                continue;
            }
            if self.random.u8(..6) == 0 && self.kill_server() {
                continue;
            }
            if self.random.u8(..6) == 0 && self.pause(engine) {
                continue;
            }
            if self.stops_left > 0 && self.random.u8(..6) == 0 {
                match self.stop() {
                    StopResult::Granted => continue,
                    // In half of the cases the engine is killed together with the client.
                    StopResult::Killed if self.random.bool() => continue,
                    StopResult::Killed | StopResult::Refused => {}
                }
            }
            engine.kill();
            // If the engine has just exited by itself, nothing was killed.
            if engine.was_killed() {
                self.kills_left -= 1;
                self.engine_kills += 1;
                return true;
            }
            return false;
        }
    }

    /// Kills the server, waits a while, and restarts it with its directory.
    fn kill_server(&mut self) -> bool {
        if let Backend::Embedded = self.test_env.backend() {
            return false;
        }
        let mut server = self.test_env.backend().server();
        server.kill();
        // A random outage.
        std::thread::sleep(Duration::from_secs_f64(self.longest_delay * self.random.f64()));
        server.restart();
        self.kills_left -= 1;
        self.server_kills += 1;
        true
    }

    /// Pauses and resumes the run. Returns `false` if there was nothing to pause.
    fn pause(&mut self, engine: &Running<'_>) -> bool {
        let Some(run) = self.newest_run() else { return false };
        let paused = self.test_env.callboard(&["pause", &run]).run();
        if paused.code != 0 || engine.ends_within(Duration::ZERO) {
            return false;
        }
        self.pauses += 1;
        // No other thread kills the engine, so it takes the request unless it has just exited. Then `resume` drives the run
        // itself, which may fail (1), is refused because the run has ended (3), or cannot use the store or take the lock (5).
        let resumed = self.test_env.callboard(&["resume", &run]).run();
        assert!(matches!(resumed.code, 0 | 1 | 3 | 5), "{}", resumed.transcript());
        true
    }

    /// Kills a live shim. Returns `false` if there is none that may be killed.
    pub(super) fn kill_shim(&mut self) -> bool {
        if self.kills_left == 0 {
            return false;
        }
        let Some(run) = self.newest_run() else { return false };
        let mut dirs = attempt_dirs(&self.test_env.store_dir(), &run);
        self.random.shuffle(&mut dirs);
        for (step, dir) in dirs {
            let kills = self.shim_kills.entry((run.clone(), step)).or_default();
            if *kills < SHIM_KILLS_PER_STEP
                && let Some(shim) = live_shim(&dir)
            {
                shim.kill();
                shim.wait();
                *kills += 1;
                self.kills_left -= 1;
                return true;
            }
        }
        false
    }

    /// Stops the newest run, a peer cycle. The client, which is the command `callboard stop`, may be killed meanwhile.
    fn stop(&mut self) -> StopResult {
        let Some(run) = self.newest_run().filter(|run| !self.stopped.contains(run)) else {
            return StopResult::Refused;
        };
        let client = self.test_env.callboard(&["stop", &run]).start();
        let delay = Duration::from_secs_f64(self.longest_delay * self.random.f64());
        let killed = self.random.bool() && !client.ends_within(delay) && {
            client.kill();
            client.was_killed()
        };
        let session = client.wait();
        assert!(killed || matches!(session.code, 0 | 3), "{}", session.transcript());
        if !killed && session.code == 3 {
            return StopResult::Refused;
        }
        self.stops_left -= 1;
        self.stopped.push(run);
        if killed { StopResult::Killed } else { StopResult::Granted }
    }

    /// Waits for an engine that was killed. Sometimes kills a shim before the next engine starts.
    pub(super) fn wait_killed(&mut self, engine: Running<'_>, seed: u64) {
        let session = engine.wait();
        if self.random.u8(..4) == 0 {
            self.kill_shim();
        }
        let transcript = session.transcript();
        assert_eq!(session.code, -1, "seed {seed}: it was killed, but exited by itself:\n{transcript}");
    }

    /// Returns what `ls` lists.
    pub(super) fn runs(&self, seed: u64) -> Vec<Value> {
        let listed = self.test_env.callboard(&["ls", "--json"]).run();
        assert_eq!(listed.code, 0, "seed {seed}: {}", listed.transcript());
        listed.json().as_array().cloned().unwrap_or_default()
    }

    /// Returns the status of the newest run.
    pub(super) fn newest_status(&self, seed: u64) -> Option<String> {
        self.runs(seed).last()?["status"].as_str().map(str::to_owned)
    }

    /// Returns the newest run that has attempts.
    fn newest_run(&self) -> Option<String> {
        attempted_runs(&self.test_env.store_dir()).pop()
    }
}

/// The result of `callboard stop`.
enum StopResult {
    Granted,
    /// The client was killed, before or after the stop was granted.
    Killed,
    Refused,
}

/// Returns whether a command could not connect to the NATS server. A command that was connected before waits for the server
/// instead.
pub(super) fn server_was_down(session: &CallOutput) -> bool {
    session.code == 5 && session.stderr.contains("E023") && session.stderr.contains("connect to")
}

/// Returns the shim of an attempt that has not exited.
fn live_shim(dir: &Path) -> Option<ProcessHandle> {
    ProcessHandle::shim(dir).filter(|_| !dir.join("exit.json").exists())
}

/// Sets the flag that ends the thread in which a trial acts as a person. On drop, so that a panic ends it, too: the scope waits
/// for the thread and would hide the panic.
pub(super) struct SetOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
