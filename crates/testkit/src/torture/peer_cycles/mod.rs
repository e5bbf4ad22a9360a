//! Trials of `peer`: engines are killed until a peer cycle is completed. A cycle that failed, because a step had no
//! attempt left or the run was stopped, is continued by the next cycle.

mod check;
mod random;

use fastrand::Rng;

use super::chaos::{Chaos, server_was_down};
use super::{Tally, Torture};
use crate::test_env::Running;
use crate::test_env::TestEnv;
use random::RandomPeerCycle;

/// How many cycles of one trial are stopped by `callboard stop` at most.
const STOPS: u32 = 2;

pub(super) fn torture(torture: &Torture, seed: u64, kills: u32, tally: &mut Tally) {
    let mut random = Rng::with_seed(seed);
    let cycle = RandomPeerCycle::new(&mut random);
    let test_env = TestEnv::new(&torture.program);
    cycle.write(&test_env);
    // Phases run one after the other: with shorter delays, all kills would be used up in the first ones.
    let chaos = Chaos { longest_delay: 0.5, stops_left: STOPS, ..Chaos::new(&test_env, random, kills) };
    let mut trial = Trial { chaos, seed, resumes: 0 };
    trial.run_to_completion();
    check::check(&trial.chaos, &cycle, seed, tally);
    tally.add(&trial.chaos);
    tally.resumes += trial.resumes;
}

struct Trial<'s> {
    chaos: Chaos<'s>,
    seed: u64,
    resumes: u32,
}

impl<'s> Trial<'s> {
    /// Starts and kills engines until a cycle is completed.
    fn run_to_completion(&mut self) {
        let seed = self.seed;
        let mut engine = self.start_cycle();
        for _ in 0..100 {
            if self.chaos.disturb(&engine) {
                self.chaos.wait_killed(engine, seed);
                engine = self.next_engine();
                continue;
            }
            let session = engine.wait();
            let nothing_left = session.code == 2 && session.stderr.contains("there is no incomplete cycle");
            if session.code == 0 || nothing_left {
                return;
            }
            if server_was_down(&session) {
                engine = self.next_engine();
                continue;
            }
            // Code 1: the cycle failed, or its review was unsuccessful. Code 3: it had ended before the last engine was
            // killed. Code 5: a child that the killed engine was just starting holds the lock longer than the command
            // waits.
            let held = session.code == 5 && session.stderr.contains("error[E001]");
            let ended = session.code == 3 && {
                let status = self.chaos.newest_status(seed);
                matches!(status.as_deref(), Some("succeeded" | "incomplete" | "failed"))
            };
            assert!(
                session.code == 1 || ended || held,
                "seed {seed}: not completed:\n{}",
                session.transcript()
            );
            engine = self.continue_cycle();
        }
        panic!("seed {seed}: never completed:\n{}", engine.wait().transcript());
    }

    fn start_cycle(&self) -> Running<'s> {
        let agent = self.chaos.test_env.agent_path();
        let agent = agent.to_str().expect("our paths are UTF-8");
        let arguments = ["peer", "create-spec", "--spec", "trial", "what the user wants", "--wrapper", agent];
        self.callboard(&arguments)
    }

    fn continue_cycle(&self) -> Running<'s> {
        self.callboard(&["peer", "--continue", "--spec", "trial"])
    }

    /// Starts `resume` or `peer --continue`, or `peer` again if the first one was killed before there was a cycle.
    fn next_engine(&mut self) -> Running<'s> {
        self.resumes += 1;
        match self.chaos.runs(self.seed).last().and_then(|run| run["run"].as_str()) {
            None => self.start_cycle(),
            Some(run) if self.chaos.random.bool() => self.callboard(&["resume", run]),
            Some(_) => self.continue_cycle(),
        }
    }

    fn callboard(&self, arguments: &[&str]) -> Running<'s> {
        let test_env: &'s TestEnv = self.chaos.test_env;
        test_env.callboard(arguments).start()
    }
}
